package foreground_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	coordination "github.com/rfsd/rfsd/rfs/coordination/session"

	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/daemon/foreground"
	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/boltstore"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

type noLines struct{}

func (noLines) Last(int) []status.LogLine { return nil }

// session is a coordination store with one item, whose lease is held.
func session(t *testing.T) (*cms.Coordinator, *cms.Lease) {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	seed, err := c.AcquireSetup(t.Context(), "seeder")
	must(t, err)
	_, err = c.SeedItems(t.Context(), slices.Values([]cms.ItemID{{Index: "logs"}}))
	must(t, err)
	must(t, seed.Complete(t.Context(), cms.Work{}))
	_, err = store.Put(t.Context(), cms.Record{ID: "phase:docs", Kind: "phase", State: progress.Completed})
	must(t, err)
	l, err := c.AcquireNext(t.Context(), "worker", nil)
	must(t, err)
	return c, l
}

// begin runs a command until the returned function is called.
func begin(t *testing.T, name string, c *cms.Coordinator, own progress.Work, env func(string) string) (end func()) {
	t.Helper()
	command := foreground.New(foreground.Config{
		Name: name, Version: "1", Session: "night", Slots: 2, Store: c, Read: status.ReadStore, Own: func() progress.Work { return own },
		Sample: func() metrics.Sample { return metrics.Sample{Documents: own.Documents} }, Clock: timing.SystemClock(), Logs: noLines{}, Log: slog.New(slog.DiscardHandler), Env: env,
	})
	return start(t, command)
}

// start runs a command until the test ends, or end is called.
func start(t *testing.T, command *foreground.Command) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { command.Run(ctx) })
	end = sync.OnceFunc(func() { cancel(); running.Wait() })
	t.Cleanup(end)
	return end
}

// sockets blocks until a number of commands can be reached.
func sockets(t *testing.T, env func(string) string, n int) []string {
	t.Helper()
	for {
		all := api.OwnSockets(env)
		if len(all) == n {
			return all
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("%q, want %d", all, n)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func ask(t *testing.T, socket, path string, into any) error {
	t.Helper()
	c, err := client.New(client.Options{Nodes: []string{socket}})
	must(t, err)
	_, err = c.Get(t.Context(), path, nil, into)
	return err
}

// read blocks until a command has read its session.
func read(t *testing.T, socket string) (r status.Report) {
	t.Helper()
	for r.Migration == nil {
		must(t, ask(t, socket, "/v1/status", &r))
		select {
		case <-t.Context().Done():
			t.Fatal("the session was not read")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return r
}

func environment(dir string) func(string) string {
	return func(name string) string {
		if name == "XDG_RUNTIME_DIR" || name == "TMPDIR" {
			return dir
		}
		return ""
	}
}

func TestCommandsAreFoundByTheirUserAlone(t *testing.T) {
	env := environment(t.TempDir())
	c, _ := session(t)
	endMigrate := begin(t, "migrate", c, progress.Work{Documents: 7, Running: 1}, env)
	endImport := begin(t, "import", c, progress.Work{}, env)
	all := sockets(t, env, 2)
	for _, path := range all {
		info, err := os.Stat(path)
		must(t, err)
		dir, err := os.Stat(filepath.Dir(path))
		must(t, err)
		if info.Mode().Perm() != 0o600 || dir.Mode().Perm() != 0o700 {
			t.Errorf("%s: %v in %v", path, info.Mode(), dir.Mode())
		}
	}
	r := read(t, all[1])
	if r.Node.Name != filepath.Base(all[1][:len(all[1])-len(".sock")]) || r.Node.Running != 1 || r.Migration.Session != "night" || r.Progress.Documents != 7 || r.Progress.State != progress.StateWorking {
		t.Errorf("%+v", r)
	}
	endImport()
	if left := sockets(t, env, 1); left[0] != all[1] {
		t.Errorf("%q is left", left)
	}
	endMigrate()
	if _, err := os.Stat(all[1]); !os.IsNotExist(err) {
		t.Errorf("the socket is left: %v", err)
	}
}

// The store, a node and a command describe the same session in the same terms.
func TestACommandAnswersWhatTheStoreHolds(t *testing.T) {
	env := environment(t.TempDir())
	c, _ := session(t)
	begin(t, "migrate", c, progress.Work{}, env)
	path := sockets(t, env, 1)[0]
	got := read(t, path)
	want, items, err := status.Read(t.Context(), c)
	must(t, err)
	want.Session, want.ReadAt = "night", got.Migration.ReadAt
	if a, b := text(t, got.Migration), text(t, want); a != b {
		t.Errorf("the command:\n%s\nthe store:\n%s", a, b)
	}
	var listed status.ItemList
	must(t, ask(t, path, "/v1/items", &listed))
	if !reflect.DeepEqual(listed, status.NewItemList(want, items, status.ItemFilter{})) {
		t.Errorf("%+v, want %+v", listed, items)
	}
	var account status.Account
	must(t, ask(t, path, "/v1/report", &account))
	failures, err := status.ReadRefused(t.Context(), c)
	must(t, err)
	events, err := status.ReadEvents(t.Context(), c)
	must(t, err)
	account.ReadAt, account.Migration.ReadAt = want.ReadAt, want.ReadAt
	if a, b := text(t, account), text(t, status.NewAccount(want, items, failures.With(want), events)); a != b {
		t.Errorf("the command:\n%s\nthe store:\n%s", a, b)
	}
	var failed status.Failures
	must(t, ask(t, path, "/v1/failures", &failed))
	if a, b := text(t, failed), text(t, failures.With(want)); a != b {
		t.Errorf("the command:\n%s\nthe store:\n%s", a, b)
	}
	client, err := client.New(client.Options{Nodes: []string{path}})
	must(t, err)
	if _, _, err := client.Order(t.Context(), "pause", api.OrderArguments{}); err == nil || !strings.Contains(err.Error(), "takes no orders") {
		t.Errorf("pause: %v", err)
	}
}

func TestFollowersReceiveTheEnd(t *testing.T) {
	env := environment(t.TempDir())
	c, lease := session(t)
	end := begin(t, "migrate", c, progress.Work{Running: 1}, env)
	path := sockets(t, env, 1)[0]
	read(t, path)
	follower, err := client.New(client.Options{Nodes: []string{path}})
	must(t, err)
	begun, complete := make(chan struct{}), false
	var following sync.WaitGroup
	following.Go(func() {
		first := sync.OnceFunc(func() { close(begun) })
		err := follower.Follow(t.Context(), func(b json.RawMessage) bool {
			first()
			var r status.Report
			must(t, json.Unmarshal(b, &r))
			complete = r.Migration.Complete
			return !complete
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-begun
	must(t, lease.Complete(t.Context(), cms.Work{Counts: cms.Counts{Ordinals: 1, Live: 1, Indexed: 1}}))
	end()
	following.Wait()
	if !complete {
		t.Error("the last status does not show the end")
	}
}

func TestSocketsOfKilledProcessesAreRemoved(t *testing.T) {
	dir := t.TempDir()
	env := environment(dir)
	first, err := api.NewOwnSocket("migrate", env)
	must(t, err)
	dead := filepath.Join(filepath.Dir(first), "migrate-999999999.sock")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: dead})
	must(t, err)
	l.SetUnlinkOnClose(false)
	must(t, l.Close())
	if all := api.OwnSockets(env); len(all) != 0 {
		t.Errorf("%q cannot be asked", all)
	}
	_, err = api.NewOwnSocket("migrate", env)
	must(t, err)
	if _, err := os.Stat(dead); !os.IsNotExist(err) {
		t.Errorf("it is left: %v", err)
	}
	must(t, os.Chmod(filepath.Dir(first), 0o755))
	if _, err := api.NewOwnSocket("migrate", env); err == nil {
		t.Error("a directory that others can enter is taken")
	}
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.MarshalIndent(v, "", " ")
	must(t, err)
	return string(b)
}

// TestCommand_RowsAndHeaderAgree requests the status while the process is ahead of the store: the rows of indices and the header always
// have the same numbers.
func TestCommand_RowsAndHeaderAgree(t *testing.T) {
	c, lease := session(t)
	var mu sync.Mutex
	documents := int64(0)
	dir := t.TempDir()
	env := func(string) string { return dir }
	command := foreground.New(foreground.Config{
		Name: "migrate", Version: "1", Session: "night", Slots: 1, Store: c, Read: status.ReadStore,
		Own: func() progress.Work {
			mu.Lock()
			defer mu.Unlock()
			return progress.Work{Documents: documents, Running: 1}
		},
		Ahead: func() map[string]progress.Ahead {
			mu.Lock()
			defer mu.Unlock()
			return map[string]progress.Ahead{lease.Item.ID: {Watermark: documents, Counts: cms.Counts{Indexed: documents - 1, Failed: min(documents, 1)}}}
		},
		Sample: func() metrics.Sample { return metrics.Sample{} }, Clock: timing.SystemClock(), Logs: noLines{}, Log: slog.New(slog.DiscardHandler), Env: env,
	})
	start(t, command)
	read(t, sockets(t, env, 1)[0])
	for _, n := range []int64{1, 26_976, 30_000} {
		mu.Lock()
		documents = n
		mu.Unlock()
		r := command.Status(t.Context())
		rows := int64(0)
		for _, x := range r.Migration.Indices {
			rows += x.Counts.Indexed + x.Counts.Failed
		}
		if r.Progress.Documents != n || rows != n || r.Progress.Failed != r.Migration.Totals.Failed || r.Migration.Totals.Failed != 1 {
			t.Errorf("header %d, %d failed; rows %d, %+v; want %d", r.Progress.Documents, r.Progress.Failed, rows, r.Migration.Totals, n)
		}
	}
}

// TestCommand_TakesOrdersOfTheSessionThatItFollows: orders are stored with the orders of all rounds. A command that would end while it is
// paused accepts only limits.
func TestCommand_TakesOrdersOfTheSessionThatItFollows(t *testing.T) {
	rate, none := int64(20<<20), int64(0)
	type order struct {
		kind   coordination.OrderKind
		with   api.OrderArguments
		refuse string
		want   coordination.FleetState
		set    string
	}
	set := func(name string, value *int64) api.OrderArguments {
		return api.OrderArguments{Setting: name, Value: value}
	}
	for _, c := range []struct {
		name   string
		pauses bool
		orders []order
	}{
		{"waits", true, []order{
			{coordination.OrderPause, api.OrderArguments{}, "", coordination.Pause, ""},
			{coordination.OrderDrain, api.OrderArguments{}, "pause, resume and set only", coordination.Pause, ""},
			{coordination.OrderScale, api.OrderArguments{Workers: new(int)}, "pause, resume and set only", coordination.Pause, ""},
			{coordination.OrderSet, set("max-rate", &rate), "", coordination.Pause, "max-rate 20MiB"},
			{coordination.OrderResume, api.OrderArguments{Nodes: []string{"n1"}}, "without names of nodes", coordination.Pause, "max-rate 20MiB"},
			{coordination.OrderResume, api.OrderArguments{}, "", coordination.Run, "max-rate 20MiB"},
		}},
		{"ends", false, []order{
			{coordination.OrderPause, api.OrderArguments{}, "no orders but set", coordination.Run, ""},
			{coordination.OrderSet, set("max-read-rate", &none), "", coordination.Run, "max-read-rate 0"},
			{coordination.OrderSet, set("slots", &none), "cannot be set while the work runs", coordination.Run, "max-read-rate 0"},
			{coordination.OrderSet, set("max-read-rate", nil), "", coordination.Run, ""},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			round, _ := session(t)
			root, _ := session(t)
			dir := t.TempDir()
			env := func(string) string { return dir }
			command := foreground.New(foreground.Config{
				Name: "migrate", Version: "1", Session: "night-round-1", Slots: 1, Store: round, Orders: root, Pauses: c.pauses, Read: status.ReadStore, Own: func() progress.Work { return progress.Work{} },
				Sample: func() metrics.Sample { return metrics.Sample{} }, Clock: timing.SystemClock(), Logs: noLines{}, Log: slog.New(slog.DiscardHandler), Env: env,
			})
			start(t, command)
			asked, err := client.New(client.Options{Nodes: sockets(t, env, 1)})
			must(t, err)
			for _, x := range c.orders {
				_, done, err := asked.Order(t.Context(), x.kind, x.with)
				if (err == nil) != (x.refuse == "") || err != nil && !strings.Contains(err.Error(), x.refuse) {
					t.Errorf("%s: %v", x.kind, err)
				}
				of, err := coordination.OrdersOf(root).Intent(t.Context())
				must(t, err)
				own, err := coordination.OrdersOf(round).Intent(t.Context())
				must(t, err)
				if of.State != x.want || of.Set.String() != x.set || own.State != coordination.Run || own.Set.String() != "" || x.refuse == "" && done.Intent.Set.String() != x.set {
					t.Errorf("after %s: %+v of all rounds, %+v of this one, %+v answered", x.kind, of, own, done)
				}
			}
		})
	}
}

// TestCommand_ShowsWhyItDoesNotWork: in a round and between two, under each order of the session that it follows, and without orders.
func TestCommand_ShowsWhyItDoesNotWork(t *testing.T) {
	const between = "following; the next round starts at noon"
	pause, drain := coordination.OrderPause, coordination.OrderDrain
	for _, x := range []struct {
		name          string
		waits         string
		deaf          bool // it would end while it is paused
		orders        []coordination.OrderKind
		state, reason string
		wanted        int
	}{
		{"a round", "", false, nil, "running", "", 3},
		{"a paused round", "", false, []coordination.OrderKind{pause}, "paused", "by ann", 0},
		{"a drained round", "", false, []coordination.OrderKind{drain}, "drained", "by ann", 0},
		{"a resumed round", "", false, []coordination.OrderKind{pause, coordination.OrderResume}, "running", "", 3},
		{"a scaled round", "", false, []coordination.OrderKind{coordination.OrderScale}, "running", "", 3},
		{"between two rounds", between, false, nil, "waiting", between, 0},
		{"paused between two rounds", between, false, []coordination.OrderKind{pause}, "paused", "by ann", 0},
		{"resumed between two rounds", between, false, []coordination.OrderKind{pause, coordination.OrderResume}, "waiting", between, 0},
		{"a migration, which ends instead", "", true, []coordination.OrderKind{pause}, "running", "", 3},
	} {
		t.Run(x.name, func(t *testing.T) {
			root, _ := session(t)
			for _, kind := range x.orders {
				_, err := coordination.OrdersOf(root).Issue(t.Context(), coordination.Order{Kind: kind, Who: "ann"})
				must(t, err)
			}
			dir := t.TempDir()
			command := foreground.New(foreground.Config{
				Name: "migrate", Version: "1", Session: "night", Slots: 3, Store: root, Orders: root, Pauses: !x.deaf, Waits: x.waits, Read: status.ReadStore, Own: func() progress.Work { return progress.Work{} },
				Sample: func() metrics.Sample { return metrics.Sample{} }, Clock: timing.SystemClock(), Logs: noLines{}, Log: slog.New(slog.DiscardHandler), Env: func(string) string { return dir },
			})
			if first := command.Status(t.Context()).Node; first.State != "starting" || first.Wanted != 0 {
				t.Errorf("before the store was read it is %+v", first)
			}
			start(t, command)
			for command.Status(t.Context()).Migration == nil {
				time.Sleep(time.Millisecond)
			}
			if is := command.Status(t.Context()).Node; is.State != x.state || is.Reason != x.reason || is.Wanted != x.wanted {
				t.Errorf("it is %s (%s) and wants %d workers", is.State, is.Reason, is.Wanted)
			}
		})
	}
}
