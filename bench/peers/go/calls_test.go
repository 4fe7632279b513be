// What sony/gobreaker and failsafe-go take for the calls that bench/guard.c measures, CPU time of the process beside the clock's:
// go test -bench 'Gobreaker|Failsafe' -cpu 1,2; go test -bench Timer -cpu 1
package bench

import (
	"errors"
	"math/rand"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/failsafe-go/failsafe-go"
	"github.com/failsafe-go/failsafe-go/budget"
	"github.com/failsafe-go/failsafe-go/circuitbreaker"
	"github.com/failsafe-go/failsafe-go/ratelimiter"
	"github.com/failsafe-go/failsafe-go/retrypolicy"
	"github.com/sony/gobreaker/v2"
)

var errFailed = errors.New("failed")

func succeed() (int, error) { return 1, nil }

func cpuNs() int64 {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return usage.Utime.Nano() + usage.Stime.Nano()
}

// wanted is the error of every call; one benchmark is one row.
func measure(b *testing.B, name string, wanted error, call func() error) {
	b.Run(name, func(b *testing.B) {
		b.ReportAllocs()
		before := cpuNs()
		b.RunParallel(func(loop *testing.PB) {
			for loop.Next() {
				if err := call(); !errors.Is(err, wanted) {
					panic(err)
				}
			}
		})
		b.ReportMetric(float64(cpuNs()-before)/float64(b.N), "cpu-ns/op")
	})
}

func newGobreaker() *gobreaker.CircuitBreaker[int] {
	return gobreaker.NewCircuitBreaker[int](gobreaker.Settings{
		Interval: time.Minute,
		Timeout:  time.Hour,
		ReadyToTrip: func(counts gobreaker.Counts) bool {
			return counts.Requests >= 100 && 2*counts.TotalFailures >= counts.Requests
		},
	})
}

func BenchmarkGobreaker(b *testing.B) {
	breaker := newGobreaker()
	measure(b, "breaker", nil, func() error { _, err := breaker.Execute(succeed); return err })
	for breaker.State() != gobreaker.StateOpen {
		breaker.Execute(func() (int, error) { return 0, errFailed })
	}
	measure(b, "breaker-refused", gobreaker.ErrOpenState, func() error { _, err := breaker.Execute(succeed); return err })
}

func newBreaker() circuitbreaker.CircuitBreaker[int] {
	return circuitbreaker.NewBuilder[int]().WithFailureThresholdRatio(50, 100).WithDelay(time.Hour).Build()
}

func newRetry() retrypolicy.RetryPolicy[int] {
	return retrypolicy.NewBuilder[int]().WithMaxRetries(2).WithBackoff(20*time.Millisecond, time.Second).
		WithBudget(budget.New()).AbortOnErrors(circuitbreaker.ErrOpen).ReturnLastFailure().Build()
}

func BenchmarkFailsafe(b *testing.B) {
	breaker := newBreaker()
	alone := failsafe.With[int](breaker)
	guard := failsafe.With[int](newRetry(), breaker)
	rate := failsafe.With[int](newRetry(), ratelimiter.NewBursty[int](1<<40, time.Second), breaker)
	get := func(executor failsafe.Executor[int]) func() error {
		return func() error { _, err := executor.Get(succeed); return err }
	}
	measure(b, "breaker", nil, get(alone))
	measure(b, "guard", nil, get(guard))
	measure(b, "guard+rate", nil, get(rate))
	breaker.Open()
	measure(b, "breaker-refused", circuitbreaker.ErrOpen, get(alone))
	measure(b, "guard-refused", circuitbreaker.ErrOpen, get(guard))
}

func heapBytes() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

const pendingTimers = 1000000

func later() *time.Timer {
	return time.AfterFunc(10*time.Hour+time.Duration(rand.Int63n(int64(time.Hour))), func() {})
}

// A million timers wait; any of them is cancelled and another set.
func BenchmarkTimer(b *testing.B) {
	timers := make([]*time.Timer, pendingTimers)
	empty := heapBytes()
	for i := range timers {
		timers[i] = later()
	}
	bytes := float64(heapBytes()-empty) / pendingTimers
	b.Run("pending", func(b *testing.B) {
		before := cpuNs()
		for i := 0; i < b.N; i++ {
			number := rand.Intn(pendingTimers)
			timers[number].Stop()
			timers[number] = later()
		}
		b.ReportMetric(float64(cpuNs()-before)/float64(b.N), "cpu-ns/op")
		b.ReportMetric(bytes, "pending-B")
	})
	runtime.KeepAlive(timers)
}
