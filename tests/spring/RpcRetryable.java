import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/* What a team writes on the methods that may be called again. */
@Target(ElementType.METHOD)
@Retention(RetentionPolicy.RUNTIME)
public @interface RpcRetryable {
	boolean value() default true;

	/* May be called again only with the same Idempotency-Key. */
	boolean withKey() default false;
}
