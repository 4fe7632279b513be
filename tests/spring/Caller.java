import feign.FeignException;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.cloud.openfeign.EnableFeignClients;
import org.springframework.cloud.openfeign.FeignClient;
import org.springframework.context.annotation.Configuration;
import org.springframework.http.ResponseEntity;
import org.springframework.context.annotation.Import;
import org.springframework.web.bind.annotation.ExceptionHandler;
import org.springframework.web.bind.annotation.GetMapping;
import org.springframework.web.bind.annotation.PathVariable;
import org.springframework.web.bind.annotation.PostMapping;
import org.springframework.web.bind.annotation.RequestHeader;
import org.springframework.web.bind.annotation.RestController;

/* The service that calls, with OpenFeign. Nothing in it knows of rea: the JVM that it runs in is told of a proxy. */
@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
@EnableFeignClients(clients = Caller.Users.class)
@Import(Caller.Api.class)
public class Caller {
	@FeignClient(name = "user-service", url = "http://user-service")
	interface Users {
		@GetMapping("/users/{id}")
		String getUserInfo(@PathVariable("id") int id);

		@GetMapping("/users/{id}/next-number")
		String takeNumber(@PathVariable("id") int id);

		@PostMapping("/users/{id}/mails")
		String sendMail(@PathVariable("id") int id);

		@PostMapping("/users/{id}/payments")
		String pay(@PathVariable("id") int id, @RequestHeader(value = "Idempotency-Key", required = false) String key);
	}

	@RestController
	static class Api {
		private final Users users;

		Api(Users users) {
			this.users = users;
		}

		@GetMapping("/info/{id}")
		String info(@PathVariable("id") int id) {
			return users.getUserInfo(id);
		}

		@GetMapping("/number/{id}")
		String number(@PathVariable("id") int id) {
			return users.takeNumber(id);
		}

		@PostMapping("/mail/{id}")
		String mail(@PathVariable("id") int id) {
			return users.sendMail(id);
		}

		@PostMapping("/pay/{id}")
		String pay(@PathVariable("id") int id, @RequestHeader(value = "Idempotency-Key", required = false) String key) {
			return users.pay(id, key);
		}

		@ExceptionHandler
		ResponseEntity<String> failed(FeignException failure) {
			return ResponseEntity.status(failure.status() > 0 ? failure.status() : 502).build();
		}
	}

	public static void main(String[] arguments) {
		SpringApplication.run(Caller.class, arguments);
	}
}
