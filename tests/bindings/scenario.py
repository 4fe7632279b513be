"""The scenario of scenario.c in Python, through cffi, whose own idea of the headers' layout is what is shown."""
import headers

ffi, lib = headers.load()
MS, S = 10**6, 10**9
BASE_NS = 1000 * S


def text(pointer):
    return ffi.string(pointer).decode()


def print_layout():
    def size(name):
        print(f"sizeof {name} = {ffi.sizeof(f'struct {name}')}")

    def field(name, member):
        print(f"offsetof {name}.{member} = {ffi.offsetof(f'struct {name}', member)}")

    size("rea_policy")
    for member in ("jitter", "chain_stop", "budget", "breaker", "classify"):
        field("rea_policy", member)
    field("rea_budget_policy", "cost_throttling")
    field("rea_breaker_policy", "max_wait_in_half_open_ns")
    size("rea_call_options")
    field("rea_call_options", "budget")
    field("rea_call_options", "single_target")
    size("rea_call")
    field("rea_call", "tried")
    size("rea_decision")
    field("rea_decision", "instance")
    field("rea_decision", "grant")
    size("rea_report")
    field("rea_report", "latency_ns")
    size("rea_instance")
    field("rea_instance", "load")
    size("rea_instances")
    size("rea_error_info")


def combine():
    a, b = ffi.new("struct rea_grant *"), ffi.new("struct rea_grant *")
    a.permission, a.source = lib.REA_PERMISSION_IDEMPOTENT, lib.REA_PERMISSION_SOURCE_OPENAPI
    b.permission, b.source = lib.REA_PERMISSION_FORBID, lib.REA_PERMISSION_SOURCE_REGISTRY
    both = lib.rea_grant_combine(a[0], b[0])
    print(f"{text(lib.rea_permission_source_name(both.source))} says {text(lib.rea_permission_name(both.permission))}")


def default_policy():
    policy = ffi.new("struct rea_policy *")
    lib.rea_policy_defaults(policy)
    return policy


def refuse():
    policy, info = default_policy(), ffi.new("struct rea_error_info *")
    policy.backoff_multiplier = 0.5
    error = lib.rea_policy_validate(policy, info)
    print(f"{text(lib.rea_error_name(error))}: {text(info.key)}: {text(info.message)}")


@ffi.callback("void(enum rea_breaker_state, enum rea_breaker_state, uint64_t, void *)")
def on_change(before, after, now_ns, user_data):
    number = ffi.from_handle(user_data)
    print(f"breaker {number}: {text(lib.rea_breaker_state_name(before))} -> {text(lib.rea_breaker_state_name(after))} at {now_ns}")


def open_breaker():
    policy, number, made = default_policy(), ffi.new_handle(7), ffi.new("struct rea_breaker **")
    assert lib.rea_breaker_new(ffi.addressof(policy, "breaker"), ffi.NULL, made, ffi.NULL) == 0
    lib.rea_breaker_on_change(made[0], on_change, number)
    lib.rea_breaker_force(made[0], lib.REA_BREAKER_OPEN, 5 * S)
    print(f"failure rate {lib.rea_breaker_failure_rate(made[0], 5 * S):.1f}")
    lib.rea_breaker_free(made[0])


def trace(decision, report, instance, now_ns):
    line = ffi.new("char[256]")
    lib.rea_trace_line(decision, report, ffi.addressof(instance, "id"), BASE_NS, now_ns, line, len(line))
    print(text(line))


def call():
    fault = ffi.new("struct rea_report *", {"outcome": lib.REA_OUTCOME_UNAVAILABLE, "code_kind": lib.REA_CODE_HTTP, "code": 503})
    good = ffi.new("struct rea_report *", {"outcome": lib.REA_OUTCOME_OK, "code_kind": lib.REA_CODE_HTTP, "code": 200})
    items = ffi.new("struct rea_instance[2]", [{"weight": 1}, {"weight": 1}])
    for item, address in zip(items, (b"127.0.0.1:9001", b"[::1]:9002")):
        assert lib.rea_instance_id_parse(address, len(address), ffi.addressof(item, "id"))
    instances = ffi.new("struct rea_instances *", {"items": items, "count": 2, "balance": lib.REA_BALANCE_LISTED})
    policy, random = default_policy(), ffi.new("struct rea_random *")
    options, call, decision = (ffi.new(f"struct {name} *") for name in ("rea_call_options", "rea_call", "rea_decision"))
    budget = ffi.new("struct rea_budget **")

    policy.enabled = True
    assert lib.rea_budget_new(ffi.addressof(policy, "budget"), 1, ffi.NULL, budget, ffi.NULL) == 0
    lib.rea_random_init(random, 1)
    lib.rea_call_options_init(options)
    options.policy, options.budget = policy, budget[0]
    options.grant.permission, options.grant.source = lib.REA_PERMISSION_IDEMPOTENT, lib.REA_PERMISSION_SOURCE_CALLER

    now_ns = BASE_NS
    lib.rea_call_begin(call, options, now_ns)
    lib.rea_call_attempt(call, instances, random, now_ns, decision)
    chosen = items[decision.instance]
    trace(decision, ffi.NULL, chosen, now_ns)
    now_ns += 5 * MS
    lib.rea_call_report(call, fault, instances, random, now_ns, decision)
    trace(decision, fault, chosen, now_ns)
    now_ns = decision.wait_until_ns
    lib.rea_call_attempt(call, instances, random, now_ns, decision)
    chosen = items[decision.instance]
    trace(decision, ffi.NULL, chosen, now_ns)
    now_ns += 7 * MS
    lib.rea_call_report(call, good, instances, random, now_ns, decision)
    trace(decision, good, chosen, now_ns)
    lib.rea_budget_free(budget[0])


print(f"rea {text(lib.rea_version())}")
print_layout()
combine()
refuse()
open_breaker()
call()
