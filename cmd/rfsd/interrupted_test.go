package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/interruption"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestAnInterruptionStatesHowToGoOn: the last line says what to do, and nothing of how Go names an interruption.
func TestAnInterruptionStatesHowToGoOn(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, []string{"rfsd", "migrate", "--discard", "--output", "json", "--repo-uri", filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), "--snapshot-name", "snap1"}, &stdout, &stderr)
	const want = "interrupted; run the same command again to continue"
	if code != exit.Failed || !strings.HasPrefix(stderr.String(), "rfsd: "+want) || strings.Contains(stderr.String(), "canceled") {
		t.Errorf("exit %d: %s", code, &stderr)
	}
	all, err := outputtest.Documents(stdout.String())
	if err != nil || len(all) != 1 || all[0].ExitCode == nil || *all[0].ExitCode != 1 || !strings.HasPrefix(all[0].Error, want) || all[0].Command != "rfsd migrate" {
		t.Errorf("%v %s", err, &stdout)
	}
}

func TestASecondInterruptionEndsAtOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		words bool
	}{
		{"a migration", []string{"rfsd", "migrate"}, true},
		{"no command", []string{"rfsd"}, true},
		{"a daemon ends its workers", []string{"rfsd", "run"}, false},
		{"a worker hands off", []string{"rfsd", "worker"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals, ended := make(chan os.Signal), make(chan struct{})
				ctx, cancel := context.WithCancel(t.Context())
				var stderr bytes.Buffer
				go func() { interrupt(signals, c.args, &stderr, cancel); close(ended) }()
				signals <- os.Interrupt
				<-ctx.Done()
				defer func() { close(signals); <-ended }()
				if !c.words {
					return
				}
				signals <- os.Interrupt // of the same interruption
				synctest.Wait()
				select {
				case <-ended:
					t.Fatal("two signals at once ended it")
				default:
				}
				time.Sleep(2 * interruption.Same)
				signals <- os.Interrupt
				<-ended
				if !strings.Contains(stderr.String(), "a second interruption ends immediately") {
					t.Errorf("%q", stderr.String())
				}
			})
		})
	}
}
