package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// kept makes a coordination file whose last write was ago before now: logs/0 handed off and
// done, logs/1 FAILED, logs/2 FAILED, metrics/0 done.
func kept(t *testing.T, ago time.Duration) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "coordinator.db")
	now := time.Now().Add(-ago)
	store, err := boltcms.Open(path, func() time.Time { now = now.Add(time.Second); return now })
	must(t, err)
	worked(t, store)
	must(t, store.Close())
	return path
}

// worked lets workers of a session end in each way.
func worked(t *testing.T, store cms.Store) {
	t.Helper()
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	ctx := t.Context()
	ids := []cms.ItemID{{Index: "logs"}, {Index: "logs", Shard: 1}, {Index: "logs", Shard: 2}, {Index: "metrics"}}
	seed, err := c.AcquireSetup(ctx, "seeder")
	must(t, err)
	_, err = c.SeedItems(ctx, slices.Values(ids))
	must(t, err)
	must(t, seed.Complete(ctx, cms.Work{}))
	for {
		l, err := c.AcquireNext(ctx, "worker", nil)
		if err != nil {
			break
		}
		w := cms.Work{Counts: cms.Counts{Ordinals: 10, Live: 8, Indexed: 7, Failed: 1, Bytes: 700}, Setup: 500 * time.Millisecond}
		switch {
		case l.ID == ids[0]:
			must(t, l.Handoff(ctx, 10, w))
		case l.ID.Index == "logs" && l.ID.Shard > 0:
			must(t, l.Fail(ctx, "segment _3: checksum", nil))
		default:
			must(t, l.Complete(ctx, w))
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// rfsctl runs the program in this process.
func rfsctl(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = int(run(t.Context(), append([]string{"rfsctl"}, args...), &out, &errs))
	return code, out.String(), errs.String()
}

func itemsOf(t *testing.T, args ...string) status.ItemList {
	t.Helper()
	code, out, errs := rfsctl(t, append([]string{"items", "list", "--output", "json"}, args...)...)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var l status.ItemList
	if err := outputtest.Decode(out, &l); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return l
}

func TestItemsAreListedWithStatesSumsAndFilters(t *testing.T) {
	path := kept(t, time.Hour)
	l := itemsOf(t, "--coordinator-file", path)
	var got []string
	for _, r := range l.Items {
		got = append(got, r.Index+" "+r.State)
	}
	want := []string{"logs handed off", "logs done", "logs failed", "logs failed", "metrics done"}
	if !slices.Equal(got, want) {
		t.Errorf("items %q, want %q", got, want)
	}
	if l.Items[1].Cursor != 10 || l.Items[2].Failure != "segment _3: checksum" {
		t.Errorf("%+v", l.Items)
	}
	if l.Total != 5 || l.States[status.Failed] != 2 || l.Totals.Live != 24 || l.Totals.Indexed != 21 {
		t.Errorf("totals %+v of %d items, %v", l.Totals, l.Total, l.States)
	}
	if !l.Safe || !l.Seeded {
		t.Errorf("an hour after the last request the target is not safe to write: %+v", l)
	}
	for _, c := range []struct {
		args []string
		n    int
	}{
		{[]string{"--index", "metrics"}, 1},
		{[]string{"--index", "nothing"}, 0},
		{[]string{"--state", "failed"}, 2},
		{[]string{"--state", "handed-off", "--state", "done"}, 3},
		{[]string{"--state", "done", "--index", "logs"}, 1},
	} {
		l := itemsOf(t, append([]string{"--coordinator-file", path}, c.args...)...)
		if len(l.Items) != c.n || l.Total != 5 {
			t.Errorf("%q lists %d items of %d, want %d", c.args, len(l.Items), l.Total, c.n)
		}
	}
	code, out, _ := rfsctl(t, "items", "list", "--coordinator-file", path)
	if code != 0 || !strings.HasPrefix(out, "INDEX  ") || !strings.Contains(out, "5 items: 2 done, 1 handed off, 2 failed") || !strings.Contains(out, "safe to write: yes") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestSafeToWriteWaitsForTheLastRequest(t *testing.T) {
	path := kept(t, 10*time.Second)
	l := itemsOf(t, "--coordinator-file", path)
	if l.Safe || l.SafeFrom == nil || l.SafeFrom.Before(l.ReadAt) || l.SafeFrom.After(l.ReadAt.Add(3*time.Minute)) {
		t.Errorf("seconds after the last request: safe %v from %v, now %v", l.Safe, l.SafeFrom, l.ReadAt)
	}
	_, out, _ := rfsctl(t, "items", "list", "--coordinator-file", path)
	if !strings.Contains(out, "safe to write: not before ") {
		t.Error(out)
	}
}

func TestRetryOpensFailedItemsAndOnlyThose(t *testing.T) {
	path := kept(t, time.Hour)
	failed := itemsOf(t, "--coordinator-file", path, "--state", "failed").Items
	done := itemsOf(t, "--coordinator-file", path, "--state", "done").Items[0]
	code, out, errs := rfsctl(t, "items", "retry", "--coordinator-file", path, failed[0].ID, done.ID, failed[1].ID)
	if code != 1 || strings.Count(out, "is open again") != 2 || !strings.Contains(errs, "is not FAILED") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	l := itemsOf(t, "--coordinator-file", path)
	if l.States[status.Open] != 2 || l.States[status.Failed] != 0 || l.Safe || l.SafeFrom != nil {
		t.Errorf("%+v", l)
	}
	store, err := boltcms.Open(path, time.Now)
	must(t, err)
	defer store.Close()
	events := 0
	for r, err := range store.List(t.Context(), "event") {
		must(t, err)
		if strings.HasPrefix(r.State, "retried-") {
			events++
			if !strings.Contains(string(r.Body), operator()) {
				t.Errorf("the event does not name the operator: %s", r.Body)
			}
		}
	}
	if events != 2 {
		t.Errorf("%d events for 2 retries", events)
	}
}

func TestCancelGivesUpOpenItemsAndOnlyThose(t *testing.T) {
	path := kept(t, time.Hour)
	id := itemsOf(t, "--coordinator-file", path, "--state", "failed").Items[0].ID
	done := itemsOf(t, "--coordinator-file", path, "--state", "done").Items[0].ID
	if code, _, errs := rfsctl(t, "items", "retry", "--coordinator-file", path, id); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := rfsctl(t, "items", "cancel", "--coordinator-file", path, done, id)
	if code != 1 || out != id+" is cancelled\n" || !strings.Contains(errs, "is not open") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	l := itemsOf(t, "--coordinator-file", path, "--state", "failed")
	if i := slices.IndexFunc(l.Items, func(x status.Item) bool { return x.ID == id }); i < 0 || l.Items[i].Failure != "cancelled by "+operator() {
		t.Errorf("%+v", l.Items)
	}
}

func TestAnItemIDThatIsNoneIsRefusedByName(t *testing.T) {
	for _, command := range []string{"retry", "cancel"} {
		code, _, errs := rfsctl(t, "items", command, "--coordinator-file", kept(t, time.Hour), "logs-1")
		if code != 1 || !strings.Contains(errs, "invalid work item id \"logs-1\"") || strings.Contains(errs, "corrupt") {
			t.Errorf("items %s: exit %d: %s", command, code, errs)
		}
	}
}

func TestShowTellsEverythingOfAnItem(t *testing.T) {
	path := kept(t, time.Hour)
	id := itemsOf(t, "--coordinator-file", path, "--state", "failed").Items[0].ID
	code, out, errs := rfsctl(t, "items", "show", "--coordinator-file", path, id)
	if code != 0 || !strings.Contains(out, "segment _3: checksum") || !strings.Contains(out, "state                      failed") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, _ = rfsctl(t, "items", "show", "--coordinator-file", path, "--output", "json", id)
	var shown status.Item
	if err := outputtest.Decode(out, &shown); err != nil || code != 0 || shown.State != status.Failed || shown.ID != id || shown.Acquired == nil || shown.Completed == nil || shown.Creator != "test" {
		t.Errorf("exit %d, %v: %s", code, err, out)
	}
	unknown := cms.ItemID{Index: "none"}.String()
	if code, _, errs := rfsctl(t, "items", "show", "--coordinator-file", path, unknown); code != 1 || !strings.Contains(errs, unknown) {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestReportSumsUpAndSuggestsALease(t *testing.T) {
	path := kept(t, time.Hour)
	code, out, errs := rfsctl(t, "report", "--coordinator-file", path, "--output", "json")
	var a status.Account
	if err := outputtest.Decode(out, &a); err != nil || code != 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	r := a.Work
	if len(r.Indices) != 2 || r.Total.Items != 5 || r.Total.Ended != 5 || r.Total.GivenUp != 2 || r.Total.Indexed != 21 {
		t.Errorf("%+v", r)
	}
	if a.Items[status.Failed] != 2 || len(a.Migration.Failures) != 1 || len(a.Events) != 2 {
		t.Errorf("%+v", a)
	}
	if r.Total.Setup != 1.5 || r.SetupP90 != 0.5 || r.Total.Rate <= 0 || r.SuggestedLease != "1m" {
		t.Errorf("%+v", r)
	}
	if _, out, _ := rfsctl(t, "report", "--coordinator-file", path); !strings.Contains(out, "--initial-lease-duration 1m") {
		t.Error(out)
	}
}

func TestReportShowsWhatIsOnTheTarget(t *testing.T) {
	index := func(name, target string, a *progress.Arrival) progress.Index {
		return progress.Index{Name: name, Targets: []string{target}, OnTarget: a}
	}
	m := &progress.Migration{Indices: []progress.Index{
		index("a", "c", &progress.Arrival{Found: 5, Lucene: 9, Shared: true}), index("b", "c", &progress.Arrival{Found: 5, Lucene: 9, Shared: true}),
		index("d", "d", &progress.Arrival{Found: 1, Lucene: 3}),
	}}
	for _, c := range []struct{ name, total string }{{"all counted", "6 12"}, {"one is not counted yet", "- -"}} {
		t.Run(c.name, func(t *testing.T) {
			var items []status.Item
			for _, x := range m.Indices {
				items = append(items, status.Item{Index: x.Name, State: status.Done})
			}
			items[0].State, items[0].Sums = status.Failed, status.Sums{Live: 9, Indexed: 4, Kept: 3, Failed: 2}
			var out bytes.Buffer
			if err := printAccount(&out, status.NewAccount(m, items, status.NewFailures(), nil)); err != nil {
				t.Fatal(err)
			}
			rows := map[string]string{}
			for line := range strings.Lines(out.String()) {
				if f := strings.Fields(line); len(f) > 12 {
					rows[f[0]] = f[11] + " " + f[12] // behind the bytes and their unit
				}
			}
			if line := regexp.MustCompile(`(?m)^a .*`).FindString(out.String()); !strings.HasPrefix(strings.Join(strings.Fields(out.String()), " "), "INDEX ITEMS ENDED GIVEN UP LIVE INDEXED KEPT FAILED FILTERED BYTES") ||
				!strings.HasPrefix(strings.Join(strings.Fields(line), " "), "a 1 1 1 9 4 3 2 0 0 B") {
				t.Errorf("the columns are not what their headers name: %s", out.String())
			}
			if rows["a"] != "5 9" || rows["d"] != "1 3" || rows["total"] != c.total {
				t.Errorf("%v, want the total %s", rows, c.total)
			}
		})
		m.Indices = append(m.Indices, index("e", "e", nil))
	}
}

// TestReport_Rounds: the report of a session that is followed names the round that it has, and the last one.
func TestReport_Rounds(t *testing.T) {
	for _, c := range []struct {
		name   string
		rounds []progress.Round
		want   bool
	}{{"before the second", []progress.Round{{}}, false}, {"after the third", []progress.Round{{}, {Number: 1}, {Number: 2}}, true}} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			m := &progress.Migration{Rounds: &progress.Following{Rounds: c.rounds}}
			if err := printAccount(&out, status.NewAccount(m, nil, status.NewFailures(), nil)); err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(out.String(), "this is round 0; rfsctl report --session-name NAME-round-2 shows the last round"); got != c.want {
				t.Errorf("%s", out.String())
			}
		})
	}
}

func TestCoordinationFlagsAreChecked(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "none.db")
	t.Setenv("TMPDIR", t.TempDir()) // commands that run elsewhere on this machine are not looked at
	t.Setenv("XDG_RUNTIME_DIR", "")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"the location of the state is missing", nil},
		{"exclude each other", []string{"--coordinator-file", "x", "--coordinator-host", "http://127.0.0.1:9"}},
		{"does not exist", []string{"--coordinator-file", missing}},
		{"--session-name", []string{"--coordinator-file", "x", "--session-name", "Big"}},
		{"--output", []string{"--coordinator-file", "x", "--output", "yaml"}},
		{"--state", []string{"--coordinator-file", "x", "--state", "lost"}},
		{"password-file", []string{"--target-host", "http://127.0.0.1:9", "--target-password-file", missing}},
		{"127.0.0.1:9", []string{"--target-host", "http://127.0.0.1:9"}},
	} {
		code, _, errs := rfsctl(t, append([]string{"items", "list"}, c.args...)...)
		if code != 1 || !strings.Contains(errs, c.says) {
			t.Errorf("%q: exit %d: %s", c.args, code, errs)
		}
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("a file that was only asked for was made")
	}
}
