// Package cmstest is the conformance suite of coordination stores: tests of the contract of cms.Store for any implementation.
package cmstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Factory opens an empty store for one test; the test's cleanup closes it.
type Factory func(t *testing.T) cms.Store

type testCase struct {
	name string
	run  func(*testing.T, cms.Store)
}

// operations returns the cases of single operations of a store, with a number of random transitions and the minimum number of their
// outcomes.
func operations(transitions, outcomes int) []testCase {
	return []testCase{
		{"CreateLeavesWhatExistsUntouched", createTwice},
		{"ApplyOnNothingIsNotFound", applyMissing},
		{"TransitionsAreThoseOfThePureFunctions", func(t *testing.T, s cms.Store) { differentialOf(t, s, transitions, outcomes) }},
		{"ChangesOfOneRequestAreJudgedOneByOne", together},
		{"OneOfManyWinsAnItem", race},
		{"CandidatesAreFreeAndOpen", candidatesAreFree},
		{"CandidatesComeInRandomOrder", candidatesAreRandom},
		{"OpenCountsWhatIsLeft", openCounts},
		{"ScanSeesEverything", scan},
		{"RecordsChangeOnlyUnderTheirRevision", recordRevisions},
		{"RecordsOfOneRequestAreJudgedOneByOne", recordsTogether},
		{"ListGivesOneKindInOrder", listRecords},
		{"ListGivesManyInOrder", listManyRecords},
		{"ClockIsThatOfTheStore", clock},
	}
}

// sequences are the cases of sequences of operations by a coordinator.
var sequences = []testCase{
	{"AGroupIsAcquiredAndCompletedTogether", groups},
	{"AMigrationRunsFromSeedToAudit", migration},
	{"TheSixthAcquisitionWithoutProgressFailsTheItem", poison},
	{"DeathsAtDifferentOrdinalsNeverFailAnItem", randomDeaths},
	{"AnAcquisitionThatNeverBeganWorkNeverFailsAnItem", neverBegan},
	{"HalfDoneHandoffIsFinishedByTheNextHolder", resume},
	{"AnOperatorCancelsWhatNoLeaseHolds", cancel},
	{"AuditRepairsWhatTheStoreLost", audit},
	{"PartsOfAShardCoverIt", parts},
	{"AQueueThatAnotherToolSeededIsRefused", foreignSetup},
	{"AHandoffOfAnotherToolIsRefused", foreignHandoff},
	{"AShardThatAnotherToolCompletedIsRefused", foreignEnd},
	{"ASuccessorThatAnotherToolCreatedIsRefused", foreignSuccessor},
	{"APhaseHasOneHolderAndMovesOn", phases},
	{"AnIndexEntryIsChangedByTheFirst", entries},
	{"AnotherMigrationIsRefused", mismatch},
	{"TheIdentityIsAddedOnce", identity},
	{"TheFleetsSettingsAreThoseOfTheFirstNode", shared},
	{"RefusedDocumentsAreKeptOnce", refused},
	{"WhatWasRedrivenIsCountedOnce", redriven},
	{"CreationsAreKeptAndAnUndoneSessionIsClosed", created},
	{"ItemsOfAnotherKind", kindStore},
	{"TasksRunFromSeedToAudit", tasks},
	{"KindsDoNotSeeEachOther", kindsApart},
}

// Run runs the whole suite.
func Run(t *testing.T, open Factory) {
	for _, tc := range slices.Concat(operations(300, 25), sequences) {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, open(t)) })
	}
}

// Operations runs the cases of single operations only, for a store whose whole suite runs in another version or mode.
func Operations(t *testing.T, open Factory) {
	for _, tc := range operations(100, 15) {
		t.Run(tc.name, func(t *testing.T) { tc.run(t, open(t)) })
	}
}

// ID returns the wire id of the item of a shard at a cursor.
func ID(index string, shard int, cursor int64) string {
	return cms.ItemID{Index: index, Shard: shard, Cursor: cursor}.String()
}

// Coordinator returns a coordinator on the store with the given initial lease.
func Coordinator(t *testing.T, s cms.Store, lease time.Duration) *cms.Coordinator {
	t.Helper()
	c := cms.New(cms.Config{Store: s, Creator: "suite", InitialLease: lease})
	return c
}

// Seed runs the setup for shards 0..n-1 of an index.
func Seed(t *testing.T, c *cms.Coordinator, index string, n int) {
	t.Helper()
	err := c.SeedOnce(t.Context(), "seeder", func(ctx context.Context) error {
		if _, err := session.EntriesOf(c).Create(ctx, session.IndexEntry{Name: index, State: session.PhaseCompleted, Shards: n, Body: json.RawMessage(`{"path":"x"}`)}); err != nil {
			return err
		}
		_, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
			for i := range n {
				if !yield(cms.ItemID{Index: index, Shard: i}) {
					return
				}
			}
		})
		return err
	}, nil)
	if err != nil {
		t.Fatalf("seed: %v", err)
	}
}

func create(t *testing.T, s cms.Store, items ...cms.Item) {
	t.Helper()
	if _, err := s.Create(t.Context(), items); err != nil {
		t.Fatalf("create: %v", err)
	}
}

func get(t *testing.T, s cms.Store, id string) cms.Item {
	t.Helper()
	it, err := s.Get(t.Context(), id)
	if err != nil {
		t.Fatalf("get %s: %v", id, err)
	}
	return it
}

func storeNow(t *testing.T, s cms.Store) time.Time {
	t.Helper()
	now, _, err := s.Now(t.Context())
	if err != nil {
		t.Fatalf("now: %v", err)
	}
	return now
}

func createTwice(t *testing.T, s cms.Store) {
	a, b := cms.NewItem(ID("a", 0, 0), "one", 0), cms.NewItem(ID("b", 0, 0), "two", 3)
	create(t, s, a)
	again := cms.NewItem(a.ID, "other", 7)
	n, err := s.Create(t.Context(), []cms.Item{again, b})
	if err != nil || n != 1 {
		t.Fatalf("created %d, %v", n, err)
	}
	if got := get(t, s, a.ID); got != a {
		t.Errorf("got %+v, want %+v", got, a)
	}
	if got := get(t, s, b.ID); got != b {
		t.Errorf("got %+v, want %+v", got, b)
	}
}

func applyMissing(t *testing.T, s cms.Store) {
	_, _, err := s.Apply(t.Context(), ID("a", 0, 0), cms.Complete{Holder: "h"})
	if !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("apply: %v", err)
	}
	if _, err := s.Get(t.Context(), ID("a", 0, 0)); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("get: %v", err)
	}
}

func race(t *testing.T, s cms.Store) {
	id := ID("a", 0, 0)
	create(t, s, cms.NewItem(id, "c", 0))
	const workers = 16
	var mu sync.Mutex
	var winners []string
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			holder := fmt.Sprintf("h%d", i)
			_, v, err := s.Apply(t.Context(), id, cms.Acquire{Holder: holder, InitialMs: 600_000, MaxMs: 600_000})
			if err != nil && !errors.Is(err, cms.ErrConflict) {
				t.Errorf("%s: %v", holder, err)
			}
			if err == nil && v == cms.Applied {
				mu.Lock()
				winners = append(winners, holder)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(winners) != 1 || get(t, s, id).Holder != winners[0] {
		t.Errorf("winners %v, stored holder %s", winners, get(t, s, id).Holder)
	}
}

func candidatesAreFree(t *testing.T, s cms.Store) {
	now := storeNow(t, s).Unix()
	free := cms.NewItem(ID("free", 0, 0), "c", 0)
	expired := cms.NewItem(ID("expired", 0, 0), "c", 0)
	expired.Holder, expired.Expiration = "x", now-600
	inGrace := cms.NewItem(ID("grace", 0, 0), "c", 0)
	inGrace.Holder, inGrace.Expiration = "x", now-60
	leased := cms.NewItem(ID("leased", 0, 0), "c", 0)
	leased.Holder, leased.Expiration = "x", now+600
	done := cms.NewItem(ID("done", 0, 0), "c", 0)
	done.CompletedAt = now - 5
	create(t, s, free, expired, inGrace, leased, done, cms.NewItem(cms.SetupID, "c", 0))
	if _, err := s.Open(t.Context()); err != nil { // makes everything visible to searches
		t.Fatal(err)
	}
	got, err := s.Candidates(t.Context(), 5*time.Minute, 32)
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b cms.Item) int { return len(a.ID) - len(b.ID) })
	if len(got) != 2 || got[0] != free || got[1] != expired {
		t.Errorf("got %+v", got)
	}
	if got, err = s.Candidates(t.Context(), 0, 1); err != nil || len(got) != 1 {
		t.Errorf("%d candidates, %v", len(got), err)
	}
}

func candidatesAreRandom(t *testing.T, s cms.Store) {
	var items []cms.Item
	for i := range 64 {
		items = append(items, cms.NewItem(ID("a", i, 0), "c", 0))
	}
	create(t, s, items...)
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	const draws = 32
	for range draws {
		got, err := s.Candidates(t.Context(), 0, 8)
		if err != nil || len(got) != 8 {
			t.Fatalf("%d candidates, %v", len(got), err)
		}
		for _, it := range got {
			seen[it.ID] = true
		}
	}
	if len(seen) < 32 { // 63 expected; the bound also suits stores that return 8 neighbors from a random position
		t.Errorf("only %d different items in %d draws of 8", len(seen), draws)
	}
}

func openCounts(t *testing.T, s cms.Store) {
	o, err := s.Open(t.Context())
	if err != nil || o != (cms.Open{}) {
		t.Fatalf("empty store: %+v, %v", o, err)
	}
	now := storeNow(t, s).Unix()
	create(t, s, cms.NewItem(cms.SetupID, "c", 0))
	for i := range 3 {
		it := cms.NewItem(ID("a", i, 0), "c", 0)
		it.Holder, it.Expiration = fmt.Sprintf("h%d", i), now+int64(100*(i+1))
		create(t, s, it)
	}
	if o, err = s.Open(t.Context()); err != nil || o != (cms.Open{Items: 3, NextExpiry: now + 100, Holder: "h0"}) {
		t.Errorf("%+v, %v", o, err)
	}
	if _, v, err := s.Apply(t.Context(), ID("a", 0, 0), cms.Complete{Holder: "h0"}); err != nil || v != cms.Applied {
		t.Fatalf("%v %v", v, err)
	}
	if o, err = s.Open(t.Context()); err != nil || o != (cms.Open{Items: 2, NextExpiry: now + 200, Holder: "h1"}) {
		t.Errorf("%+v, %v", o, err)
	}
}

func scan(t *testing.T, s cms.Store) {
	const n = 2300 // more than two pages
	want := map[string]bool{cms.SetupID: true}
	items := []cms.Item{cms.NewItem(cms.SetupID, "c", 0)}
	for i := range n {
		items = append(items, cms.NewItem(ID("a", i, 0), "c", 0))
		want[ID("a", i, 0)] = true
	}
	create(t, s, items...)
	for it, err := range s.Scan(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if !want[it.ID] {
			t.Fatalf("%s twice, or never created", it.ID)
		}
		delete(want, it.ID)
	}
	if len(want) != 0 {
		t.Errorf("%d items not seen", len(want))
	}
	for _, err := range s.Scan(t.Context()) { // a caller may stop
		if err != nil {
			t.Error(err)
		}
		break
	}
}

func recordRevisions(t *testing.T, s cms.Store) {
	ctx := t.Context()
	r := cms.Record{ID: "test:a b/ü", Kind: "test", State: "one", Expire: 17, Body: json.RawMessage(`{"x":1}`)}
	rev, err := s.Put(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(ctx, r); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("second creation: %v", err)
	}
	got, err := s.Record(ctx, r.ID)
	if err != nil || got.Revision != rev || got.State != "one" || got.Expire != 17 || string(got.Body) != `{"x":1}` || got.ID != r.ID {
		t.Fatalf("%+v, %v", got, err)
	}
	got.State = "two"
	rev2, err := s.Put(ctx, got)
	if err != nil || !rev.Precedes(rev2) || rev2.Precedes(rev) {
		t.Fatalf("%v after %v, %v", rev2, rev, err)
	}
	if _, err := s.Put(ctx, got); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("write under an old revision: %v", err)
	}
	if err := s.Delete(ctx, got); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("delete under an old revision: %v", err)
	}
	got.Revision = rev2
	if err := s.Delete(ctx, got); err != nil {
		t.Errorf("delete: %v", err)
	}
	if _, err := s.Record(ctx, r.ID); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("after delete: %v", err)
	}
	if _, err := s.Put(ctx, got); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("write of a deleted record: %v", err)
	}
}

// recordsTogether writes records in one request: a new one, an existing one, and one with each of its revisions.
func recordsTogether(t *testing.T, s cms.Store) {
	record := func(key, state string, rev cms.Revision) cms.Record {
		return cms.Record{ID: "test:" + key, Revision: rev, Kind: "test", State: state, Body: json.RawMessage(`{"x":1}`)}
	}
	revisions := map[string]cms.Revision{}
	for _, key := range []string{"exists", "now", "old"} {
		rev, err := s.Put(t.Context(), record(key, "one", cms.Revision{}))
		if err != nil {
			t.Fatal(err)
		}
		revisions[key] = rev
	}
	if _, err := s.Put(t.Context(), record("old", "other", revisions["old"])); err != nil {
		t.Fatal(err)
	}
	records := []cms.Record{
		record("old", "two", revisions["old"]), record("new a b/ü", "two", cms.Revision{}), record("exists", "two", cms.Revision{}), record("now", "two", revisions["now"]),
	}
	for n, want := range []map[string]string{ // states; the second request finds everything changed
		{"old": "other", "new a b/ü": "two", "exists": "one", "now": "two"},
		{"old": "other", "new a b/ü": "two", "exists": "one", "now": "two"},
	} {
		errs, err := s.PutAll(t.Context(), records)
		if err != nil || len(errs) != len(records) {
			t.Fatalf("%d results, %v", len(errs), err)
		}
		for i, err := range errs {
			if written := n == 0 && i%2 == 1; written != (err == nil) || !written && !errors.Is(err, cms.ErrConflict) {
				t.Errorf("request %d, %s: %v", n, records[i].ID, err)
			}
		}
		for key, state := range want {
			r, err := s.Record(t.Context(), "test:"+key)
			if err != nil || r.State != state || string(r.Body) != `{"x":1}` || r.Kind != "test" {
				t.Errorf("request %d: %+v, %v", n, r, err)
			}
		}
	}
}

func listRecords(t *testing.T, s cms.Store) {
	for _, id := range []string{"k:c", "k:a", "k:b", "kk:a", "j:a"} {
		kind, _, _ := cutColon(id)
		if _, err := s.Put(t.Context(), cms.Record{ID: id, Kind: kind, Body: json.RawMessage(`{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	var got []string
	for r, err := range s.List(t.Context(), "k") {
		if err != nil {
			t.Fatal(err)
		}
		if r.Revision == (cms.Revision{}) {
			t.Errorf("%s has no revision", r.ID)
		}
		got = append(got, r.ID)
	}
	if !slices.Equal(got, []string{"k:a", "k:b", "k:c"}) {
		t.Errorf("got %v", got)
	}
}

// listManyRecords lists more records than a store reads at once.
func listManyRecords(t *testing.T, s cms.Store) {
	var want []string
	var records []cms.Record
	for i := range 600 {
		want = append(want, fmt.Sprintf("m:%03d", i))
		records = append(records, cms.Record{ID: want[i], Kind: "m", Body: json.RawMessage(`{}`)})
	}
	if _, err := s.PutAll(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	var got []string
	for r, err := range s.List(t.Context(), "m") {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.ID)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d records listed of %d, or in another order", len(got), len(want))
	}
}

func cutColon(s string) (string, string, bool) {
	for i := range s {
		if s[i] == ':' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

func clock(t *testing.T, s cms.Store) {
	before := time.Now()
	now, maxErr, err := s.Now(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if now.Before(before.Add(-time.Minute)) || now.After(time.Now().Add(time.Minute)) || maxErr < 0 || maxErr > 5*time.Second {
		t.Errorf("%v ± %v", now, maxErr)
	}
	id := ID("a", 0, 0)
	create(t, s, cms.NewItem(id, "c", 0))
	it, v, err := s.Apply(t.Context(), id, cms.Acquire{Holder: "h", InitialMs: 60_000, MaxMs: 60_000})
	if err != nil || v != cms.Applied {
		t.Fatalf("%v %v", v, err)
	}
	if d := time.UnixMilli(it.AcquiredAt).Sub(now); d.Abs() > 10*time.Second {
		t.Errorf("a transition saw a clock %v from Now", d)
	}
	if d := it.Expiration*1000 - it.AcquiredAt; d < 60_000 || d >= 61_000 {
		t.Errorf("lease of %d ms", d)
	}
}
