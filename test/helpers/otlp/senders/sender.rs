//! Sends one log record, one measurement and one span, as the OTEL_* variables of the environment say.
use opentelemetry::logs::{LogRecord, Logger, LoggerProvider, Severity};
use opentelemetry::metrics::MeterProvider;
use opentelemetry::trace::{Span, Tracer, TracerProvider};
use opentelemetry_otlp::{LogExporter, MetricExporter, SpanExporter};
use opentelemetry_sdk::{logs::SdkLoggerProvider, metrics::SdkMeterProvider, trace::SdkTracerProvider};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (logs, metrics, spans) = if std::env::var("OTEL_EXPORTER_OTLP_PROTOCOL")? == "grpc" {
        (
            LogExporter::builder().with_tonic().build()?,
            MetricExporter::builder().with_tonic().build()?,
            SpanExporter::builder().with_tonic().build()?,
        )
    } else {
        (
            LogExporter::builder().with_http().build()?,
            MetricExporter::builder().with_http().build()?,
            SpanExporter::builder().with_http().build()?,
        )
    };

    let loggers = SdkLoggerProvider::builder().with_batch_exporter(logs).build();
    let logger = loggers.logger("sender");
    let mut record = logger.create_log_record();
    record.set_severity_number(Severity::Error);
    record.set_body("a record".into());
    logger.emit(record);

    let meters = SdkMeterProvider::builder().with_periodic_exporter(metrics).build();
    meters.meter("sender").u64_counter("things").build().add(3, &[]);

    let tracers = SdkTracerProvider::builder().with_batch_exporter(spans).build();
    tracers.tracer("sender").start("a span").end();

    loggers.shutdown()?;
    meters.shutdown()?;
    tracers.shutdown()?;
    Ok(())
}
