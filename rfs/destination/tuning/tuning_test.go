package tuning_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/tuning"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// fakeTarget has the settings of indices.
type fakeTarget struct {
	mu      sync.Mutex
	pause   time.Duration // of each request
	indices map[string]map[string]string
	behind  map[string][]string // indices of aliases and data streams
	denied  bool                // puts are refused
	fail    int                 // the next so many puts break before they are applied
	theirs  map[string]bool     // indices without the mark of the session
	asked   int                 // requests
	puts    int                 // requests that change settings
	goes    string              // an index that is deleted before the next put
}

// ours is the mark of the session.
var ours = objects.Mark{Session: "s", Token: "T"}

func (f *fakeTarget) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
	time.Sleep(f.pause)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	if names, _, several := strings.Cut(strings.TrimPrefix(path, "/"), "/_settings/"); several {
		found := map[string]any{}
		for _, name := range strings.Split(names, ",") {
			for _, index := range append(f.behind[name], name) {
				if x := f.indices[index]; x != nil {
					found[index] = map[string]any{"settings": x}
				}
			}
		}
		b, _ := json.Marshal(found)
		return 200, b, nil
	}
	name := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/_settings")
	if method == http.MethodPut {
		f.puts++
		delete(f.indices, f.goes)
		if f.fail > 0 {
			f.fail--
			return 0, nil, fault.ErrUnavailable
		}
		if f.denied {
			return 403, []byte(`{"error":{"type":"security_exception","reason":"no permissions"}}`), nil
		}
		var set map[string]*string
		if err := json.Unmarshal(body, &set); err != nil {
			return 400, nil, nil
		}
		names := strings.Split(name, ",")
		if slices.ContainsFunc(names, func(name string) bool { return f.indices[name] == nil }) {
			return 404, []byte(`{}`), nil
		}
		for _, name := range names {
			for k, v := range set {
				if v == nil {
					delete(f.indices[name], k)
				} else {
					f.indices[name][k] = *v
				}
			}
		}
		return 200, []byte(`{}`), nil
	}
	x := f.indices[name]
	if x == nil {
		return 404, []byte(`{}`), nil
	}
	b, _ := json.Marshal(map[string]any{"settings": x})
	if !f.theirs[name] {
		b, _ = ours.Put(objects.IndexMark, name, b)
	}
	b, _ = json.Marshal(map[string]json.RawMessage{name: b})
	return 200, b, nil
}

func tuner(t *testing.T, f *fakeTarget) *tuning.Tuner {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "t"})
	return &tuning.Tuner{API: f, Records: session.TuningsOf(c), Mark: func(context.Context) (objects.Mark, error) { return ours, nil }, Log: slog.New(slog.DiscardHandler)}
}

func TestTunedSettingsComeBackAsTheyWereAndOnlyThose(t *testing.T) {
	f := &fakeTarget{indices: map[string]map[string]string{
		"a": {"index.uuid": "ua", "index.number_of_replicas": "2"},
		"b": {"index.uuid": "ub", "index.number_of_replicas": "1", "index.refresh_interval": "5s"},
		"c": {"index.uuid": "uc", "index.number_of_replicas": "1"},
		"d": {"index.uuid": "ud", "index.number_of_replicas": "1"},
	}}
	tn := tuner(t, f)
	for range 2 { // a worker that comes back does it again: what was first recorded counts
		if err := tn.Tune(t.Context(), []string{"a", "b", "c", "d"}, tuning.All); err != nil {
			t.Fatal(err)
		}
	}
	if x := f.indices["a"]; x["index.number_of_replicas"] != "0" || x["index.refresh_interval"] != "-1" {
		t.Errorf("a is not tuned: %v", x)
	}
	f.indices["b"]["index.number_of_replicas"] = "3" // an operator changed it meanwhile
	delete(f.indices, "c")
	f.indices["d"]["index.uuid"] = "another"
	f.fail = 1
	if _, err := tn.Restore(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a broken request is not an error: %v", err)
	}
	if _, err := tn.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := f.indices["a"]; x["index.number_of_replicas"] != "2" || x["index.refresh_interval"] != "" {
		t.Errorf("a: %v", x)
	}
	if x := f.indices["b"]; x["index.number_of_replicas"] != "3" || x["index.refresh_interval"] != "5s" {
		t.Errorf("b: %v", x)
	}
	if x := f.indices["d"]; x["index.number_of_replicas"] != "0" {
		t.Errorf("an index that is not the one that was tuned was changed: %v", x)
	}
	if again, err := tn.Restore(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("restored twice: %+v, %v", again, err)
	}
}

// TestTuner_Remember keeps versions of deleted documents from round to round, until the following is finished.
func TestTuner_Remember(t *testing.T) {
	f := &fakeTarget{theirs: map[string]bool{"theirs": true}, indices: map[string]map[string]string{
		"plain":  {"index.uuid": "up", "index.number_of_replicas": "2"},
		"own":    {"index.uuid": "uo", "index.gc_deletes": "5m"},
		"theirs": {"index.uuid": "ut", "index.gc_deletes": "5m"},
	}}
	all := []string{"plain", "own", "theirs"}
	for round := range 3 {
		tn := tuner(t, f)
		tn.Follows = true
		if err := tn.Tune(t.Context(), all[:2], tuning.All); err != nil {
			t.Fatal(err)
		}
		f.fail = round % 2
		for f.fail > 0 {
			if err := tn.Remember(t.Context(), all); !errors.Is(err, fault.ErrUnavailable) && f.fail > 0 {
				t.Errorf("a broken request is not an error: %v", err)
			}
			f.fail = 0
		}
		if err := tn.Remember(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if _, err := tn.Restore(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, index := range all[:2] {
			if x := f.indices[index]; x["index.gc_deletes"] != "1441m" || x["index.number_of_replicas"] == "0" {
				t.Errorf("round %d: %s is %v", round, index, x)
			}
		}
		if round == 0 {
			tn.Follows = false
			if _, err := tn.Restore(t.Context()); err != nil {
				t.Fatal(err)
			}
			if a, b := f.indices["plain"]["index.gc_deletes"], f.indices["own"]["index.gc_deletes"]; a != "" || b != "5m" {
				t.Errorf("restored to %q and %q", a, b)
			}
		}
	}
	if x := f.indices["theirs"]["index.gc_deletes"]; x != "5m" {
		t.Errorf("an index of others was changed: %v", x)
	}
	f.asked = 0
	if err := tuner(t, f).Remember(t.Context(), all[:2]); err != nil || f.asked != 1 {
		t.Errorf("%d requests for indices that remember versions already, %v", f.asked, err)
	}
}

// TestTuner_AnIndexThatWasMadeAnew: its settings are recorded in place of the former index's, and get their values back.
func TestTuner_AnIndexThatWasMadeAnew(t *testing.T) {
	for name, change := range map[string]func(tn *tuning.Tuner) error{
		"tuned":    func(tn *tuning.Tuner) error { return tn.Tune(t.Context(), []string{"a"}, tuning.All) },
		"follows":  func(tn *tuning.Tuner) error { return tn.Remember(t.Context(), []string{"a"}) },
		"hardened": func(tn *tuning.Tuner) error { return tn.Harden(t.Context(), []string{"a"}) },
	} {
		for _, set := range []map[string]string{{"index.gc_deletes": "1441m"}, {"index.number_of_replicas": "0", "index.refresh_interval": "-1", "index.translog.durability": "ReQuest"}} {
			own := map[string]string{"index.uuid": "new", "index.number_of_replicas": "3", "index.translog.durability": "async"}
			f := &fakeTarget{indices: map[string]map[string]string{"a": maps.Clone(own)}}
			tn := tuner(t, f)
			if _, err := tn.Records.Note(t.Context(), session.Tuned{Target: "a", UUID: "former", Set: set}); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := change(tn); err != nil {
					t.Fatal(err)
				}
			}
			if maps.Equal(f.indices["a"], own) {
				t.Errorf("%s after %v: nothing was changed", name, set)
			}
			done, err := tn.Restore(t.Context())
			if err != nil || len(done) != 1 || !maps.Equal(f.indices["a"], own) {
				t.Errorf("%s after %v: restored %+v to %v, %v", name, set, done, f.indices["a"], err)
			}
		}
	}
}

// TestRecordsOfOthersRestoreNothingElse: the records lie in the control index, which is input. Only the settings that a Tuner
// changes are restored, and only where they are still as it sets them.
func TestRecordsOfOthersRestoreNothingElse(t *testing.T) {
	text := func(s string) *string { return &s }
	f := &fakeTarget{indices: map[string]map[string]string{
		"a": {"index.uuid": "ua", "index.number_of_replicas": "1", "index.refresh_interval": "-1"},
	}}
	tn := tuner(t, f)
	_, err := tn.Records.Note(t.Context(), session.Tuned{
		Target: "a", UUID: "ua",
		Set: map[string]string{"index.default_pipeline": "", "index.uuid": "ua", "index.number_of_replicas": "1", "index.refresh_interval": "-1"},
		Was: map[string]*string{"index.default_pipeline": text("p"), "index.uuid": text("x"), "index.number_of_replicas": text("0"), "index.refresh_interval": text("5s")},
	})
	if err != nil {
		t.Fatal(err)
	}
	done, err := tn.Restore(t.Context())
	if err != nil || len(done) != 1 || !slices.Equal(done[0].Keys, []string{"index.refresh_interval"}) {
		t.Errorf("%+v, %v", done, err)
	}
	want := map[string]string{"index.uuid": "ua", "index.number_of_replicas": "1", "index.refresh_interval": "5s"}
	if !maps.Equal(f.indices["a"], want) {
		t.Errorf("the index has %v", f.indices["a"])
	}
}

// TestTuner_IndicesWithoutTheMarkStayAsTheyAre: whatever is recorded of them.
func TestTuner_IndicesWithoutTheMarkStayAsTheyAre(t *testing.T) {
	one := "1s"
	f := &fakeTarget{theirs: map[string]bool{"a": true}, indices: map[string]map[string]string{
		"a": {"index.uuid": "ua", "index.refresh_interval": "-1"}, "b": {"index.uuid": "ub", "index.refresh_interval": "-1"},
	}}
	tn := tuner(t, f)
	if err := tn.Tune(t.Context(), []string{"a"}, tuning.All); err != nil || f.indices["a"]["index.number_of_replicas"] != "" {
		t.Errorf("tuned: %v, %v", f.indices["a"], err)
	}
	words := "1s; and more"
	async := "async"
	for name, value := range map[string]string{"c": "request", "d": "REQUEST"} {
		f.indices[name], f.theirs[name] = map[string]string{"index.uuid": "u" + name, "index.translog.durability": value}, true
		if _, err := tn.Records.Note(t.Context(), session.Tuned{Target: name, UUID: "u" + name, Set: map[string]string{"index.translog.durability": value},
			Was: map[string]*string{"index.translog.durability": &async}}); err != nil {
			t.Fatal(err)
		}
	}
	for name, was := range map[string]*string{"a": &one, "b": &words} {
		_, err := tn.Records.Note(t.Context(), session.Tuned{
			Target: name, UUID: "u" + name, Set: map[string]string{"index.refresh_interval": "-1"}, Was: map[string]*string{"index.refresh_interval": was},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	done, err := tn.Restore(t.Context())
	if err != nil || len(done) != 4 {
		t.Errorf("%+v, %v", done, err)
	}
	for _, x := range done {
		if len(x.Keys) > 0 {
			t.Errorf("restored: %+v", x)
		}
	}
	for name, want := range map[string]string{"a": "-1", "b": "-1"} {
		if is := f.indices[name]["index.refresh_interval"]; is != want {
			t.Errorf("%s has the refresh interval %s", name, is)
		}
	}
	for name, want := range map[string]string{"c": "request", "d": "REQUEST"} {
		if is := f.indices[name]["index.translog.durability"]; is != want {
			t.Errorf("%s has the durability %s", name, is)
		}
	}
}

// TestTuner_ALargerScopeLater: each scope changes its settings, and all of them get their first values back.
func TestTuner_ALargerScopeLater(t *testing.T) {
	f := &fakeTarget{indices: map[string]map[string]string{"a": {"index.uuid": "ua", "index.number_of_replicas": "2", "index.refresh_interval": "30s"}}}
	tn := tuner(t, f)
	for _, x := range []struct {
		scope    tuning.Scope
		replicas string
	}{{tuning.Refreshes, "2"}, {tuning.All, "0"}, {tuning.Refreshes, "0"}} {
		if err := tn.Tune(t.Context(), []string{"a"}, x.scope); err != nil {
			t.Fatal(err)
		}
		if is := f.indices["a"]; is["index.number_of_replicas"] != x.replicas || is["index.refresh_interval"] != "-1" {
			t.Errorf("scope %d: %v", x.scope, is)
		}
	}
	if _, err := tn.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := f.indices["a"]; x["index.number_of_replicas"] != "2" || x["index.refresh_interval"] != "30s" {
		t.Errorf("restored as %v", x)
	}
}

// TestAnAcknowledgementMeansThatDocumentsAreOnDisk hardens indices that were tuned, that an alias leads to, and that need nothing.
func TestAnAcknowledgementMeansThatDocumentsAreOnDisk(t *testing.T) {
	const key = "index.translog.durability"
	f := &fakeTarget{behind: map[string][]string{"alias": {"c"}}, indices: map[string]map[string]string{
		"a": {"index.uuid": "ua", key: "async", "index.refresh_interval": "5s"},
		"b": {"index.uuid": "ub"},
		"c": {"index.uuid": "uc", key: "ASYNC"},
		"d": {"index.uuid": "ud", key: "request"},
	}, theirs: map[string]bool{"c": true}}
	tn := tuner(t, f)
	if err := tn.Tune(t.Context(), []string{"a"}, tuning.Refreshes); err != nil {
		t.Fatal(err)
	}
	for range 2 { // each process does it
		if err := tn.Harden(t.Context(), []string{"a", "b", "alias", "d", "absent"}); err != nil {
			t.Fatal(err)
		}
		if a, c := f.indices["a"], f.indices["c"]; !strings.EqualFold(a[key], "request") || a["index.refresh_interval"] != "-1" || !strings.EqualFold(c[key], "request") {
			t.Fatalf("a %v, c %v", a, c)
		}
	}
	other := &tuning.Tuner{API: f, Records: tn.Records, Mark: tn.Mark, Log: tn.Log} // the process that hardened them has died
	if _, err := other.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := map[string]map[string]string{
		"a": {"index.uuid": "ua", key: "async", "index.refresh_interval": "5s"}, "b": {"index.uuid": "ub"},
		"c": {"index.uuid": "uc", key: "ASYNC"}, "d": {"index.uuid": "ud", key: "request"},
	}
	for name, x := range want {
		if !maps.Equal(f.indices[name], x) {
			t.Errorf("%s has %v", name, f.indices[name])
		}
	}
	f.denied = true
	if err := tn.Harden(t.Context(), []string{"a"}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(fault.Text(err), key) {
		t.Errorf("%v", err)
	}
}

// TestTuner_RestoresIndicesTogether restores 150 indices. Each request takes a second.
func TestTuner_RestoresIndicesTogether(t *testing.T) {
	for _, c := range []struct {
		name     string
		differ   int  // indices with other former settings
		fail     int  // changes that break
		goes     bool // an index is deleted after it was looked at
		restored int
		puts     int // at most
		lasts    time.Duration
		err      error
	}{
		// 64, 64 and 22 indices: 8, 8 and 3 looks after one another, and a change each.
		{name: "alike", restored: 150, puts: 3, lasts: 22 * time.Second},
		{name: "of two kinds", differ: 50, restored: 150, puts: 6, lasts: 25 * time.Second},
		{name: "the target is away for a moment", fail: 1, restored: 150 - 64, puts: 3, lasts: 22 * time.Second, err: fault.ErrUnavailable},
		{name: "one is deleted", goes: true, restored: 149, puts: 3 + 64, lasts: 22*time.Second + 64*time.Second, err: fault.ErrRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeTarget{indices: map[string]map[string]string{}}
			tn := tuner(t, f) // outside the bubble, because of its file
			var names, order []string
			former := map[string]string{}
			for i := range 150 {
				name := fmt.Sprintf("i%03d", i)
				if former[name] = "5s"; i < c.differ {
					former[name] = "7s"
				}
				names, f.indices[name] = append(names, name), map[string]string{"index.uuid": "u" + name, "index.refresh_interval": former[name]}
			}
			if err := tn.Tune(t.Context(), names, tuning.Refreshes); err != nil {
				t.Fatal(err)
			}
			for x, err := range tn.Records.All(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				order = append(order, x.Target)
			}
			if c.goes {
				f.goes = order[10]
			}
			f.fail, f.pause, f.puts = c.fail, time.Second, 0
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				done, err := tn.Restore(t.Context())
				if took := time.Since(begin); !errors.Is(err, c.err) || len(done) != c.restored || f.puts > c.puts || took > c.lasts {
					t.Errorf("%d restored with %d changes in %s, error %v; want %d, %d, %s, %v", len(done), f.puts, took, err, c.restored, c.puts, c.lasts, c.err)
				}
				at := -1
				for _, r := range done {
					if n := slices.Index(order, r.Target); n > at {
						at = n
						continue
					}
					t.Fatalf("%s is not in the order of the records", r.Target)
				}
			})
			f.pause = 0
			if done, err := tn.Restore(t.Context()); err != nil || len(done) != 150-c.restored {
				t.Errorf("the second time %d, %v; want %d", len(done), err, 150-c.restored)
			}
			if done, err := tn.Restore(t.Context()); err != nil || len(done) > 0 {
				t.Errorf("the third time %d, %v", len(done), err)
			}
			for name, is := range f.indices {
				if is["index.refresh_interval"] != former[name] {
					t.Errorf("%s: %v, want %s", name, is, former[name])
				}
			}
		})
	}
}
