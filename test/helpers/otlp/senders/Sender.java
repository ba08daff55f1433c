import io.opentelemetry.api.logs.Severity;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;

/** Sends one log record, one measurement and one span, as the OTEL_* variables of the environment say. */
public final class Sender {
  public static void main(String[] args) {
    OpenTelemetrySdk sdk = AutoConfiguredOpenTelemetrySdk.initialize().getOpenTelemetrySdk();
    sdk.getSdkLoggerProvider().get("sender").logRecordBuilder().setSeverity(Severity.ERROR).setBody("a record").emit();
    sdk.getMeter("sender").counterBuilder("things").build().add(3);
    sdk.getTracer("sender").spanBuilder("a span").startSpan().end();
    sdk.close();
  }
}
