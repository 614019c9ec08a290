package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/rfs/base/fault"
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
				_, done, err := wiring.OpenStore(ctx, r.Options, false)
				if err == nil {
					_ = done()
				}
				return err
			},
			"node": func() error { _, err := wiring.OpenCoordinator(ctx, r.Options); return err },
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
