import io.swagger.v3.oas.models.Operation;
import org.springdoc.core.customizers.OperationCustomizer;
import org.springframework.stereotype.Component;
import org.springframework.web.method.HandlerMethod;

/* The annotation, as the OpenAPI document tells it to callers. */
@Component
public class RetryInOpenApi implements OperationCustomizer {
	@Override
	public Operation customize(Operation operation, HandlerMethod method) {
		RpcRetryable retryable = method.getMethodAnnotation(RpcRetryable.class);

		if (retryable != null)
			operation.addExtension("x-rpc-retryable", retryable.withKey() ? "with-key" : retryable.value());
		return operation;
	}
}
