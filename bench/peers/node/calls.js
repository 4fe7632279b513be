// What cockatiel takes for the calls that bench/guard.c measures, and Node's timers for a million that wait; CPU time of the process, wall time
// and heap bytes per call: node --expose-gc calls.js SECONDS
import * as cockatiel from 'cockatiel';

const seconds = Number(process.argv[2] ?? 0.5);
const succeed = () => 1;

function newBreaker() {
	return cockatiel.circuitBreaker(cockatiel.handleAll, {
		halfOpenAfter: 3600e3,
		breaker: new cockatiel.CountBreaker({ threshold: 0.5, size: 100, minimumNumberOfCalls: 100 }),
	});
}

// A refusal is no fault of the callee: not tried again.
function newRetry() {
	return cockatiel.retry(cockatiel.handleWhen(error => !(error instanceof cockatiel.BrokenCircuitError)), {
		maxAttempts: 2,
		backoff: new cockatiel.ExponentialBackoff({ initialDelay: 20, maxDelay: 1000 }),
	});
}

async function repeat(count, policy, refused) {
	for (let i = 0; i < count; i++) {
		let good;
		try {
			good = (await policy.execute(succeed)) === 1 && !refused;
		} catch (error) {
			good = refused && error instanceof cockatiel.BrokenCircuitError;
		}
		if (!good) throw new Error('a call ended in another way');
	}
}

async function bytesPerCall(policy, refused) {
	const count = 1000;
	gc();
	const before = process.memoryUsage().heapUsed;
	await repeat(count, policy, refused);
	return (process.memoryUsage().heapUsed - before) / count;
}

function print(subject, name, count, cpu, wall, bytes) {
	console.log([subject, name, 1, (cpu * 1e3) / count, wall / count, bytes].join('\t'));
}

async function measure(name, policy, refused = false) {
	await repeat(20000, policy, refused);
	const bytes = await bytesPerCall(policy, refused);
	const start = process.hrtime.bigint(), cpu = process.cpuUsage();
	let count = 0;
	while (Number(process.hrtime.bigint() - start) < seconds * 1e9) {
		await repeat(10000, policy, refused);
		count += 10000;
	}
	const spent = process.cpuUsage(cpu);
	print('cockatiel', name, count, spent.user + spent.system, Number(process.hrtime.bigint() - start), bytes);
}

function pending() {
	const waiting = 1000000, timers = new Array(waiting), nothing = () => {};
	const later = () => setTimeout(nothing, 36000e3 + Math.floor(Math.random() * 3600e3));
	gc();
	const empty = process.memoryUsage().heapUsed;
	for (let i = 0; i < waiting; i++) timers[i] = later();
	gc();
	const bytes = (process.memoryUsage().heapUsed - empty) / waiting;
	const start = process.hrtime.bigint(), cpu = process.cpuUsage();
	for (let i = 0; i < waiting; i++) {
		const number = Math.floor(Math.random() * waiting);
		clearTimeout(timers[number]);
		timers[number] = later();
	}
	const spent = process.cpuUsage(cpu);
	print('Node setTimeout', 'pending', waiting, spent.user + spent.system, Number(process.hrtime.bigint() - start), bytes);
}

const breaker = newBreaker();
await measure('breaker', breaker);
await measure('guard', cockatiel.wrap(newRetry(), breaker));
const open = newBreaker();
open.isolate();
const isolated = open.execute(succeed).catch(error => error);
if (!((await isolated) instanceof cockatiel.BrokenCircuitError)) throw new Error(`isolated: ${await isolated}`);
await measure('breaker-refused', open, true);
await measure('guard-refused', cockatiel.wrap(newRetry(), open), true);
pending();
process.exit(0);
