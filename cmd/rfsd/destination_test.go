package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

// closedPort returns the URL of a port of this machine on which nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

func TestACoordinatorIsNeverIgnored(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	source := []string{"--repo-uri", "/repo", "--snapshot-name", "s", "--unavailable-timeout", "1s"}
	t.Run("a dry run keeps its state there", func(t *testing.T) {
		r, err := parse(t, append(source, "--discard", "--coordinator-host", closedPort(t))...)
		if err != nil {
			t.Fatal(err)
		}
		if r.inside() {
			t.Error("the workers run inside the node, as with a file that no other process can open")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		for name, open := range map[string]func() error{
			"store": func() error {
				_, done, err := openStore(ctx, r.options, false)
				if err == nil {
					_ = done()
				}
				return err
			},
			"node": func() error { _, err := openCoordinator(ctx, r.options); return err },
		} {
			if err := open(); err == nil || !strings.Contains(err.Error(), "coordinator") {
				t.Errorf("%s: nothing listens at the coordinator's address, and the state was opened elsewhere: %v", name, err)
			}
		}
	})
	for name, args := range map[string][]string{
		"an export refuses it":               {"--export-dir", t.TempDir(), "--coordinator-host", "http://127.0.0.1:1"},
		"a dry run refuses it beside a file": {"--discard", "--coordinator-file", "x.db", "--coordinator-host", "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := parse(t, append(source, args...)...); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--coordinator-host") {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestTheRateHoldsForEveryDestination sends one body through each destination that is no cluster; the bucket is empty, so
// that a destination which obeys it waits until the context ends.
func TestTheRateHoldsForEveryDestination(t *testing.T) {
	dir, err := export.Open(t.TempDir(), "x", export.Compression("none"))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	for name, c := range map[string]struct {
		o  options
		in *resources
	}{
		"dry run":             {options{discard: true}, &resources{limits: newLimits(options{})}},
		"export":              {options{exportDir: t.TempDir(), compression: "none"}, &resources{limits: newLimits(options{})}},
		"export of a slot":    {options{exportDir: "shared", compression: "none"}, &resources{limits: newLimits(options{}), files: dir}},
		"dry run in a worker": {options{discard: true, coordinator: target.Config{URL: "http://127.0.0.1:1"}}, &resources{limits: newLimits(options{})}},
	} {
		t.Run(name, func(t *testing.T) {
			c.in.bucket = throttle.New(1)
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
