package main

import (
	"context"
	"log/slog"
	"os"

	"go.opentelemetry.io/otel/attribute"

	"github.com/rfsd/rfsd/daemon/telemetry"
	"github.com/rfsd/rfsd/rfs/base/tracing"
)

// observe starts to send traces by OTLP, where the environment names a collector. The spans of the returned context name the session of
// the options, and its round.
func (o options) observe(ctx context.Context, command, node string, log *slog.Logger) (context.Context, *telemetry.Telemetry, error) {
	ctx, t, err := telemetry.Start(ctx, telemetry.Config{Command: command, Version: o.version, Session: o.sessionOrDefault(), Node: node, Env: os.Getenv, Log: log})
	if err != nil {
		return ctx, nil, err
	}
	return tracing.With(ctx, attribute.String("rfsd.session", o.sessionOrDefault()), attribute.Int("rfsd.round", o.number)), t, nil
}
