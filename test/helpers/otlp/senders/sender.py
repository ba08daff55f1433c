"""Sends one log record, one measurement and one span, as the OTEL_* variables of the environment say."""

import logging
import os

from opentelemetry import metrics, trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

if os.environ["OTEL_EXPORTER_OTLP_PROTOCOL"] == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
else:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

logs = LoggerProvider()
logs.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
set_logger_provider(logs)
logger = logging.getLogger("sender")
logger.addHandler(LoggingHandler(logger_provider=logs))
logger.error("a record")

meters = MeterProvider([PeriodicExportingMetricReader(OTLPMetricExporter())])
metrics.set_meter_provider(meters)
metrics.get_meter("sender").create_counter("things").add(3)

spans = TracerProvider()
spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
trace.set_tracer_provider(spans)
with trace.get_tracer("sender").start_as_current_span("a span"):
    pass

for provider in (logs, meters, spans):
    provider.shutdown()
