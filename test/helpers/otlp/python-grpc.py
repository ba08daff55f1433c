"""Sends logs, spans and metrics with OpenTelemetry's own exporters over gRPC, configured by the standard variables.

Usage: python-grpc.py <text> <count>. Exits with 1 when an exporter reports a failure.
"""

import logging
import sys

from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

text, count = sys.argv[1], int(sys.argv[2])
failures = []


def watched(exporter):
    """Notes what an exporter reports."""
    export = exporter.export

    def watch(*args, **kwargs):
        result = export(*args, **kwargs)
        if result.name != "SUCCESS":
            failures.append(result.name)
        return result

    exporter.export = watch
    return exporter


resource = Resource.create({"service.name": "python-grpc"})
logs = LoggerProvider(resource=resource)
logs.add_log_record_processor(BatchLogRecordProcessor(watched(OTLPLogExporter())))
spans = TracerProvider(resource=resource)
spans.add_span_processor(BatchSpanProcessor(watched(OTLPSpanExporter())))
metrics = MeterProvider(
    resource=resource,
    metric_readers=[
        PeriodicExportingMetricReader(watched(OTLPMetricExporter()), export_interval_millis=3_600_000)
    ],
)

logger = logging.getLogger("test")
logger.propagate = False
logger.setLevel(logging.INFO)
logger.addHandler(LoggingHandler(logger_provider=logs))
for number in range(count):
    logger.info("%s %d", text, number)
    spans.get_tracer("test").start_span(f"{text} {number}").end()
metrics.get_meter("test").create_counter(f"m-{text}").add(count)

logs.shutdown()
spans.shutdown()
metrics.shutdown()
trace.set_tracer_provider(spans)
if failures:
    sys.exit(f"not exported: {failures}")
