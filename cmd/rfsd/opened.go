package main

import (
	"context"
	"errors"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/target"
)

// opened are the functions that close what was opened, in the order of opening.
type opened []func() error

// close closes the last first.
func (o opened) close() error {
	var errs []error
	for i := len(o) - 1; i >= 0; i-- {
		errs = append(errs, o[i]())
	}
	return errors.Join(errs...)
}

// askTarget returns what the target is, and logs it.
func askTarget(ctx context.Context, client *target.Client, log *slog.Logger) (target.Version, error) {
	v, err := client.Info(ctx)
	if err != nil {
		return v, err
	}
	log.Info("target", "url", client.Name(), "distribution", v.Distribution, "version", v.Number)
	if warning := v.Untested(); warning != "" {
		log.Warn(warning)
	}
	return v, nil
}

// longestSource returns the bytes of the longest source that is sent: what the user permits, or what the target takes in a
// request; 0: not known. Errors are those of ctx.
func longestSource(ctx context.Context, o options, client *target.Client, log *slog.Logger) (int64, error) {
	most, err := client.MaxBody(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return 0, err
		}
		log.Debug("the size of requests that the target takes is not known", "error", err)
	}
	if o.maxDocument > 0 && (most <= 0 || most > o.maxDocument) {
		most = o.maxDocument
	}
	return most, nil
}
