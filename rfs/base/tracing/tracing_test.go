package tracing_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// answers is a server in memory: each request gets a body, or an error.
type answers struct{ err error }

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("answer"))}, nil
}

func request(ctx context.Context, t testing.TB) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://ann:secret@repo:443/a%20b/c?X-Amz-Signature=secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// recorder returns a context whose spans are recorded.
func recorder(t *testing.T) (context.Context, *tracetest.SpanRecorder) {
	t.Helper()
	spans := tracetest.NewSpanRecorder()
	p := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(spans))
	t.Cleanup(func() { _ = p.Shutdown(context.Background()) })
	return tracing.Carry(t.Context(), p), spans
}

// TestTransport_Request: a request is a span below its context's, and ends with its body, however that ends.
func TestTransport_Request(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		read  int64
		class string
	}{
		{"read to its end", nil, 6, ""},
		{"closed before", nil, 0, ""},
		{"no answer", errors.New("GET https://ann:secret@repo?sig=secret: refused"), -1, "error"},
		{"cancelled", context.Canceled, -1, "cancelled"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, spans := recorder(t)
			ctx, lease := tracing.Start(tracing.With(ctx, attribute.String("rfsd.session", "night")), "lease")
			res, err := tracing.Transport(answers{c.err}, "repository").RoundTrip(request(ctx, t))
			if !errors.Is(err, c.err) {
				t.Fatal(err)
			}
			if err == nil {
				if len(spans.Ended()) > 0 {
					t.Error("the span has ended before the body")
				}
				if c.read > 0 {
					_, _ = io.Copy(io.Discard, res.Body)
				}
				_ = res.Body.Close()
				_ = res.Body.Close()
			}
			lease.End()
			all := spans.Ended()
			if len(all) != 2 || all[0].Name() != "repository GET" || all[0].Parent().SpanID() != all[1].SpanContext().SpanID() || all[1].Parent().IsValid() {
				t.Fatalf("%d spans: %v", len(all), all)
			}
			is := map[attribute.Key]attribute.Value{}
			for _, a := range all[0].Attributes() {
				is[a.Key] = a.Value
				if strings.Contains(a.Value.String(), "secret") {
					t.Errorf("%s is %s", a.Key, a.Value.String())
				}
			}
			if is["url.full"].AsString() != "https://repo:443/a%20b/c" || is["error.type"].AsString() != c.class || c.read >= 0 && is["http.response.body.size"].AsInt64() != c.read {
				t.Errorf("it has %v", all[0].Attributes())
			}
			if strings.Contains(all[0].Status().Description, "secret") {
				t.Errorf("its status is %v", all[0].Status())
			}
		})
	}
}

// TestAs_OutlivesTheContext: work that ends later than a context has its provider and attributes.
func TestAs_OutlivesTheContext(t *testing.T) {
	from, spans := recorder(t)
	ctx, span := tracing.Start(tracing.As(context.Background(), tracing.With(from, attribute.Int("rfsd.round", 3))), "lease")
	span.End()
	if all := spans.Ended(); len(all) != 1 || ctx.Done() != nil || len(all[0].Attributes()) != 1 {
		t.Errorf("%v", all)
	}
}

// TestTransport_Off: without a provider, and outside of a lease, a request is passed on unchanged, without allocations.
func TestTransport_Off(t *testing.T) {
	on, spans := recorder(t)
	off, span := tracing.Start(tracing.With(t.Context(), attribute.String("a", "b")), "lease")
	span.End()
	for name, ctx := range map[string]context.Context{"without a provider": off, "outside of a lease": on} {
		req := request(ctx, t)
		res := &http.Response{Body: http.NoBody}
		next := fixed{res}
		tr := tracing.Transport(next, "target")
		if got, err := tr.RoundTrip(req); got != res || err != nil || got.Body != http.NoBody { //nolint:bodyclose // it has none
			t.Errorf("%s: %v, %v", name, got, err)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = tr.RoundTrip(req) }); n > 0 { //nolint:bodyclose // it has none
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if len(spans.Ended()) > 0 {
		t.Errorf("%v", spans.Ended())
	}
}

// fixed always gives the same answer.
type fixed struct{ res *http.Response }

func (f fixed) RoundTrip(*http.Request) (*http.Response, error) { return f.res, nil }

// BenchmarkTransport_Off measures the overhead of a request without a provider: compare with direct.
func BenchmarkTransport_Off(b *testing.B) {
	req, direct := request(context.Background(), b), http.RoundTripper(fixed{&http.Response{Body: http.NoBody}})
	for name, tr := range map[string]http.RoundTripper{"direct": direct, "off": tracing.Transport(direct, "target")} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = tr.RoundTrip(req) //nolint:bodyclose // it has none
			}
		})
	}
}

// BenchmarkStart_Off measures the overhead of a lease without a provider.
func BenchmarkStart_Off(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		_, span := tracing.Start(b.Context(), "lease", attribute.String("rfsd.index", "orders"), attribute.Int("rfsd.shard", 3))
		span.End()
	}
}
