package rea.bench;

import io.github.resilience4j.circuitbreaker.CallNotPermittedException;
import io.github.resilience4j.circuitbreaker.CircuitBreaker;
import io.github.resilience4j.circuitbreaker.CircuitBreakerConfig;
import io.github.resilience4j.core.IntervalFunction;
import io.github.resilience4j.ratelimiter.RateLimiter;
import io.github.resilience4j.ratelimiter.RateLimiterConfig;
import io.github.resilience4j.retry.Retry;
import io.github.resilience4j.retry.RetryConfig;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.State;

/** What Resilience4j takes for the calls that bench/guard.c measures; a refusal without its stack trace. One state for all threads. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Calls {
	private static final Supplier<Integer> SUCCEED = () -> 1;

	private final Supplier<Integer> breaker;
	private final Supplier<Integer> guard;
	private final Supplier<Integer> guardRate;
	private final Supplier<Integer> breakerRefused;
	private final Supplier<Integer> guardRefused;

	public Calls() {
		CircuitBreaker closed = CircuitBreaker.of("closed", CircuitBreakerConfig.ofDefaults());
		CircuitBreaker open = CircuitBreaker.of("open", CircuitBreakerConfig.custom().writableStackTraceEnabled(false).build());
		open.transitionToForcedOpenState();
		Retry retry = Retry.of("retry", RetryConfig.custom()
				.maxAttempts(3)
				.intervalFunction(IntervalFunction.ofExponentialRandomBackoff(Duration.ofMillis(20)))
				.ignoreExceptions(CallNotPermittedException.class)
				.build());
		RateLimiter rate = RateLimiter.of("rate", RateLimiterConfig.custom()
				.limitForPeriod(1_000_000_000)
				.limitRefreshPeriod(Duration.ofSeconds(1))
				.timeoutDuration(Duration.ZERO)
				.build());
		breaker = CircuitBreaker.decorateSupplier(closed, SUCCEED);
		guard = Retry.decorateSupplier(retry, breaker);
		guardRate = Retry.decorateSupplier(retry, RateLimiter.decorateSupplier(rate, breaker));
		breakerRefused = CircuitBreaker.decorateSupplier(open, SUCCEED);
		guardRefused = Retry.decorateSupplier(retry, breakerRefused);
	}

	private static CallNotPermittedException refused(Supplier<Integer> call) {
		try {
			call.get();
		} catch (CallNotPermittedException refusal) {
			return refusal;
		}
		throw new IllegalStateException("an open breaker let a call through");
	}

	@Benchmark
	public int breaker() {
		return breaker.get();
	}

	@Benchmark
	public int guard() {
		return guard.get();
	}

	@Benchmark
	public int guardRate() {
		return guardRate.get();
	}

	@Benchmark
	public Object breakerRefused() {
		return refused(breakerRefused);
	}

	@Benchmark
	public Object guardRefused() {
		return refused(guardRefused);
	}
}
