package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/exit"
)

// TestAnInterruptionStatesHowToGoOn: the last line says what to do, and nothing of how Go names an interruption.
func TestAnInterruptionStatesHowToGoOn(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	name := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	was := os.Stderr
	os.Stderr = f
	defer func() { os.Stderr = was }()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	code := run(ctx, []string{"rfsd", "migrate", "--discard", "--output", "json", "--repo-uri", filepath.Join("..", "..", "testing", "fixtures", "7.10.2-demo"), "--snapshot-name", "snap1"})
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	if last := lines[len(lines)-1]; code != exit.Failed || !strings.HasPrefix(last, "rfsd: interrupted; run the same command again to continue") || strings.Contains(last, "canceled") {
		t.Errorf("exit %d: %s", code, b)
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
			signals, ended := make(chan os.Signal), make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			var stderr bytes.Buffer
			go func() { interrupt(signals, c.args, &stderr, cancel); close(ended) }()
			signals <- os.Interrupt
			<-ctx.Done()
			if !c.words {
				return
			}
			signals <- os.Interrupt
			<-ended
			if !strings.Contains(stderr.String(), "a second interruption ends immediately") {
				t.Errorf("%q", stderr.String())
			}
		})
	}
}
