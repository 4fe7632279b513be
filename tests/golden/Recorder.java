/*
 * Counts the requests that one call of a real Spring application comes to: Recorder CONFIGURATION CALLER, with the libraries of the configuration on the
 * class path. Several instances of a service fail in every way, for every kind of request; a line for each failure goes to standard output.
 *
 * Requests are counted by the service. Connections that nobody accepts are counted by the kernel, so this runs in a network of its own (see `record`).
 */
import io.github.resilience4j.retry.annotation.Retry;
import java.io.BufferedInputStream;
import java.io.IOException;
import java.io.InputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.openfeign.EnableFeignClients;
import org.springframework.cloud.openfeign.FeignClient;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Configuration;
import org.springframework.retry.annotation.EnableRetry;
import org.springframework.retry.annotation.Retryable;
import org.springframework.web.bind.annotation.DeleteMapping;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.PutMapping;
import org.springframework.web.bind.annotation.RequestBody;

public class Recorder {
	/* As many as there are attempts that go to another one, so that each can find a kept connection. */
	static final int INSTANCES = 6;

	/* ---------------------------------------------------------------- the application */

	@FeignClient("users")
	interface Users {
		@GetMapping("/users")
		String get();

		@PutMapping("/users")
		String put(@RequestBody String body);

		@PutMapping("/users")
		String put();

		@DeleteMapping("/users")
		String delete();

		@PostMapping("/users")
		String post(@RequestBody String body);

		@PostMapping("/users")
		String post();
	}

	/* Who calls the client: without an annotation, or with one of either library's. */
	public static class Plain {
		public String call(Users users, Function<Users, String> request) {
			return request.apply(users);
		}
	}

	public static class WithRetry extends Plain {
		@Override
		@Retry(name = "users")
		public String call(Users users, Function<Users, String> request) {
			return super.call(users, request);
		}
	}

	/* Apart from the others: its annotations' library may not be there. */
	@Configuration(proxyBeanMethods = false)
	@EnableRetry
	public static class WithRetryable extends Plain {
		@Override
		@Retryable
		public String call(Users users, Function<Users, String> request) {
			return super.call(users, request);
		}
	}

	@Configuration(proxyBeanMethods = false)
	@EnableAutoConfiguration
	@EnableFeignClients(clients = Users.class)
	static class Application {
	}

	/* ---------------------------------------------------------------- the service */

	enum Reply {
		WELL("200 OK", "Connection: keep-alive"),
		CLOSED("", ""),
		RESET("", ""),
		TIMEOUT("", ""),
		R429("429 Too Many Requests", "Connection: close"),
		R500("500 Internal Server Error", "Connection: close"),
		R502("502 Bad Gateway", "Connection: close"),
		R503("503 Service Unavailable", "Connection: close"),
		R503_AFTER_0("503 Service Unavailable", "Connection: close\r\nRetry-After: 0"),
		R503_AFTER_2("503 Service Unavailable", "Connection: close\r\nRetry-After: 2"),
		R504("504 Gateway Timeout", "Connection: close");

		final String status, fields;

		Reply(String status, String fields) {
			this.status = status;
			this.fields = fields;
		}
	}

	static volatile Reply reply = Reply.WELL;
	static final AtomicInteger requests = new AtomicInteger();

	static class Instance {
		final int port;
		private ServerSocket listener;

		Instance() throws IOException {
			listener = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
			port = listener.getLocalPort();
			accept();
		}

		void leave() throws IOException {
			listener.close();
		}

		void comeBack() throws IOException {
			listener = new ServerSocket(port, 50, InetAddress.getLoopbackAddress());
			accept();
		}

		private void accept() {
			ServerSocket from = listener;
			start(() -> {
				while (true) {
					Socket socket = from.accept();
					start(() -> serve(socket));
				}
			});
		}

		private static void serve(Socket socket) throws IOException {
			InputStream in = new BufferedInputStream(socket.getInputStream());
			while (request(in)) {
				Reply now = reply;
				requests.incrementAndGet();
				if (now == Reply.TIMEOUT) {
					in.read();
					break;
				}
				if (now == Reply.RESET)
					socket.setSoLinger(true, 0);
				if (now.status.isEmpty())
					break;
				String body = now == Reply.WELL ? "well" : "";
				socket.getOutputStream().write(("HTTP/1.1 " + now.status + "\r\nContent-Type: text/plain\r\nContent-Length: "
					+ body.length() + "\r\n" + now.fields + "\r\n\r\n" + body).getBytes(StandardCharsets.US_ASCII));
				if (now != Reply.WELL)
					break;
			}
			socket.close();
		}

		/* Reads one whole request; false at the end. */
		private static boolean request(InputStream in) throws IOException {
			int length = 0;
			boolean chunked = false;
			String line = line(in);
			if (line == null)
				return false;
			while (!(line = line(in)).isEmpty()) {
				String field = line.toLowerCase();
				if (field.startsWith("content-length:"))
					length = Integer.parseInt(field.substring(15).trim());
				chunked |= field.startsWith("transfer-encoding:") && field.contains("chunked");
			}
			while (chunked && (length = Integer.parseInt(line(in), 16)) > 0)
				in.skipNBytes(length + 2);
			in.skipNBytes(chunked ? 2 : length);
			return true;
		}

		private static String line(InputStream in) throws IOException {
			StringBuilder text = new StringBuilder();
			int c;
			while ((c = in.read()) != '\n') {
				if (c < 0)
					return null;
				if (c != '\r')
					text.append((char) c);
			}
			return text.toString();
		}
	}

	interface Work {
		void run() throws IOException;
	}

	static void start(Work work) {
		Thread thread = new Thread(() -> {
			try {
				work.run();
			} catch (IOException | NullPointerException gone) {
				/* The listener was closed, or the client has left. */
			}
		});
		thread.setDaemon(true);
		thread.start();
	}

	/* ---------------------------------------------------------------- the record */

	/* Connections that somebody in this network has begun. */
	static int connections() throws IOException {
		List<String> lines = Files.readAllLines(Path.of("/proc/net/snmp")).stream().filter(line -> line.startsWith("Tcp:")).toList();
		int column = List.of(lines.get(0).split(" ")).indexOf("ActiveOpens");
		return Integer.parseInt(lines.get(1).split(" ")[column]);
	}

	record Kind(String name, Function<Users, String> request) {
	}

	static final List<Kind> KINDS = List.of(
		new Kind("GET", Users::get),
		new Kind("PUT with body", users -> users.put("{}")),
		new Kind("PUT", Users::put),
		new Kind("DELETE", Users::delete),
		new Kind("POST with body", users -> users.post("{}")),
		new Kind("POST", Users::post));

	record Failure(String name, String how, Reply reply, boolean kept) {
	}

	static final List<Failure> FAILURES = List.of(
		new Failure("connection lost", "closed", Reply.CLOSED, false),
		new Failure("connection lost", "reset", Reply.RESET, false),
		new Failure("no reply in time", "", Reply.TIMEOUT, false),
		new Failure("429", "", Reply.R429, false),
		new Failure("500", "", Reply.R500, false),
		new Failure("502", "", Reply.R502, false),
		new Failure("503", "", Reply.R503, false),
		new Failure("503 Retry-After", "0", Reply.R503_AFTER_0, false),
		new Failure("503 Retry-After", "2", Reply.R503_AFTER_2, false),
		new Failure("504", "", Reply.R504, false),
		new Failure("connection lost", "kept, closed", Reply.CLOSED, true),
		new Failure("connection lost", "kept, reset", Reply.RESET, true));

	static Plain caller;
	static Users users;

	static void call(Kind kind) {
		try {
			caller.call(users, kind.request);
		} catch (Exception failed) {
			/* What it comes to is told by the service. */
		}
	}

	static int record(Reply failure, Kind kind, boolean kept) {
		reply = Reply.WELL;
		for (int i = 0; kept && i < 2 * INSTANCES; i++)
			call(KINDS.get(0));
		reply = failure;
		requests.set(0);
		call(kind);
		return requests.get();
	}

	static void tell(String failure, String how, List<Integer> counts) {
		System.out.println(failure + "\t" + how + "\t" + counts.stream().map(String::valueOf).collect(Collectors.joining("\t")));
	}

	public static void main(String[] arguments) throws Exception {
		List<Instance> instances = new ArrayList<>();
		for (int i = 0; i < INSTANCES; i++) {
			instances.add(new Instance());
			System.setProperty("spring.cloud.discovery.client.simple.instances.users[" + i + "].uri", "http://127.0.0.1:" + instances.get(i).port);
		}
		System.setProperty("golden.port", String.valueOf(instances.get(0).port));
		SpringApplication application = new SpringApplication(Application.class,
			Class.forName(Recorder.class.getName() + "$" + arguments[1], false, Recorder.class.getClassLoader()));
		ConfigurableApplicationContext context = application.run("--spring.config.location=file:" + arguments[0],
			"--spring.main.web-application-type=none", "--spring.main.banner-mode=off", "--logging.level.root=off");
		caller = context.getBean(Plain.class);
		users = context.getBean(Users.class);

		for (Instance instance : instances)
			instance.leave();
		List<Integer> counts = new ArrayList<>();
		for (Kind kind : KINDS) {
			int before = connections();
			call(kind);
			counts.add(connections() - before);
		}
		tell("no connection", "", counts);
		for (Instance instance : instances)
			instance.comeBack();
		/* Connections that are kept come last: they are there from then on. */
		for (Failure failure : FAILURES)
			tell(failure.name, failure.how, KINDS.stream().map(kind -> record(failure.reply, kind, failure.kept)).toList());
		System.exit(0);
	}
}
