package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/outputtest"
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
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	shown := foreground.New(foreground.Config{
		Name: name, Version: "1", Session: session, Slots: 1, Store: c, Read: status.ReadStore, Own: func() progress.Work { return progress.Work{} },
		Sample: func() metrics.Sample { return metrics.Sample{} }, Clock: timing.SystemClock(), Logs: daemon.NewLogRing(1), Log: slog.New(slog.DiscardHandler), Env: os.Getenv,
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { shown.Run(ctx) })
	t.Cleanup(func() { cancel(); running.Wait(); must(t, store.Close()) })
	until(t, func() bool {
		for _, path := range api.OwnSockets(os.Getenv) {
			if strings.HasPrefix(filepath.Base(path), name) {
				is, err := client.Session(t.Context(), path)
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
	for _, want := range []string{"state of the work in " + file, "session night: waiting", "2 of 4 shards, 2 failed", "24 documents, no work is in progress, 3 failed, 2 given up", "segment _3"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	var r status.Report
	if _, out, _ := rfsctl(t, "status", "--coordinator-file", file, "--output", "json"); outputtest.Decode(out, &r) != nil || r.Progress.GivenUp != 2 || r.Migration.Totals.ItemsBad != 2 {
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

// TestStatus_NamedSession: a session that is named is shown, or none is, however many processes run.
func TestStatus_NamedSession(t *testing.T) {
	for _, others := range []int{0, 1, 2} {
		t.Run(fmt.Sprintf("%d others run", others), func(t *testing.T) {
			ownDir(t)
			for n := range others {
				command(t, fmt.Sprintf("migrate-%d", n), fmt.Sprintf("mine%d", n), filepath.Join(t.TempDir(), "c.db"))
			}
			for _, args := range [][]string{{"status"}, {"items", "list"}, {"report"}, {"failures"}} {
				code, out, errs := rfsctl(t, append(args, "--session-name", "nosuch")...)
				if code != 1 || out != "" || !strings.Contains(errs, "no process on this machine works on the session nosuch") {
					t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
				}
				for n := range others {
					if name := fmt.Sprintf("session mine%d", n); !strings.Contains(errs, name) {
						t.Errorf("%v: no %q in %s", args, name, errs)
					}
				}
			}
			if others > 0 {
				if code, out, errs := rfsctl(t, "status", "--session-name", "mine0"); code != 0 || !strings.Contains(out, "session mine0") {
					t.Errorf("exit %d: %s%s", code, out, errs)
				}
			}
		})
	}
}

func TestSessions_OfAFile(t *testing.T) {
	ownDir(t)
	file := kept(t, time.Hour)
	code, out, errs := rfsctl(t, "sessions", "--coordinator-file", file)
	if code != 0 || !strings.Contains(out, "SESSION  SNAPSHOT  STATE") || !strings.Contains(out, "waiting") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	var all []struct {
		State   string
		GivenUp int64  `json:"given_up"`
		Last    string `json:"last_report"`
	}
	if code, out, errs := rfsctl(t, "sessions", "--coordinator-file", file, "--output", "json"); code != 0 || outputtest.Decode(out, &all) != nil || len(all) != 1 || all[0].GivenUp != 2 || all[0].Last == "" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for _, args := range [][]string{{"sessions"}, {"sessions", "--coordinator-file", file, "--session-name", "x"}, {"sessions", "--coordinator-file", file + "-none"}} {
		if code, out, errs := rfsctl(t, args...); code != 1 && !strings.Contains(out, "cannot be read") {
			t.Errorf("%v: exit %d: %s%s", args, code, out, errs)
		}
	}
}

// TestStatus_WatchOutlivesTheFirstContact: who watches a session waits for a store that is away, and ends when there is none of that name.
func TestStatus_WatchOutlivesTheFirstContact(t *testing.T) {
	ownDir(t)
	const unavailable, none = `{"error":{"type":"cluster_manager_not_discovered_exception"},"status":503}`, "no session of this name"
	var asked atomic.Int64
	store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch asked.Add(1) {
		case 1:
			panic(http.ErrAbortHandler) // it is just ending
		case 2:
			http.Error(w, unavailable, http.StatusServiceUnavailable)
		default:
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer store.Close()
	args := []string{"status", "--target-host", store.URL, "--session-name", "night"}
	if code, _, errs := rfsctl(t, args...); code != 1 || strings.Contains(errs, none) || strings.Contains(errs, "TLS") || asked.Load() != 1 {
		t.Errorf("one look at a store that is away: exit %d: %s", code, errs)
	}
	asked.Store(0)
	code, out, errs := rfsctl(t, append(args, "--watch")...)
	if code != 1 || !strings.Contains(errs, none) || strings.Count(out, "trying again") != 2 || strings.Contains(out, "TLS") || asked.Load() != 4 { // the last one lists sessions
		t.Errorf("exit %d after %d requests: %s\n%s", code, asked.Load(), errs, out)
	}
}
