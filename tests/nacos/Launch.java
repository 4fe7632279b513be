import com.alibaba.nacos.core.listener.startup.NacosStartUpManager;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.annotation.ComponentScan;
import org.springframework.context.annotation.FilterType;
import org.springframework.scheduling.annotation.EnableScheduling;

/** The server without its console, in one context: the part that clients speak with. */
@SpringBootApplication
@EnableScheduling
@ComponentScan(basePackages = "com.alibaba.nacos", excludeFilters = @ComponentScan.Filter(type = FilterType.REGEX,
	pattern = "com\\.alibaba\\.nacos\\.(console\\..*|Nacos|istio.*|k8s.*|prometheus.*)"))
public class Launch {
	public static void main(String[] arguments) {
		System.setProperty("nacos.deployment.type", "server");
		NacosStartUpManager.start("core");
		SpringApplication.run(Launch.class, arguments);
	}
}
