package wiring

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// TestTheRateHoldsForEveryDestination sends one body through each destination that is no cluster; the bucket is empty, so
// that a destination which obeys it waits until the context ends.
func TestTheRateHoldsForEveryDestination(t *testing.T) {
	dir, err := export.Open(t.TempDir(), "x", export.Compression("none"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, c := range map[string]struct {
		o  Options
		in *Resources
	}{
		"dry run":             {Options{Discard: true}, &Resources{Limits: Options{}.limits()}},
		"export":              {Options{exportDir: t.TempDir(), compression: "none"}, &Resources{Limits: Options{}.limits()}},
		"export of a slot":    {Options{exportDir: "shared", compression: "none"}, &Resources{Limits: Options{}.limits(), files: dir}},
		"dry run in a worker": {Options{Discard: true, coordinator: target.Config{URL: "http://127.0.0.1:1"}}, &Resources{Limits: Options{}.limits()}},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.Sending = throttle.New(1)
			d, _, done, err := openDestination(t.Context(), c.o, &phase.Session{Holder: "h"}, c.in)
			if err != nil {
				t.Fatal(err)
			}
			out, err := d.Open(t.Context(), cms.ItemID{Index: "i"}, func() error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			body := []byte("{\"index\":{\"_id\":\"1\"}}\n{}\n")
			if _, err := out.Send(ctx, body, 1); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%d bytes at 1 byte per second were sent immediately: %v", len(body), err)
			}
			if err := errors.Join(out.Abort(), done()); err != nil {
				t.Error(err)
			}
		})
	}
}
