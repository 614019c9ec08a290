// Package tracing records leases and their requests as spans of OpenTelemetry if the context has a provider. Without a provider nothing is
// recorded or allocated per request.
package tracing

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// scope names this program as the origin of spans.
const scope = "github.com/rfsd/rfsd"

// carrier is a span that records nothing. It carries the provider and the common attributes of the spans started below it.
type carrier struct {
	noop.Span
	provider trace.TracerProvider
	common   []attribute.KeyValue
}

func (c carrier) TracerProvider() trace.TracerProvider { return c.provider }

// Carry returns ctx with the provider of all spans.
func Carry(ctx context.Context, p trace.TracerProvider) context.Context {
	return trace.ContextWithSpan(ctx, carrier{provider: p})
}

// As returns ctx with the provider and the attributes of another context, for work that outlives that one.
func As(ctx, from context.Context) context.Context {
	return trace.ContextWithSpan(ctx, trace.SpanFromContext(from))
}

// With returns ctx with attributes for all spans started below it, or ctx itself if it has no provider.
func With(ctx context.Context, common ...attribute.KeyValue) context.Context {
	if c, ok := trace.SpanFromContext(ctx).(carrier); ok {
		c.common = append(c.common[:len(c.common):len(c.common)], common...)
		return trace.ContextWithSpan(ctx, c)
	}
	return ctx
}

// Start starts the root span of a trace. It records nothing without a provider.
func Start(ctx context.Context, name string, attributes ...attribute.KeyValue) (context.Context, trace.Span) {
	is := trace.SpanFromContext(ctx)
	if c, ok := is.(carrier); ok {
		attributes = append(attributes, c.common...)
	}
	return is.TracerProvider().Tracer(scope).Start(ctx, name, trace.WithAttributes(attributes...))
}

// transport records requests as spans below the span of their context.
type transport struct {
	next http.RoundTripper
	role string
}

// Transport returns next with its requests recorded, with the role of the server, such as target. The address is recorded without user and
// query; headers and bodies are not recorded.
func Transport(next http.RoundTripper, role string) http.RoundTripper { return transport{next, role} }

// CloseIdleConnections closes the idle connections of next.
func (t transport) CloseIdleConnections() {
	if c, ok := t.next.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request. Its span ends with the response body.
func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	above := trace.SpanFromContext(req.Context())
	if !above.IsRecording() {
		return t.next.RoundTrip(req)
	}
	path := req.URL.EscapedPath()
	if len(path) > maxPath {
		path = strings.ToValidUTF8(path[:maxPath], "")
	}
	_, span := above.TracerProvider().Tracer(scope).Start(req.Context(), t.role+" "+req.Method, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("rfsd.role", t.role), attribute.String("http.request.method", req.Method), attribute.String("server.address", req.URL.Host),
		attribute.String("url.full", req.URL.Scheme+"://"+req.URL.Host+path), attribute.Int64("http.request.body.size", max(req.ContentLength, 0))))
	res, err := t.next.RoundTrip(req)
	if err != nil {
		fails(span, err)
		span.End()
		return res, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", res.StatusCode))
	if res.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, http.StatusText(res.StatusCode))
	}
	res.Body = &body{ReadCloser: res.Body, span: span}
	return res, nil
}

// maxPath limits the recorded part of a path, in bytes.
const maxPath = 1024

// fails marks a span as failed. Error texts may contain addresses with their queries, so only a class is recorded.
func fails(span trace.Span, err error) {
	class := "error"
	switch {
	case errors.Is(err, context.Canceled):
		class = "cancelled"
	case errors.Is(err, context.DeadlineExceeded):
		class = "timeout"
	}
	span.SetAttributes(attribute.String("error.type", class))
	span.SetStatus(codes.Error, class)
}

// body ends the span of its request when it was read completely or closed. Close may be called during a Read.
type body struct {
	io.ReadCloser
	span  trace.Span
	ended sync.Once
	read  atomic.Int64
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read.Add(int64(n))
	if err != nil {
		b.end(err)
	}
	return n, err
}

// Close also ends the span of a body that was not read completely.
func (b *body) Close() error {
	b.end(io.EOF)
	return b.ReadCloser.Close()
}

func (b *body) end(err error) {
	b.ended.Do(func() {
		if !errors.Is(err, io.EOF) {
			fails(b.span, err)
		}
		b.span.SetAttributes(attribute.Int64("http.response.body.size", b.read.Load()))
		b.span.End()
	})
}
