package rea.bench;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.Collection;
import java.util.List;
import org.openjdk.jmh.infra.BenchmarkParams;
import org.openjdk.jmh.infra.IterationParams;
import org.openjdk.jmh.profile.InternalProfiler;
import org.openjdk.jmh.results.AggregationPolicy;
import org.openjdk.jmh.results.IterationResult;
import org.openjdk.jmh.results.Result;
import org.openjdk.jmh.results.ScalarResult;

/** CPU time of the whole process per operation: with the collector and the compiler. */
public class CpuProfiler implements InternalProfiler {
	private final OperatingSystemMXBean system = (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();
	private long beforeNs;

	@Override
	public String getDescription() {
		return "CPU time of the process per operation";
	}

	@Override
	public void beforeIteration(BenchmarkParams benchmark, IterationParams iteration) {
		beforeNs = system.getProcessCpuTime();
	}

	@Override
	public Collection<? extends Result> afterIteration(
			BenchmarkParams benchmark, IterationParams iteration, IterationResult result) {
		double ns = (double) (system.getProcessCpuTime() - beforeNs) / result.getMetadata().getAllOps();
		return List.of(new ScalarResult("cpu", ns, "ns/op", AggregationPolicy.AVG));
	}
}
