// Package telemetry exports traces and metrics by OTLP if the environment names a collector.
package telemetry

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

const (
	// flushTimeout limits the last export at the end of the process.
	flushTimeout = 5 * time.Second
	// exportTimeout limits an export and its retries.
	exportTimeout = 10 * time.Second
	// maxQueue limits the spans that wait for an export; further ones are dropped.
	maxQueue = 4096
)

// Config describes the process.
type Config struct {
	Command, Version string
	Session, Node    string              // Node may be empty
	Env              func(string) string // reads the variables of OpenTelemetry
	Log              *slog.Logger
}

// Telemetry exports the traces and metrics of a process. nil exports nothing.
type Telemetry struct {
	resource      *resource.Resource
	traces        *sdktrace.TracerProvider // nil: none
	metrics       *sdkmetric.MeterProvider // nil: none yet
	measures      bool
	failedExports *failedExports
	env           func(string) string
}

// wanted reports whether a signal is exported by OTLP: the environment names a collector and does not switch the signal off.
func wanted(env func(string) string, signal string) bool {
	if strings.EqualFold(env("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	if exporter := env("OTEL_" + signal + "_EXPORTER"); exporter != "" && exporter != "otlp" {
		return false
	}
	return env("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || env("OTEL_EXPORTER_OTLP_"+signal+"_ENDPOINT") != ""
}

// Start starts to export if the environment names a collector, and returns ctx with the provider of spans. Otherwise it returns ctx and
// nil, and starts nothing. The error is fault.ErrConfig.
func Start(ctx context.Context, conf Config) (context.Context, *Telemetry, error) {
	spans, measures := wanted(conf.Env, "TRACES"), wanted(conf.Env, "METRICS")
	if !spans && !measures {
		return ctx, nil, nil
	}
	t := &Telemetry{measures: measures, failedExports: &failedExports{log: conf.Log}, env: conf.Env}
	is := []attribute.KeyValue{attribute.String("service.version", conf.Version), attribute.String("rfsd.command", conf.Command)}
	if conf.Session != "" {
		is = append(is, attribute.String("rfsd.session", conf.Session))
	}
	if conf.Node != "" {
		is = append(is, attribute.String("service.instance.id", conf.Node))
	}
	var err error
	t.resource, err = resource.New(ctx, resource.WithAttributes(append(is, attribute.String("service.name", "rfsd"))...), resource.WithTelemetrySDK(), resource.WithHost(), resource.WithFromEnv())
	if err != nil {
		return ctx, nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w: %w", err, fault.ErrConfig)
	}
	if !spans {
		return ctx, t, nil
	}
	connection, err := client(conf.Env, "TRACES")
	if err != nil {
		return ctx, nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithHTTPClient(connection))
	if err != nil {
		return ctx, nil, fmt.Errorf("OTLP traces: %w: %w", err, fault.ErrConfig)
	}
	t.traces = sdktrace.NewTracerProvider(sdktrace.WithResource(t.resource),
		sdktrace.WithBatcher(spanExporter{exporter, t.failedExports}, sdktrace.WithMaxQueueSize(maxQueue), sdktrace.WithExportTimeout(exportTimeout)))
	return tracing.Carry(ctx, t.traces), t, nil
}

// Measure exports metrics at the interval OTEL_METRIC_EXPORT_INTERVAL, and a last time in Stop.
func (t *Telemetry) Measure(ctx context.Context, from sdkmetric.Producer) error {
	if t == nil || !t.measures {
		return nil
	}
	connection, err := client(t.env, "METRICS")
	if err != nil {
		return err
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithHTTPClient(connection))
	if err != nil {
		return fmt.Errorf("OTLP metrics: %w: %w", err, fault.ErrConfig)
	}
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.resource),
		sdkmetric.WithReader(sdkmetric.NewPeriodicReader(metricExporter{exporter, t.failedExports}, sdkmetric.WithProducer(from), sdkmetric.WithTimeout(exportTimeout))))
	return nil
}

// Stop makes the last export, for at most five seconds, and blocks until everything has ended.
func (t *Telemetry) Stop() {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	var ending sync.WaitGroup
	var spans, measures error
	if t.traces != nil {
		ending.Go(func() { spans = t.traces.Shutdown(ctx) })
	}
	if t.metrics != nil {
		ending.Go(func() { measures = t.metrics.Shutdown(ctx) })
	}
	ending.Wait()
	if err := errors.Join(spans, measures); err != nil {
		t.failedExports.note(err)
	}
}

// failedExports logs failed exports, once.
type failedExports struct {
	log  *slog.Logger
	once sync.Once
}

func (u *failedExports) note(err error) {
	u.once.Do(func() {
		u.log.Warn("the OpenTelemetry collector does not accept traces or metrics; they are lost, and the work continues", "error", fault.Text(err))
	})
}

// spanExporter is an exporter whose errors are logged once.
type spanExporter struct {
	sdktrace.SpanExporter
	failedExports *failedExports
}

func (e spanExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	if err := e.SpanExporter.ExportSpans(ctx, spans); err != nil {
		e.failedExports.note(err)
	}
	return nil
}

// metricExporter is an exporter whose errors are logged once.
type metricExporter struct {
	sdkmetric.Exporter
	failedExports *failedExports
}

func (e metricExporter) Export(ctx context.Context, all *metricdata.ResourceMetrics) error {
	if err := e.Exporter.Export(ctx, all); err != nil {
		e.failedExports.note(err)
	}
	return nil
}
