// The scenario of scenario.c in Rust. The declarations are those that bindgen makes of the installed headers; BINDINGS names their file.
use std::ffi::CStr;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_void};
use std::ptr::{addr_of, null, null_mut};

#[allow(dead_code, deref_nullptr, non_camel_case_types, non_snake_case, non_upper_case_globals)]
mod rea {
    include!(env!("BINDINGS"));
}
use rea::*;

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const BASE_NS: u64 = 1000 * S;

fn text<'a>(pointer: *const c_char) -> &'a str {
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

macro_rules! size {
    ($type:ty) => {
        println!("sizeof {} = {}", stringify!($type), size_of::<$type>())
    };
}

macro_rules! field {
    ($type:ty, $field:ident) => {{
        let value = MaybeUninit::<$type>::uninit();
        let offset = unsafe { addr_of!((*value.as_ptr()).$field) as usize } - value.as_ptr() as usize;
        println!("offsetof {}.{} = {}", stringify!($type), stringify!($field), offset)
    }};
}

fn print_layout() {
    size!(rea_policy);
    field!(rea_policy, jitter);
    field!(rea_policy, chain_stop);
    field!(rea_policy, budget);
    field!(rea_policy, breaker);
    field!(rea_policy, classify);
    field!(rea_budget_policy, cost_throttling);
    field!(rea_breaker_policy, max_wait_in_half_open_ns);
    size!(rea_call_options);
    field!(rea_call_options, budget);
    field!(rea_call_options, single_target);
    size!(rea_call);
    field!(rea_call, tried);
    size!(rea_decision);
    field!(rea_decision, instance);
    field!(rea_decision, grant);
    size!(rea_report);
    field!(rea_report, latency_ns);
    size!(rea_instance);
    field!(rea_instance, load);
    size!(rea_instances);
    size!(rea_error_info);
}

fn combine() {
    let openapi = rea_grant { permission: REA_PERMISSION_IDEMPOTENT, source: REA_PERMISSION_SOURCE_OPENAPI };
    let registry = rea_grant { permission: REA_PERMISSION_FORBID, source: REA_PERMISSION_SOURCE_REGISTRY };
    let both = unsafe { rea_grant_combine(openapi, registry) };
    println!("{} says {}", text(unsafe { rea_permission_source_name(both.source) }), text(unsafe { rea_permission_name(both.permission) }));
}

fn default_policy() -> rea_policy {
    let mut policy = MaybeUninit::uninit();
    unsafe {
        rea_policy_defaults(policy.as_mut_ptr());
        policy.assume_init()
    }
}

fn refuse() {
    let mut policy = default_policy();
    let mut info = MaybeUninit::<rea_error_info>::zeroed();
    policy.backoff_multiplier = 0.5;
    let error = unsafe { rea_policy_validate(&policy, info.as_mut_ptr()) };
    let info = unsafe { info.assume_init() };
    println!("{}: {}: {}", text(unsafe { rea_error_name(error) }), text(info.key.as_ptr()), text(info.message.as_ptr()));
}

extern "C" fn on_change(from: rea_breaker_state, to: rea_breaker_state, now_ns: u64, user_data: *mut c_void) {
    let number = unsafe { *(user_data as *const u32) };
    let name = |state| text(unsafe { rea_breaker_state_name(state) });
    println!("breaker {}: {} -> {} at {}", number, name(from), name(to), now_ns);
}

fn open_breaker() {
    let mut number: u32 = 7;
    let policy = default_policy();
    let mut breaker = null_mut();
    unsafe {
        assert_eq!(rea_breaker_new(&policy.breaker, null(), &mut breaker, null_mut()), 0);
        rea_breaker_on_change(breaker, Some(on_change), &mut number as *mut u32 as *mut c_void);
        rea_breaker_force(breaker, REA_BREAKER_OPEN, 5 * S);
        println!("failure rate {:.1}", rea_breaker_failure_rate(breaker, 5 * S));
        rea_breaker_free(breaker);
    }
}

fn trace(decision: &rea_decision, report: Option<&rea_report>, instance: &rea_instance, now_ns: u64) {
    let mut line = [0 as c_char; REA_TRACE_LINE_MAX as usize];
    let report = report.map_or(null(), |report| report as *const rea_report);
    unsafe { rea_trace_line(decision, report, &instance.id, BASE_NS, now_ns, line.as_mut_ptr(), line.len()) };
    println!("{}", text(line.as_ptr()));
}

fn at(address: &str) -> rea_instance {
    let mut instance = unsafe { MaybeUninit::<rea_instance>::zeroed().assume_init() };
    instance.weight = 1;
    assert!(unsafe { rea_instance_id_parse(address.as_ptr() as *const c_char, address.len(), &mut instance.id) });
    instance
}

fn call() {
    let http = |outcome, code| rea_report { outcome, code_kind: REA_CODE_HTTP, code, flags: 0, after_ns: 0, latency_ns: 0 };
    let (fault, good) = (http(REA_OUTCOME_UNAVAILABLE, 503), http(REA_OUTCOME_OK, 200));
    let items = [at("127.0.0.1:9001"), at("[::1]:9002")];
    let instances = rea_instances { items: items.as_ptr(), count: items.len(), balance: REA_BALANCE_LISTED, equal_weights: false, never_eject: false };
    let mut policy = default_policy();
    let mut random = rea_random { s: [0; 4] };
    let mut budget = null_mut();
    policy.enabled = true;
    unsafe {
        let mut options = MaybeUninit::<rea_call_options>::uninit();
        let mut call = MaybeUninit::<rea_call>::uninit();
        let mut decision = MaybeUninit::<rea_decision>::zeroed().assume_init();

        assert_eq!(rea_budget_new(&policy.budget, 1, null(), &mut budget, null_mut()), 0);
        rea_random_init(&mut random, 1);
        rea_call_options_init(options.as_mut_ptr());
        let mut options = options.assume_init();
        options.policy = &policy;
        options.budget = budget;
        options.grant = rea_grant { permission: REA_PERMISSION_IDEMPOTENT, source: REA_PERMISSION_SOURCE_CALLER };

        let mut now_ns = BASE_NS;
        rea_call_begin(call.as_mut_ptr(), &options, now_ns);
        rea_call_attempt(call.as_mut_ptr(), &instances, &mut random, now_ns, &mut decision);
        let chosen = &items[decision.instance as usize];
        trace(&decision, None, chosen, now_ns);
        now_ns += 5 * MS;
        rea_call_report(call.as_mut_ptr(), &fault, &instances, &mut random, now_ns, &mut decision);
        trace(&decision, Some(&fault), chosen, now_ns);
        now_ns = decision.wait_until_ns;
        rea_call_attempt(call.as_mut_ptr(), &instances, &mut random, now_ns, &mut decision);
        let chosen = &items[decision.instance as usize];
        trace(&decision, None, chosen, now_ns);
        now_ns += 7 * MS;
        rea_call_report(call.as_mut_ptr(), &good, &instances, &mut random, now_ns, &mut decision);
        trace(&decision, Some(&good), chosen, now_ns);
        rea_budget_free(budget);
    }
}

fn main() {
    println!("rea {}", text(unsafe { rea_version() }));
    print_layout();
    combine();
    refuse();
    open_breaker();
    call();
}
