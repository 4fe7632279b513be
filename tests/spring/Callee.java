import io.swagger.v3.oas.annotations.tags.Tag;
import java.util.concurrent.atomic.AtomicInteger;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.http.ResponseEntity;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;

/* The service that is called. With callee.fails it answers every call with 503. */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
@Import({Callee.Users.class, RetryInOpenApi.class})
public class Callee {
	@RestController
	@Tag(name = "user-api")
	static class Users {
		private final AtomicInteger calls = new AtomicInteger();
		@Value("${callee.fails:false}")
		private boolean fails;

		private ResponseEntity<String> answer(String text) {
			calls.incrementAndGet();
			return fails ? ResponseEntity.status(503).build() : ResponseEntity.ok(text);
		}

		@RpcRetryable
		@GetMapping("/users/{id}")
		ResponseEntity<String> getUserInfo(@PathVariable("id") int id) {
			return answer("user " + id);
		}

		@GetMapping("/users/{id}/next-number")
		ResponseEntity<String> takeNumber(@PathVariable("id") int id) {
			return answer("number");
		}

		@RpcRetryable(false)
		@PostMapping("/users/{id}/mails")
		ResponseEntity<String> sendMail(@PathVariable("id") int id) {
			return answer("sent");
		}

		@RpcRetryable(withKey = true)
		@PostMapping("/users/{id}/payments")
		ResponseEntity<String> pay(@PathVariable("id") int id, @RequestHeader(value = "Idempotency-Key", required = false) String key) {
			return answer("paid with " + key);
		}

		@GetMapping("/calls")
		int calls() {
			return calls.get();
		}
	}

	public static void main(String[] arguments) {
		SpringApplication.run(Callee.class, arguments);
	}
}
