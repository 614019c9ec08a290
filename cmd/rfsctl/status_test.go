package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/progress"
)

// ownDir gives this test sockets of its own.
func ownDir(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("XDG_RUNTIME_DIR", dir)
	t.Setenv("TMPDIR", dir)
}

// command runs a command on a session in a coordinator file, until the test ends.
func command(t *testing.T, name, session, file string) {
	t.Helper()
	store, err := boltcms.Open(file, time.Now)
	must(t, err)
	c, err := cms.New(cms.Config{Store: store, Creator: "test"})
	must(t, err)
	shown := foreground.New(foreground.Config{
		Name: name, Version: "1", Session: session, Slots: 1, Store: c, Read: status.Read, Own: func() progress.Work { return progress.Work{} },
		Sample: func() metrics.Sample { return metrics.Sample{} }, Clock: cms.SystemClock(), Logs: daemon.NewLogRing(1), Log: slog.New(slog.DiscardHandler), Env: os.Getenv,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { shown.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); must(t, store.Close()) })
	until(t, func() bool {
		for _, path := range api.OwnSockets(os.Getenv) {
			if strings.HasPrefix(filepath.Base(path), name) {
				is, err := sessionOf(path)
				return err == nil && is == session
			}
		}
		return false
	})
}

func until(t *testing.T, is func() bool) {
	t.Helper()
	for !is() {
		select {
		case <-t.Context().Done():
			t.Fatal("it did not happen")
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func TestStatusIsReadFromTheStore(t *testing.T) {
	ownDir(t)
	file := kept(t, time.Hour)
	code, out, errs := rfsctl(t, "status", "--coordinator-file", file, "--session-name", "night")
	if code != 7 {
		t.Errorf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"state of the work in " + file, "session night: waiting", "2 of 4 shards, 2 failed", "24 documents, no work is under way, 3 failed, 2 given up", "segment _3"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r status.Report
	if _, out, _ := rfsctl(t, "status", "--coordinator-file", file, "--output", "json"); json.Unmarshal([]byte(out), &r) != nil || r.Progress.GivenUp != 2 || r.Migration.Totals.ItemsBad != 2 {
		t.Error(out)
	}
	if code, _, errs := rfsctl(t, "status"); code != 1 || !strings.Contains(errs, "--target-host") {
		t.Errorf("nothing is named, and nothing runs: exit %d: %s", code, errs)
	}
}

// watching is what a command writes that does not end by itself: seen is called when it has written the text.
type watching struct {
	strings.Builder
	text string
	seen func()
}

func (w *watching) Write(b []byte) (int, error) {
	n, err := w.Builder.Write(b)
	if w.seen != nil && strings.Contains(w.String(), w.text) {
		w.seen()
	}
	return n, err
}

func TestARunningCommandIsFound(t *testing.T) {
	ownDir(t)
	files := []string{kept(t, time.Hour), kept(t, time.Hour)}
	command(t, "migrate", "night", files[0])
	for _, args := range [][]string{{"status"}, {"status", "--coordinator-file", files[0]}, {"status", "--watch", "--shards", "--output", "json"}, {"status", "--session-name", "night"}, {"items", "list", "--coordinator-file", files[0]}, {"report"}, {"events"}} {
		ctx, end := context.WithTimeout(t.Context(), time.Minute)
		out, errs := &watching{}, &strings.Builder{}
		if slices.Contains(args, "--watch") {
			out.text, out.seen = "night", end
		}
		if code := int(run(ctx, append([]string{"rfsctl"}, args...), out, errs)); code == 1 {
			t.Errorf("%q: exit %d: %s", args, code, errs)
		}
		end()
		if args[0] == "status" && !strings.Contains(out.String(), "night") {
			t.Errorf("%q: %s", args, out)
		}
	}
	command(t, "import", "day", files[1])
	if code, _, errs := rfsctl(t, "status"); code != 1 || !strings.Contains(errs, "2 commands of rfsd run") || !strings.Contains(errs, "(session night)") || !strings.Contains(errs, "(session day)") {
		t.Errorf("exit %d: %s", code, errs)
	}
	for session, file := range map[string]string{"night": files[0], "day": files[1]} {
		for _, args := range [][]string{{"status", "--session-name", session}, {"status", "--coordinator-file", file}} {
			code, out, errs := rfsctl(t, args...)
			want := "session " + session
			if args[1] == "--coordinator-file" { // both commands are of this process, which has both files
				want = "session"
			}
			if code != 7 || !strings.Contains(out, want) {
				t.Errorf("%q: exit %d: %s%s", args, code, out, errs)
			}
		}
	}
	if code, _, errs := rfsctl(t, "pause", "--node", api.OwnSockets(os.Getenv)[0]); code != 1 || !strings.Contains(errs, "takes no orders") {
		t.Errorf("pause: exit %d: %s", code, errs)
	}
}
