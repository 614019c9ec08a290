package arrival_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// remedyOf is what to do about indices, which are given as options take them.
func remedyOf(options string) string {
	return fmt.Sprintf("; rfsd verify with --index-allowlist %[1]s names the documents; find the cause, such as a lost target node or ids that several documents have, then start a new session (--session-name) with --index-allowlist %[1]s --existing-documents overwrite, which sends everything again", options)
}

// wasThere is an entry of an index whose target had executed operations before the session.
func wasThere(before map[string]int64) plan.Entry { return plan.Entry{Shards: 1, Before: before} }

// redirected are rules by index of the snapshot.
func redirected(rules map[string][]string) func(string) []string {
	return func(name string) []string { return rules[name] }
}

// TestCheck_Groups compares indices that share targets. Each index of the snapshot has sent 5 documents.
func TestCheck_Groups(t *testing.T) {
	for _, c := range []struct {
		name    string
		entries map[string]plan.Entry
		rules   map[string][]string
		holds   map[string]int64 // documents of the targets, and their operations
		did     map[string]target.Operations
		change  func(a *audit)
		want    map[string]progress.Arrival // by index of the snapshot
		looked  int                         // targets that were looked for; 0: one for each index
		own     string                      // targets and operations; "": none
	}{
		{name: "an index alone", entries: map[string]plan.Entry{"a": own("a")}, holds: map[string]int64{"a": 5}, own: "[{[a] 5}]",
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 5, Lucene: 10, Operations: 5, Written: 5, Accounted: true}}},
		{name: "two of one target", entries: map[string]plan.Entry{"a": into("x", own("x")), "b": into("x", plan.Entry{Shards: 1})}, holds: map[string]int64{"x": 10}, looked: 1, own: "[{[x] 10}]",
			want: map[string]progress.Arrival{
				"a": {Expected: 10, Found: 10, Lucene: 20, Operations: 10, Written: 10, Accounted: true, Shared: true},
				"b": {Expected: 10, Found: 10, Lucene: 20, Operations: 10, Written: 10, Accounted: true, Shared: true},
			}},
		{name: "two that are apart", entries: map[string]plan.Entry{"a": own("a"), "b": own("b")}, holds: map[string]int64{"a": 4, "b": 6}, own: "[{[a] 5} {[b] 5}]",
			did: map[string]target.Operations{"a": {Executed: 5}},
			want: map[string]progress.Arrival{
				"a": {Expected: 5, Found: 4, Lucene: 8, Operations: 5, Written: 5, Accounted: true, Problem: "the target has 4 documents in a, 5 were indexed: 1 are missing" + remedyOf("a")},
				"b": {Expected: 5, Found: 6, Lucene: 12, Operations: 6, Written: 5, Accounted: true, Note: "1 operations on it are not of this session: other clients wrote to it, or requests without an answer took effect late"},
			}},
		{name: "three in a chain of rules", entries: map[string]plan.Entry{"a": own("a"), "b": own("b", "x"), "c": own("c")}, rules: map[string][]string{"a": {"x"}, "b": {"x", "b"}, "c": {"x", "a"}},
			holds: map[string]int64{"a": 1, "b": 2, "c": 3, "x": 9}, own: "[{[a x b c] 15}]",
			want: map[string]progress.Arrival{
				"a": {Expected: 15, Found: 15, Lucene: 30, Operations: 15, Written: 15, Accounted: true, Shared: true},
				"c": {Expected: 15, Found: 15, Lucene: 30, Operations: 15, Written: 15, Accounted: true, Shared: true},
			}},
		{name: "a rule joins two groups", entries: map[string]plan.Entry{"a": own("a"), "b": own("b"), "c": own("c"), "d": own("d")}, rules: map[string][]string{"c": {"a", "b"}, "d": {"b"}},
			holds: map[string]int64{"a": 9, "b": 9, "c": 1, "d": 1}, own: "[{[b a c d] 20}]",
			want: map[string]progress.Arrival{
				"b": {Expected: 20, Found: 20, Lucene: 40, Operations: 20, Written: 20, Accounted: true, Shared: true},
				"d": {Expected: 20, Found: 20, Lucene: 40, Operations: 20, Written: 20, Accounted: true, Shared: true},
			}},
		{name: "one that was there, of three sources", entries: map[string]plan.Entry{"a": into("z", plan.Entry{Shards: 1}), "b": into("y", plan.Entry{Shards: 1}), "c": into("z", plan.Entry{Shards: 1})}, rules: map[string][]string{"b": {"z"}},
			holds: map[string]int64{"y": 7, "z": 8}, looked: 2,
			want: map[string]progress.Arrival{"a": {Expected: 15, Found: 15, Lucene: 30, Shared: true, Note: "not compared: y, z was there before this session"}}},
		{name: "operations of before are known", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10})}, holds: map[string]int64{"a": 15}, own: "[{[a] 5}]",
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 15, Lucene: 30, Operations: 5, Written: 5, Accounted: true, Note: "not compared: a was there before this session"}}},
		{name: "an index that was there has lost writes", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10})}, holds: map[string]int64{"a": 13}, own: "[{[a] 5}]",
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 13, Lucene: 26, Operations: 3, Written: 5, Accounted: true, Note: "not compared: a was there before this session",
				Problem: "the target has lost writes of a that it had acknowledged: its shards have executed 3 operations, 5 of this session were acknowledged" + remedyOf("a")}}},
		{name: "a rule leads to an index that is not of the session", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10})}, rules: map[string][]string{"a": {"other"}}, holds: map[string]int64{"a": 13},
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 13, Lucene: 26, Note: "not compared: a was there before this session"}}},
		{name: "two planned one after the other", entries: map[string]plan.Entry{"a": into("x", wasThere(map[string]int64{"x": 4})), "b": into("x", wasThere(map[string]int64{"x": 9}))}, holds: map[string]int64{"x": 14}, looked: 1, own: "[{[x] 10}]",
			want: map[string]progress.Arrival{"b": {Expected: 10, Found: 14, Lucene: 28, Operations: 10, Written: 10, Accounted: true, Shared: true, Note: "not compared: x was there before this session"}}},
		{name: "the second was planned first", entries: map[string]plan.Entry{"a": into("x", wasThere(map[string]int64{"x": 9})), "b": into("x", wasThere(map[string]int64{"x": 4}))}, holds: map[string]int64{"x": 14}, looked: 1, own: "[{[x] 10}]",
			want: map[string]progress.Arrival{"b": {Expected: 10, Found: 14, Lucene: 28, Operations: 10, Written: 10, Accounted: true, Shared: true, Note: "not compared: x was there before this session"}}},
		{name: "no operations before the first", entries: map[string]plan.Entry{"a": into("x", wasThere(map[string]int64{"x": 0})), "b": into("x", wasThere(map[string]int64{"x": 4}))}, holds: map[string]int64{"x": 10}, looked: 1, own: "[{[x] 10}]",
			want: map[string]progress.Arrival{"b": {Expected: 10, Found: 10, Lucene: 20, Operations: 10, Written: 10, Accounted: true, Shared: true, Note: "not compared: x was there before this session"}}},
		{name: "a target without a record", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10}), "b": wasThere(nil)}, rules: map[string][]string{"a": {"b"}}, holds: map[string]int64{"a": 13, "b": 9},
			want: map[string]progress.Arrival{"a": {Expected: 10, Found: 22, Lucene: 44, Shared: true, Note: "not compared: a, b was there before this session"}}},
		{name: "two targets that were there, and an own one", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10}), "b": wasThere(map[string]int64{"b": 20}), "c": own("c")}, rules: map[string][]string{"c": {"a", "b"}},
			holds: map[string]int64{"a": 15, "b": 25, "c": 5}, own: "[{[a b c] 15}]",
			want: map[string]progress.Arrival{"c": {Expected: 15, Found: 45, Lucene: 90, Operations: 15, Written: 15, Accounted: true, Shared: true, Note: "not compared: a, b, c was there before this session"}}},
		{name: "one target was there empty", entries: map[string]plan.Entry{"a": {Shards: 1, Empty: []string{"a"}}, "b": own("b")}, rules: map[string][]string{"a": {"b"}}, holds: map[string]int64{"a": 5, "b": 4}, own: "[{[a b] 10}]",
			did: map[string]target.Operations{"a": {Executed: 6}},
			want: map[string]progress.Arrival{"a": {Expected: 10, Found: 9, Lucene: 18, Operations: 10, Written: 10, Accounted: true, Shared: true,
				Problem: "the target has 9 documents in a, b, 10 were indexed: 1 are missing" + remedyOf("a --index-allowlist b")}}},
		{name: "replaced documents in an index that was there", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10})}, holds: map[string]int64{"a": 12}, own: "[{[a] 5}]",
			did: map[string]target.Operations{"a": {Executed: 15}}, change: func(a *audit) { a.item("a", 0, cms.Counts{Live: 5, Indexed: 5, Rewrites: 3}, nil) },
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 12, Lucene: 24, Operations: 5, Written: 5, Accounted: true, Note: "not compared: a was there before this session"}}},
		{name: "equal documents that were kept in an index that was there", entries: map[string]plan.Entry{"a": wasThere(map[string]int64{"a": 10})}, holds: map[string]int64{"a": 10}, own: "[{[a] 1}]",
			did: map[string]target.Operations{"a": {Executed: 11}}, change: func(a *audit) {
				a.Check.Existing = bulk.Keep
				a.item("a", 0, cms.Counts{Live: 5, Indexed: 5, Resent: 3, Replaced: 1}, nil)
			},
			want: map[string]progress.Arrival{"a": {Expected: 5, Found: 10, Lucene: 20, Operations: 1, Written: 1, Accounted: true, Note: "not compared: a was there before this session"}}},
		{name: "a data stream uses it", entries: map[string]plan.Entry{"a": {Shards: 1, Ours: []string{"a"}, Stream: &metadata.StreamPart{}}}, holds: map[string]int64{"a": 4}, own: "[{[a] 5}]",
			did:    map[string]target.Operations{"a": {Executed: 6, Deletes: 1}},
			change: func(a *audit) { a.fails["index a"] = errBroken },
			want:   map[string]progress.Arrival{"a": {Expected: 5, Found: 4, Lucene: 8, Operations: 6, Deletes: 1, Written: 5, Accounted: true, Note: "1 documents fewer than were indexed: other clients have deleted documents meanwhile"}}},
		{name: "an alias leads to the second target", entries: map[string]plan.Entry{"a": own("a"), "b": own("b")}, rules: map[string][]string{"a": {"b"}}, holds: map[string]int64{"a": 4, "b": 5}, own: "[{[a b] 10}]",
			did:    map[string]target.Operations{"a": {Executed: 6, Deletes: 1}},
			change: func(a *audit) { a.aliases["a"], a.aliases["b"] = `{}`, `{"all":{}}` },
			want:   map[string]progress.Arrival{"a": {Expected: 10, Found: 9, Lucene: 18, Operations: 11, Deletes: 1, Written: 10, Accounted: true, Shared: true, Note: "1 documents fewer than were indexed: other clients have deleted documents meanwhile"}}},
		{name: "gone a moment later", entries: map[string]plan.Entry{"a": own("a")}, holds: map[string]int64{"a": 5}, change: func(a *audit) { a.fails["count a"] = &fault.StatusError{Status: 404} },
			want: map[string]progress.Arrival{"a": {Expected: 5, Gone: true, Problem: "count a: " + fault.Text(&fault.StatusError{Status: 404}) + "; 5 documents were sent to it"}}},
		{name: "items of an unknown index do not count", entries: map[string]plan.Entry{"a": own("a")}, holds: map[string]int64{"a": 5}, own: "[{[a] 5}]", change: func(a *audit) {
			a.item("unknown", 0, indexed(9), nil)
		}, want: map[string]progress.Arrival{"a": {Expected: 5, Found: 5, Lucene: 10, Operations: 5, Written: 5, Accounted: true}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAudit()
			for name, e := range c.entries {
				a.sends(t, name, e, indexed(5))
			}
			for name, n := range c.holds {
				a.holds(name, n)
			}
			for name, did := range c.did {
				a.did[name] = did
			}
			if c.rules != nil {
				a.Redirects = redirected(c.rules)
			}
			if c.change != nil {
				c.change(a)
			}
			own, err := a.All(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if is := fmt.Sprint(own); is != c.own && (len(own) > 0 || c.own != "") {
				t.Errorf("own: %s, want %s", is, c.own)
			}
			for name, want := range c.want {
				if is := a.recorded(t, name); is == nil || *is != want {
					t.Errorf("%s: %+v, want\n%+v", name, is, want)
				}
			}
			if n := len(a.presented); n != max(c.looked, 1) && (c.looked > 0 || n != len(c.entries)) {
				t.Errorf("looked for the targets of %q", a.presented)
			}
			puts := a.store.put["index"]
			if puts != len(c.entries) {
				t.Errorf("%d records of %d indices", puts, len(c.entries))
			}
			if _, err := a.All(t.Context()); err != nil || a.store.put["index"] != puts {
				t.Errorf("a second check has recorded %d results again, %v", a.store.put["index"]-puts, err)
			}
		})
	}
}

// TestCheck_NamesIndicesInItsRemedy lacks a document of a target that several indices share.
func TestCheck_NamesIndicesInItsRemedy(t *testing.T) {
	for n, options := range map[int]string{
		1: "s0",
		5: "s0 --index-allowlist s1 --index-allowlist s2 --index-allowlist s3 --index-allowlist s4",
		6: "s0 --index-allowlist s1 --index-allowlist s2 --index-allowlist s3 --index-allowlist s4 --index-allowlist …",
	} {
		a := newAudit()
		for i := range n {
			a.sends(t, fmt.Sprint("s", i), into("x", own("x")), indexed(1))
		}
		a.holds("x", int64(n))
		a.found["x"]--
		if _, err := a.All(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is := a.recorded(t, "s0"); !strings.HasSuffix(is.Problem, "are missing"+remedyOf(options)) {
			t.Errorf("%d indices: %s", n, is.Problem)
		}
		if events := a.store.Events("documents_missing"); events != n {
			t.Errorf("%d events of %d indices", events, n)
		}
	}
}

// TestCheck_WaitsForOpenItems has an index with two shards, of which one is open, next to a complete one.
func TestCheck_WaitsForOpenItems(t *testing.T) {
	for shard := range 2 {
		a := newAudit()
		a.sends(t, "a", own("a"), indexed(5), indexed(5))
		a.sends(t, "b", own("b"), indexed(5))
		a.holds("a", 10)
		a.holds("b", 5)
		a.item("a", shard, indexed(5), func(it *cms.Item) { it.CompletedAt = 0 })
		if _, err := a.All(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is := a.recorded(t, "a"); is != nil || slices.Contains(a.calls, "count a") {
			t.Errorf("shard %d is open: %+v", shard, is)
		}
		if is := a.recorded(t, "b"); is == nil || is.Found != 5 {
			t.Errorf("the other: %+v", is)
		}
	}
}

// TestCheck_CountsRedrivenDocuments has delivered 2 of 3 failed documents later.
func TestCheck_CountsRedrivenDocuments(t *testing.T) {
	a := newAudit()
	a.sends(t, "a", own("a"), cms.Counts{Live: 5, Indexed: 2, Failed: 3})
	if err := session.RedrivesOf(a.Coordinator).Note(t.Context(), "place", false, session.RedrivenFile{Name: "f", Lines: 2, Documents: map[string]int64{"a": 2}}); err != nil {
		t.Fatal(err)
	}
	a.holds("a", 3)
	a.did["a"] = target.Operations{Executed: 4}
	if _, err := a.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := a.recorded(t, "a"); is.Expected != 4 || !strings.Contains(is.Problem, "3 documents in a, 4 were indexed: 1 are missing") {
		t.Errorf("%+v", is)
	}
}

// TestCheck_KeepsWhatWasComplete runs again after a first result.
func TestCheck_KeepsWhatWasComplete(t *testing.T) {
	for _, c := range []struct {
		name    string
		first   func(a *audit) // before the first check
		then    func(a *audit)
		counted bool // again
		found   int64
		says    string
		again   int64
	}{
		{name: "nothing has changed", found: 5},
		{name: "others have deleted documents", then: func(a *audit) { a.found["a"] = 3 }, found: 5},
		{name: "lost writes", then: func(a *audit) { a.did["a"], a.found["a"] = target.Operations{Executed: 4}, 4 }, counted: true, found: 4, says: "1 are missing"},
		{name: "operations are not stated any more", then: func(a *audit) { a.fails["operations a"], a.found["a"] = fault.ErrConfig, 4 }, found: 5},
		{name: "operations were not stated", first: func(a *audit) { a.fails["operations a"] = fault.ErrConfig }, then: func(a *audit) { a.fails, a.found["a"] = nil, 4 }, found: 5},
		{name: "more was sent", then: func(a *audit) { a.item("a", 0, indexed(6), nil) }, counted: true, found: 5, says: "1 are missing"},
		{name: "documents were missing", first: func(a *audit) { a.found["a"] = 4 }, then: func(a *audit) { a.found["a"] = 5 }, counted: true, found: 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAudit()
			a.sends(t, "a", own("a"), indexed(5))
			a.holds("a", 5)
			for _, change := range []func(*audit){c.first, c.then} {
				a.calls = nil
				if change != nil {
					change(a)
				}
				if _, err := a.All(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			is := a.recorded(t, "a")
			if slices.Contains(a.calls, "count a") != c.counted || is.Found != c.found || !strings.Contains(is.Problem, c.says) || c.says == "" && is.Problem != "" {
				t.Errorf("calls %q, %+v", a.calls, is)
			}
		})
	}
}

// TestCheck_CountsAGroupWithAnIncompleteIndex has two indices of one target, of which one has no complete result.
func TestCheck_CountsAGroupWithAnIncompleteIndex(t *testing.T) {
	complete := &progress.Arrival{Expected: 10, Found: 10, Shared: true, SentAgain: 3}
	for name, was := range map[string][2]*progress.Arrival{
		"no first":        {nil, complete},
		"no second":       {complete, nil},
		"a first problem": {{Expected: 10, Problem: "missing"}, complete},
		"both":            {complete, complete},
	} {
		a := newAudit()
		for i, index := range []string{"a", "b"} {
			e := into("x", own("x"))
			e.Arrival = was[i]
			a.sends(t, index, e, indexed(5))
		}
		a.holds("x", 9)
		if _, err := a.All(t.Context()); err != nil {
			t.Fatal(err)
		}
		if counted := slices.Contains(a.calls, "count x"); counted == (name == "both") {
			t.Errorf("%s: calls %q", name, a.calls)
		}
		if is := a.recorded(t, "b"); name != "no second" && is.SentAgain != 3 {
			t.Errorf("%s: %+v", name, is)
		}
	}
}

// TestCheck_BoundsItsRequests counts 40 indices at the same time, at most 8.
func TestCheck_BoundsItsRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAudit()
		h := &migrationtest.Countable{Docs: map[string]int64{}, Refreshed: map[string]bool{}, Takes: time.Second}
		a.Counts = h
		for i := range 40 {
			a.sends(t, fmt.Sprint("s", i), own(fmt.Sprint("s", i)))
		}
		begin := time.Now()
		if _, err := a.All(t.Context()); err != nil || h.Counted != 40 || time.Since(begin) != 5*time.Second {
			t.Errorf("%d counted in %v, %v", h.Counted, time.Since(begin), err)
		}
	})
}
