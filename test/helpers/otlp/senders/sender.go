// Sends one log record, one measurement and one span, as the OTEL_* variables of the environment say.
package main

import (
	"context"
	"time"

	"go.opentelemetry.io/contrib/exporters/autoexport"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/log"
	sdklog "go.opentelemetry.io/otel/sdk/log"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func end(shutdown func(context.Context) error, ctx context.Context) {
	if err := shutdown(ctx); err != nil {
		panic(err)
	}
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()

	logs := sdklog.NewLoggerProvider(sdklog.WithProcessor(sdklog.NewBatchProcessor(must(autoexport.NewLogExporter(ctx)))))
	var record log.Record
	record.SetTimestamp(time.Now())
	record.SetSeverity(log.SeverityError)
	record.SetBody(attribute.StringValue("a record"))
	logs.Logger("sender").Emit(ctx, record)

	meters := sdkmetric.NewMeterProvider(sdkmetric.WithReader(must(autoexport.NewMetricReader(ctx))))
	must(meters.Meter("sender").Int64Counter("things")).Add(ctx, 3)

	spans := sdktrace.NewTracerProvider(sdktrace.WithBatcher(must(autoexport.NewSpanExporter(ctx))))
	_, span := spans.Tracer("sender").Start(ctx, "a span")
	span.End()

	end(logs.Shutdown, ctx)
	end(meters.Shutdown, ctx)
	end(spans.Shutdown, ctx)
}
