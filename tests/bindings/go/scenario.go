// The scenario of scenario.c in Go, through cgo. Flags come from CGO_CFLAGS and CGO_LDFLAGS.
package main

/*
#include <rea/explain.h>

#include <stdlib.h>

void on_change(enum rea_breaker_state from, enum rea_breaker_state to, uint64_t now_ns, void *user_data);
*/
import "C"

import (
	"fmt"
	"runtime/cgo"
	"unsafe"
)

const (
	ms     = 1_000_000
	s      = 1_000_000_000
	baseNs = 1000 * s
)

func printLayout() {
	var (
		policy    C.struct_rea_policy
		options   C.struct_rea_call_options
		call      C.struct_rea_call
		decision  C.struct_rea_decision
		report    C.struct_rea_report
		instance  C.struct_rea_instance
		instances C.struct_rea_instances
		info      C.struct_rea_error_info
	)
	size := func(name string, n uintptr) { fmt.Printf("sizeof %s = %d\n", name, n) }
	field := func(name string, n uintptr) { fmt.Printf("offsetof %s = %d\n", name, n) }

	size("rea_policy", unsafe.Sizeof(policy))
	field("rea_policy.jitter", unsafe.Offsetof(policy.jitter))
	field("rea_policy.chain_stop", unsafe.Offsetof(policy.chain_stop))
	field("rea_policy.budget", unsafe.Offsetof(policy.budget))
	field("rea_policy.breaker", unsafe.Offsetof(policy.breaker))
	field("rea_policy.classify", unsafe.Offsetof(policy.classify))
	field("rea_budget_policy.cost_throttling", unsafe.Offsetof(policy.budget.cost_throttling))
	field("rea_breaker_policy.max_wait_in_half_open_ns", unsafe.Offsetof(policy.breaker.max_wait_in_half_open_ns))
	size("rea_call_options", unsafe.Sizeof(options))
	field("rea_call_options.budget", unsafe.Offsetof(options.budget))
	field("rea_call_options.single_target", unsafe.Offsetof(options.single_target))
	size("rea_call", unsafe.Sizeof(call))
	field("rea_call.tried", unsafe.Offsetof(call.tried))
	size("rea_decision", unsafe.Sizeof(decision))
	field("rea_decision.instance", unsafe.Offsetof(decision.instance))
	field("rea_decision.grant", unsafe.Offsetof(decision.grant))
	size("rea_report", unsafe.Sizeof(report))
	field("rea_report.latency_ns", unsafe.Offsetof(report.latency_ns))
	size("rea_instance", unsafe.Sizeof(instance))
	field("rea_instance.load", unsafe.Offsetof(instance.load))
	size("rea_instances", unsafe.Sizeof(instances))
	size("rea_error_info", unsafe.Sizeof(info))
}

func combine() {
	both := C.rea_grant_combine(
		C.struct_rea_grant{permission: C.REA_PERMISSION_IDEMPOTENT, source: C.REA_PERMISSION_SOURCE_OPENAPI},
		C.struct_rea_grant{permission: C.REA_PERMISSION_FORBID, source: C.REA_PERMISSION_SOURCE_REGISTRY})
	fmt.Printf("%s says %s\n", C.GoString(C.rea_permission_source_name(both.source)), C.GoString(C.rea_permission_name(both.permission)))
}

func refuse() {
	var policy C.struct_rea_policy
	var info C.struct_rea_error_info

	C.rea_policy_defaults(&policy)
	policy.backoff_multiplier = 0.5
	err := C.rea_policy_validate(&policy, &info)
	fmt.Printf("%s: %s: %s\n", C.GoString(C.rea_error_name(err)), C.GoString(&info.key[0]), C.GoString(&info.message[0]))
}

//export on_change
func on_change(from, to C.enum_rea_breaker_state, nowNs C.uint64_t, userData unsafe.Pointer) {
	number := (*(*cgo.Handle)(userData)).Value().(int)
	fmt.Printf("breaker %d: %s -> %s at %d\n", number, C.GoString(C.rea_breaker_state_name(from)),
		C.GoString(C.rea_breaker_state_name(to)), nowNs)
}

func openBreaker() {
	var policy C.struct_rea_policy
	var breaker *C.struct_rea_breaker
	number := (*cgo.Handle)(C.malloc(C.size_t(unsafe.Sizeof(cgo.Handle(0)))))

	*number = cgo.NewHandle(7)
	defer C.free(unsafe.Pointer(number))
	defer number.Delete()
	C.rea_policy_defaults(&policy)
	if C.rea_breaker_new(&policy.breaker, nil, &breaker, nil) != 0 {
		panic("no breaker")
	}
	defer C.rea_breaker_free(breaker)
	C.rea_breaker_on_change(breaker, (*[0]byte)(C.on_change), unsafe.Pointer(number))
	C.rea_breaker_force(breaker, C.REA_BREAKER_OPEN, 5*s)
	fmt.Printf("failure rate %.1f\n", float64(C.rea_breaker_failure_rate(breaker, 5*s)))
}

func trace(decision *C.struct_rea_decision, report *C.struct_rea_report, instance *C.struct_rea_instance, nowNs C.uint64_t) {
	var line [C.REA_TRACE_LINE_MAX]C.char

	C.rea_trace_line(decision, report, &instance.id, baseNs, nowNs, &line[0], C.size_t(len(line)))
	fmt.Println(C.GoString(&line[0]))
}

func zeroed[T any](n int) []T {
	var one T

	return unsafe.Slice((*T)(C.calloc(C.size_t(n), C.size_t(unsafe.Sizeof(one)))), n)
}

// What the call keeps pointers to lives in C's memory, as cgo demands.
func call() {
	policy := &zeroed[C.struct_rea_policy](1)[0]
	items := zeroed[C.struct_rea_instance](2)
	state := &zeroed[C.struct_rea_call](1)[0]
	fault := C.struct_rea_report{outcome: C.REA_OUTCOME_UNAVAILABLE, code_kind: C.REA_CODE_HTTP, code: 503}
	good := C.struct_rea_report{outcome: C.REA_OUTCOME_OK, code_kind: C.REA_CODE_HTTP, code: 200}
	instances := C.struct_rea_instances{items: &items[0], count: 2, balance: C.REA_BALANCE_LISTED}
	var random C.struct_rea_random
	var options C.struct_rea_call_options
	var decision C.struct_rea_decision

	defer C.free(unsafe.Pointer(policy))
	defer C.free(unsafe.Pointer(&items[0]))
	defer C.free(unsafe.Pointer(state))
	for i, address := range []string{"127.0.0.1:9001", "[::1]:9002"} {
		text := C.CString(address)
		items[i].weight = 1
		if !C.rea_instance_id_parse(text, C.size_t(len(address)), &items[i].id) {
			panic(address)
		}
		C.free(unsafe.Pointer(text))
	}
	C.rea_policy_defaults(policy)
	policy.enabled = true
	C.rea_random_init(&random, 1)
	C.rea_call_options_init(&options)
	options.policy = policy
	options.grant = C.struct_rea_grant{permission: C.REA_PERMISSION_IDEMPOTENT, source: C.REA_PERMISSION_SOURCE_CALLER}
	if C.rea_budget_new(&policy.budget, 1, nil, &options.budget, nil) != 0 {
		panic("no budget")
	}
	defer C.rea_budget_free(options.budget)

	nowNs := C.uint64_t(baseNs)
	C.rea_call_begin(state, &options, nowNs)
	C.rea_call_attempt(state, &instances, &random, nowNs, &decision)
	chosen := &items[decision.instance]
	trace(&decision, nil, chosen, nowNs)
	nowNs += 5 * ms
	C.rea_call_report(state, &fault, &instances, &random, nowNs, &decision)
	trace(&decision, &fault, chosen, nowNs)
	nowNs = decision.wait_until_ns
	C.rea_call_attempt(state, &instances, &random, nowNs, &decision)
	chosen = &items[decision.instance]
	trace(&decision, nil, chosen, nowNs)
	nowNs += 7 * ms
	C.rea_call_report(state, &good, &instances, &random, nowNs, &decision)
	trace(&decision, &good, chosen, nowNs)
}

func main() {
	fmt.Printf("rea %s\n", C.GoString(C.rea_version()))
	printLayout()
	combine()
	refuse()
	openBreaker()
	call()
}
