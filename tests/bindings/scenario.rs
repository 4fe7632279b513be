// The scenario of scenario.c in Rust, with declarations written by hand.
#![allow(dead_code)]

use std::ffi::CStr;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{addr_of, null, null_mut};

// Enums of C are unsigned here: a value that this program does not know must not be undefined behaviour.
type Enum = u32;

const PERMISSION_IDEMPOTENT: Enum = 2;
const PERMISSION_FORBID: Enum = 5;
const SOURCE_OPENAPI: Enum = 3;
const SOURCE_REGISTRY: Enum = 5;
const SOURCE_CALLER: Enum = 6;
const BREAKER_OPEN: Enum = 1;
const OUTCOME_OK: Enum = 0;
const OUTCOME_UNAVAILABLE: Enum = 4;
const CODE_HTTP: Enum = 1;
const BALANCE_LISTED: Enum = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct Grant {
    permission: Enum,
    source: Enum,
}

#[repr(C)]
struct BudgetPolicy {
    rule: Enum,
    ratio_permille: u32,
    reserve_per_s: u32,
    window_ms: u32,
    max_tokens: u32,
    token_ratio_permille: u32,
    capacity: u32,
    cost_transient: u32,
    cost_timeout: u32,
    cost_throttling: u32,
}

#[repr(C)]
struct BreakerPolicy {
    enabled: bool,
    failure_rate_threshold: f64,
    slow_call_rate_threshold: f64,
    slow_call_duration_ns: u64,
    window_type: Enum,
    window_size: u32,
    minimum_calls: u32,
    wait_in_open_ns: u64,
    permitted_in_half_open: u32,
    max_wait_in_half_open_ns: u64,
}

#[repr(C)]
struct ClassifyRule {
    kind: Enum,
    code: u32,
    outcome: Enum,
}

#[repr(C)]
struct Policy {
    enabled: bool,
    max_retry_same_instance: u32,
    max_retry_next_instance: u32,
    min_backoff_ns: u64,
    max_backoff_ns: u64,
    backoff_multiplier: f64,
    jitter: f64,
    jitter_kind: Enum,
    backoff_floor_ns: u64,
    attempt_timeout_ns: u64,
    deadline_ns: u64,
    retry_on: u32,
    never_sent: Enum,
    when_all_tried: Enum,
    mode: Enum,
    chain_stop: bool,
    replay_limit_bytes: u32,
    budget: BudgetPolicy,
    breaker: BreakerPolicy,
    classify_len: usize,
    classify: [ClassifyRule; 32],
}

#[repr(C)]
struct ErrorInfo {
    file: [c_char; 256],
    line: u32,
    column: u32,
    key: [c_char; 160],
    message: [c_char; 320],
}

#[repr(C)]
struct Random {
    s: [u64; 4],
}

#[repr(C)]
struct InstanceId {
    address: [u8; 16],
    port: u16,
}

#[repr(C)]
struct Instance {
    id: InstanceId,
    weight: u32,
    grant: Grant,
    load: *mut c_void,
}

#[repr(C)]
struct Instances {
    items: *const Instance,
    count: usize,
    balance: Enum,
    equal_weights: bool,
}

#[repr(C)]
struct Report {
    outcome: Enum,
    code_kind: Enum,
    code: u32,
    flags: u32,
    after_ns: u64,
    latency_ns: u64,
}

#[repr(C)]
struct CallOptions {
    version: u32,
    policy: *const Policy,
    grant: Grant,
    has_key: bool,
    chained: bool,
    deadline_ns: u64,
    deadline_open: bool,
    useful_ns: u64,
    budget: *mut c_void,
    budget_shard: u32,
    breaker: *mut c_void,
    gate: *const c_void,
    limit: *mut c_void,
    single_target: bool,
}

#[repr(C)]
struct BudgetLease {
    taken_ns: u64,
    rule: Enum,
    cost: u32,
    held: bool,
}

#[repr(C)]
struct BreakerPermit {
    generation: u64,
    given: bool,
}

#[repr(C)]
struct Call {
    options: CallOptions,
    state: u32,
    attempts: u32,
    attempts_max: u32,
    same_left: u32,
    next_left: u32,
    permitted: u32,
    last_outcome: Enum,
    limit_held: bool,
    now_ns: u64,
    deadline_ns: u64,
    wait_until_ns: u64,
    grant: Grant,
    lease: BudgetLease,
    permit: BreakerPermit,
    tried_len: u32,
    tried: [InstanceId; 10],
}

#[repr(C)]
struct Decision {
    step: Enum,
    verdict: Enum,
    reason: Enum,
    stop: bool,
    would_retry: bool,
    retryable: bool,
    attempt: u32,
    attempts_max: u32,
    instance: usize,
    wait_ns: u64,
    wait_until_ns: u64,
    attempt_deadline_ns: u64,
    grant: Grant,
}

type OnChange = extern "C" fn(from: Enum, to: Enum, now_ns: u64, user_data: *mut c_void);

#[link(name = "rea")]
extern "C" {
    fn rea_version() -> *const c_char;
    fn rea_error_name(error: c_int) -> *const c_char;
    fn rea_permission_name(permission: Enum) -> *const c_char;
    fn rea_permission_source_name(source: Enum) -> *const c_char;
    fn rea_grant_combine(a: Grant, b: Grant) -> Grant;
    fn rea_policy_defaults(policy: *mut Policy);
    fn rea_policy_validate(policy: *const Policy, info: *mut ErrorInfo) -> c_int;
    fn rea_breaker_new(policy: *const BreakerPolicy, alloc: *const c_void, ret_breaker: *mut *mut c_void) -> c_int;
    fn rea_breaker_free(breaker: *mut c_void);
    fn rea_breaker_on_change(breaker: *mut c_void, changed: OnChange, user_data: *mut c_void);
    fn rea_breaker_force(breaker: *mut c_void, state: Enum, now_ns: u64);
    fn rea_breaker_failure_rate(breaker: *const c_void, now_ns: u64) -> f64;
    fn rea_breaker_state_name(state: Enum) -> *const c_char;
    fn rea_budget_new(policy: *const BudgetPolicy, shards: u32, alloc: *const c_void, ret_budget: *mut *mut c_void) -> c_int;
    fn rea_budget_free(budget: *mut c_void);
    fn rea_random_init(random: *mut Random, seed: u64);
    fn rea_instance_id_parse(text: *const c_char, length: usize, ret_id: *mut InstanceId) -> bool;
    fn rea_call_options_init(options: *mut CallOptions);
    fn rea_call_begin(call: *mut Call, options: *const CallOptions, now_ns: u64);
    fn rea_call_attempt(call: *mut Call, instances: *const Instances, random: *mut Random, now_ns: u64, ret_decision: *mut Decision);
    fn rea_call_report(
        call: *mut Call, report: *const Report, instances: *const Instances, random: *mut Random, now_ns: u64, ret_decision: *mut Decision,
    );
    fn rea_trace_line(
        decision: *const Decision, report: *const Report, instance: *const InstanceId, base_ns: u64, now_ns: u64, ret_line: *mut c_char,
        size: usize,
    ) -> usize;
}

const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;
const BASE_NS: u64 = 1000 * S;

fn text<'a>(pointer: *const c_char) -> &'a str {
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap()
}

macro_rules! size {
    ($name:literal, $type:ty) => {
        println!("sizeof {} = {}", $name, size_of::<$type>())
    };
}

macro_rules! field {
    ($name:literal, $type:ty, $field:ident) => {{
        let value = MaybeUninit::<$type>::uninit();
        let offset = unsafe { addr_of!((*value.as_ptr()).$field) as usize } - value.as_ptr() as usize;
        println!("offsetof {}.{} = {}", $name, stringify!($field), offset)
    }};
}

fn print_layout() {
    size!("rea_policy", Policy);
    field!("rea_policy", Policy, jitter);
    field!("rea_policy", Policy, chain_stop);
    field!("rea_policy", Policy, budget);
    field!("rea_policy", Policy, breaker);
    field!("rea_policy", Policy, classify);
    field!("rea_budget_policy", BudgetPolicy, cost_throttling);
    field!("rea_breaker_policy", BreakerPolicy, max_wait_in_half_open_ns);
    size!("rea_call_options", CallOptions);
    field!("rea_call_options", CallOptions, budget);
    field!("rea_call_options", CallOptions, single_target);
    size!("rea_call", Call);
    field!("rea_call", Call, tried);
    size!("rea_decision", Decision);
    field!("rea_decision", Decision, instance);
    field!("rea_decision", Decision, grant);
    size!("rea_report", Report);
    field!("rea_report", Report, latency_ns);
    size!("rea_instance", Instance);
    field!("rea_instance", Instance, load);
    size!("rea_instances", Instances);
    size!("rea_error_info", ErrorInfo);
}

fn combine() {
    let openapi = Grant { permission: PERMISSION_IDEMPOTENT, source: SOURCE_OPENAPI };
    let registry = Grant { permission: PERMISSION_FORBID, source: SOURCE_REGISTRY };
    let both = unsafe { rea_grant_combine(openapi, registry) };
    println!("{} says {}", text(unsafe { rea_permission_source_name(both.source) }), text(unsafe { rea_permission_name(both.permission) }));
}

fn default_policy() -> Policy {
    let mut policy = MaybeUninit::uninit();
    unsafe {
        rea_policy_defaults(policy.as_mut_ptr());
        policy.assume_init()
    }
}

fn refuse() {
    let mut policy = default_policy();
    let mut info = MaybeUninit::<ErrorInfo>::zeroed();
    policy.backoff_multiplier = 0.5;
    let error = unsafe { rea_policy_validate(&policy, info.as_mut_ptr()) };
    let info = unsafe { info.assume_init() };
    println!("{}: {}: {}", text(unsafe { rea_error_name(error) }), text(info.key.as_ptr()), text(info.message.as_ptr()));
}

extern "C" fn on_change(from: Enum, to: Enum, now_ns: u64, user_data: *mut c_void) {
    let number = unsafe { *(user_data as *const u32) };
    let name = |state| text(unsafe { rea_breaker_state_name(state) });
    println!("breaker {}: {} -> {} at {}", number, name(from), name(to), now_ns);
}

fn open_breaker() {
    let mut number: u32 = 7;
    let policy = default_policy();
    let mut breaker = null_mut();
    unsafe {
        assert_eq!(rea_breaker_new(&policy.breaker, null(), &mut breaker), 0);
        rea_breaker_on_change(breaker, on_change, &mut number as *mut u32 as *mut c_void);
        rea_breaker_force(breaker, BREAKER_OPEN, 5 * S);
        println!("failure rate {:.1}", rea_breaker_failure_rate(breaker, 5 * S));
        rea_breaker_free(breaker);
    }
}

fn trace(decision: &Decision, report: Option<&Report>, instance: &Instance, now_ns: u64) {
    let mut line = [0 as c_char; 256];
    let report = report.map_or(null(), |report| report as *const Report);
    unsafe { rea_trace_line(decision, report, &instance.id, BASE_NS, now_ns, line.as_mut_ptr(), line.len()) };
    println!("{}", text(line.as_ptr()));
}

fn at(address: &str) -> Instance {
    let mut instance = unsafe { MaybeUninit::<Instance>::zeroed().assume_init() };
    instance.weight = 1;
    assert!(unsafe { rea_instance_id_parse(address.as_ptr() as *const c_char, address.len(), &mut instance.id) });
    instance
}

fn call() {
    let http = |outcome, code| Report { outcome, code_kind: CODE_HTTP, code, flags: 0, after_ns: 0, latency_ns: 0 };
    let (fault, good) = (http(OUTCOME_UNAVAILABLE, 503), http(OUTCOME_OK, 200));
    let items = [at("127.0.0.1:9001"), at("[::1]:9002")];
    let instances = Instances { items: items.as_ptr(), count: items.len(), balance: BALANCE_LISTED, equal_weights: false };
    let mut policy = default_policy();
    let mut random = Random { s: [0; 4] };
    let mut budget = null_mut();
    policy.enabled = true;
    unsafe {
        let mut options = MaybeUninit::<CallOptions>::uninit();
        let mut call = MaybeUninit::<Call>::uninit();
        let mut decision = MaybeUninit::<Decision>::zeroed().assume_init();

        assert_eq!(rea_budget_new(&policy.budget, 1, null(), &mut budget), 0);
        rea_random_init(&mut random, 1);
        rea_call_options_init(options.as_mut_ptr());
        let mut options = options.assume_init();
        options.policy = &policy;
        options.budget = budget;
        options.grant = Grant { permission: PERMISSION_IDEMPOTENT, source: SOURCE_CALLER };

        let mut now_ns = BASE_NS;
        rea_call_begin(call.as_mut_ptr(), &options, now_ns);
        rea_call_attempt(call.as_mut_ptr(), &instances, &mut random, now_ns, &mut decision);
        let chosen = &items[decision.instance];
        trace(&decision, None, chosen, now_ns);
        now_ns += 5 * MS;
        rea_call_report(call.as_mut_ptr(), &fault, &instances, &mut random, now_ns, &mut decision);
        trace(&decision, Some(&fault), chosen, now_ns);
        now_ns = decision.wait_until_ns;
        rea_call_attempt(call.as_mut_ptr(), &instances, &mut random, now_ns, &mut decision);
        let chosen = &items[decision.instance];
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
