package rea.bench;

import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.Benchmark;
import org.openjdk.jmh.annotations.BenchmarkMode;
import org.openjdk.jmh.annotations.Mode;
import org.openjdk.jmh.annotations.OutputTimeUnit;
import org.openjdk.jmh.annotations.Scope;
import org.openjdk.jmh.annotations.Setup;
import org.openjdk.jmh.annotations.State;
import org.openjdk.jmh.annotations.TearDown;

/** A million tasks wait in the executor that Resilience4j delays retries with; any of them is cancelled and another submitted. */
@State(Scope.Benchmark)
@BenchmarkMode(Mode.AverageTime)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
public class Pending {
	private static final int WAITING = 1_000_000;
	private static final Runnable NOTHING = () -> {};

	private final ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
	private final ScheduledFuture<?>[] waiting = new ScheduledFuture<?>[WAITING];

	private static long usedBytes() {
		System.gc();
		return Runtime.getRuntime().totalMemory() - Runtime.getRuntime().freeMemory();
	}

	private ScheduledFuture<?> submit() {
		long delayMs = 36_000_000L + ThreadLocalRandom.current().nextLong(3_600_000L);
		return executor.schedule(NOTHING, delayMs, TimeUnit.MILLISECONDS);
	}

	@Setup
	public void fill() {
		executor.setRemoveOnCancelPolicy(true);
		long empty = usedBytes();
		for (int i = 0; i < WAITING; i++)
			waiting[i] = submit();
		System.out.println("pending-bytes " + (double) (usedBytes() - empty) / WAITING);
	}

	@TearDown
	public void close() {
		executor.shutdownNow();
	}

	@Benchmark
	public void pending() {
		int number = ThreadLocalRandom.current().nextInt(WAITING);
		waiting[number].cancel(false);
		waiting[number] = submit();
	}
}
