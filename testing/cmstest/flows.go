package cmstest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// migration runs 6 shards of 100 ordinals, handing each off twice.
func migration(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	if _, err := c.AcquireNext(ctx, "early", nil); !isNone(err) {
		t.Fatalf("work before it is seeded: %v", err)
	}
	Seed(t, c, "logs", 6)
	if err := c.SeedOnce(ctx, "again", func(_ context.Context) error { t.Error("seeded twice"); return nil }, nil); err != nil {
		t.Fatal(err)
	}
	if e, err := session.EntriesOf(c).Read(ctx, "logs"); err != nil || e.Shards != 6 || string(e.Body) != `{"path":"x"}` {
		t.Fatalf("%+v %v", e, err)
	}
	for leases := 0; ; leases++ {
		l, err := c.AcquireNext(ctx, "h", nil)
		if errors.Is(err, cms.ErrAllDone) {
			if leases != 18 {
				t.Errorf("%d leases", leases)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if leases > 18 {
			t.Fatal("too many leases")
		}
		n := min(40, 100-l.Start())
		w := cms.Work{Counts: cms.Counts{Ordinals: n, Live: n, Indexed: n - 1, Failed: 1, Bytes: 10 * n}, Checks: []byte(`{"c":1}`), Setup: 40 * time.Second}
		if err := l.Progress(ctx, l.Start()+n/2, cms.Work{Counts: cms.Counts{Ordinals: n / 2}}); err != nil {
			t.Fatal(err)
		}
		if l.Start()+n == 100 {
			err = l.Complete(ctx, w)
		} else {
			err = l.Handoff(ctx, l.Start()+n, w)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	sum, err := Sum(ctx, c)
	want := cms.Counts{Ordinals: 600, Live: 600, Indexed: 582, Failed: 18, Bytes: 6000}
	if err != nil || sum.Total.Counts != want || !sum.SetupDone || len(sum.Indices) != 1 || sum.Indices[0].Items != 18 {
		t.Errorf("%+v, %v", sum, err)
	}
	rep, done, err := session.AuditsOf(c).Finish(ctx)
	if err != nil || !done || rep.Chains != 6 || rep.Items != 18 || len(rep.Stray) != 0 {
		t.Errorf("%+v done=%v %v", rep, done, err)
	}
}

func isNone(err error) bool {
	var none *cms.NoneAvailable
	return errors.As(err, &none)
}

// poison makes every holder of an item die without progress.
func poison(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 1)
	id := cms.ItemID{Index: "a"}
	for i := range 3 { // outside causes do not count as attempts
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Length != 10*time.Minute {
			t.Errorf("lease %d after uncounted releases: %v", i, l.Length)
		}
		if err := l.Release(ctx, pickCause(i)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range timing.DefaultMaxAttempts {
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.Length != 10*time.Minute<<i {
			t.Errorf("lease %d: %v", i, l.Length)
		}
		if err := l.Release(ctx, cms.CauseNone); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 { // not yet: the cause may lie elsewhere
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if !l.Alone() || l.Condemned() != nil {
			t.Errorf("acquisition %d after too many: alone %v, condemned %v", i, l.Alone(), l.Condemned())
		}
		if at, ok := l.Suspect(); ok != (i > 0) || ok && at != 0 {
			t.Errorf("suspect %d %v", at, ok)
		}
		if err := l.RecordPosition(ctx, 0, 0, cms.Work{}); err != nil {
			t.Fatal(err)
		}
		if err := l.Release(ctx, cms.CauseNone); err != nil {
			t.Fatal(err)
		}
	}
	l, err := c.AcquireNext(ctx, "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	deadly := l.Condemned()
	if deadly == nil || deadly.Ordinal != 0 {
		t.Fatalf("five died alone at ordinal 0: %v", deadly)
	}
	if err := l.Fail(ctx, deadly.Error(), nil); err != nil {
		t.Fatal(err)
	}
	it, err := c.Item(ctx, id)
	if err != nil || !it.FailedItem() || !strings.Contains(it.Failure, "at ordinal 0") {
		t.Fatalf("%+v, %v", it, err)
	}
	for r, err := range session.List(ctx, c, "event") {
		var told struct{ Subject, Item string }
		if err != nil || json.Unmarshal(r.Body, &told) != nil {
			t.Fatal(err)
		}
		if id, err := cms.ParseID(told.Item); err != nil || told.Item != it.ID || !strings.HasPrefix(told.Subject, fmt.Sprintf("index %s shard %d", id.Index, id.Shard)) {
			t.Errorf("an event about %+v", told)
		}
	}
	if fresh, err := c.Event(ctx, it.ID, "failed", "again"); err != nil || fresh {
		t.Errorf("no event was emitted: %v %v", fresh, err)
	}
	rep, done, err := session.AuditsOf(c).Finish(ctx)
	if err != nil || !done || !slices.Equal(rep.Failed, []string{it.ID}) {
		t.Errorf("%+v %v %v", rep, done, err)
	}
	if err := c.Reopen(ctx, id, "operator"); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, "operator"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("reopening of an open item: %v", err)
	}
	if l, err = c.AcquireNext(ctx, "h", nil); err != nil {
		t.Fatal(err)
	}
	if l.Alone() || l.Item.AloneDied != 0 || l.Item.Reached != 0 {
		t.Errorf("opened again as %+v", l.Item)
	}
	if err := l.Complete(ctx, cms.Work{}); err != nil {
		t.Fatal(err)
	}
	if err := c.Reopen(ctx, id, "operator"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("reopening of a completed item: %v", err)
	}
	if err := c.Cancel(ctx, id, "operator"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("cancel of a completed item: %v", err)
	}
}

// cancel checks that an operator can fail an item: not while it is leased, with an event, and until it is reopened.
func cancel(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 1)
	l, err := c.AcquireNext(ctx, "h", nil)
	if err != nil {
		t.Fatal(err)
	}
	id, err := cms.ParseID(ID("a", 0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(ctx, id, "ann"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), l.Holder) {
		t.Errorf("a leased item: %v", err)
	}
	if err := l.Release(ctx, cms.CauseDrain); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(ctx, id, "ann"); err != nil {
		t.Fatal(err)
	}
	if err := c.Cancel(ctx, id, "ann"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a second time: %v", err)
	}
	it, err := c.Item(ctx, id)
	if err != nil || !it.FailedItem() || it.Failure != "cancelled by ann" {
		t.Errorf("%+v, %v", it, err)
	}
	told := 0
	for r, err := range session.List(ctx, c, "event") {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(r.State, "cancelled-") && strings.Contains(string(r.Body), "ann") {
			told++
		}
	}
	if told != 1 {
		t.Errorf("%d events", told)
	}
	if rep, done, err := session.AuditsOf(c).Finish(ctx); err != nil || !done || !slices.Equal(rep.Failed, []string{it.ID}) {
		t.Errorf("the rest does not end: %+v %v %v", rep, done, err)
	}
	if err := c.Reopen(ctx, id, "ann"); err != nil {
		t.Fatal(err)
	}
	if l, err = c.AcquireNext(ctx, "h", nil); err != nil || l.Item.ID != it.ID {
		t.Errorf("opened again: %v", err)
	}
}

func pickCause(i int) cms.Cause {
	return []cms.Cause{cms.CauseBackpressure, cms.CauseDrain, cms.CauseKilled}[i%3]
}

// resume leaves an item whose three successors are recorded but only one is created.
func resume(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "other", 0)
	parent := cms.NewItem(ID("a", 0, 0), "c", 2)
	parent.Engine, parent.Holder, parent.Expiration = "go", "dead", storeNow(t, s).Unix()-3600
	succ := []string{ID("a", 0, 10), ID("a", 0, 20), ID("a", 0, 30)}
	parent.Successors, parent.HandExponent, parent.Watermark = strings.Join(succ, ","), 1, 10
	parent.Counts = cms.Counts{Ordinals: 10}
	finished := cms.NewItem(succ[1], "c", 0)
	finished.Engine = "go"
	finished.CompletedAt = storeNow(t, s).Unix() - 60
	create(t, s, parent, finished)
	for range 2 {
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if l.ID.Cursor == 0 {
			t.Fatal("the range of the parent was leased again")
		}
		if l.Length != 20*time.Minute {
			t.Errorf("the exponent of the hand-off was not used: %v", l.Length)
		}
		if err := l.Complete(ctx, cms.Work{}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.AcquireNext(ctx, "h", nil); !errors.Is(err, cms.ErrAllDone) {
		t.Errorf("got %v", err)
	}
	got := get(t, s, parent.ID)
	if got.Open() || got.Counts != parent.Counts || got.Successors != parent.Successors {
		t.Errorf("parent %+v", got)
	}
	if after := get(t, s, succ[1]); after != finished {
		t.Errorf("a finished successor changed: %+v", after)
	}
}

// audit damages a chain like a store that lost writes.
func audit(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	err := c.SeedOnce(ctx, "seeder", func(ctx context.Context) error {
		_, err := session.EntriesOf(c).Create(ctx, session.IndexEntry{Name: "a", State: session.PhaseCompleted, Shards: 2, Body: []byte(`{}`)})
		return err
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	now := storeNow(t, s).Unix()
	root := cms.NewItem(ID("a", 0, 0), "c", 0)
	root.Engine, root.CompletedAt, root.Successors, root.Watermark = "go", now-10, ID("a", 0, 50), 50
	stray := cms.NewItem(ID("a", 0, 70), "c", 0)
	stray.Engine, stray.CompletedAt = "go", now-5
	create(t, s, root, stray)
	rep, done, err := session.AuditsOf(c).Finish(ctx)
	if err != nil || done {
		t.Fatalf("done=%v %v", done, err)
	}
	if want := []string{ID("a", 0, 50), ID("a", 1, 0)}; !slices.Equal(rep.Repaired, want) || !slices.Equal(rep.Stray, []string{stray.ID}) {
		t.Errorf("%+v", rep)
	}
	for range 2 {
		l, err := c.AcquireNext(ctx, "h", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := l.Complete(ctx, cms.Work{}); err != nil {
			t.Fatal(err)
		}
	}
	if rep, done, err = session.AuditsOf(c).Finish(ctx); err != nil || !done || len(rep.Repaired) != 0 {
		t.Errorf("after the repair: %+v %v %v", rep, done, err)
	}
}

func mismatch(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	was := session.Meta{Settings: map[string]string{"snapshot": "s1", "repository": "r"}}
	for range 2 {
		if _, err := session.IdentityOf(c).Init(ctx, was); err != nil {
			t.Fatal(err)
		}
	}
	is := session.Meta{Settings: map[string]string{"snapshot": "s2", "repository": "r", "indices": "a*"}}
	_, err := session.IdentityOf(c).Init(ctx, is)
	var m *session.ConfigMismatch
	if !errors.As(err, &m) || !errors.Is(err, fault.ErrConfig) {
		t.Fatalf("got %v", err)
	}
	if want := []string{`indices was "", is "a*"`, `snapshot was "s1", is "s2"`}; !slices.Equal(m.Differences, want) {
		t.Errorf("%v", m.Differences)
	}
	got, err := session.IdentityOf(c).Settings(ctx)
	if err != nil || got["snapshot"] != "s1" {
		t.Errorf("%v %v", got, err)
	}
}

// identity checks that missing parts of a session's identity are added once, and other changes are rejected.
func identity(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	settings := map[string]string{"snapshot": "nightly"}
	if got, err := session.IdentityOf(c).Init(ctx, session.Meta{Settings: settings}); err != nil || len(got) != 0 {
		t.Fatalf("%v %v", got, err)
	}
	if err := session.IdentityOf(c).Bind(ctx, map[string]string{"destination": "dry run", "destination-id": ""}); err != nil {
		t.Fatal(err)
	}
	if err := session.IdentityOf(c).Bind(ctx, map[string]string{"snapshot-uuid": "u1"}); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"destination": "dry run", "snapshot-uuid": "u1"}
	if got, err := session.IdentityOf(c).Init(ctx, session.Meta{Settings: settings, Identity: map[string]string{"snapshot-uuid": ""}}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v %v", got, err)
	}
	other := map[string]string{"destination": "cluster", "destination-id": "c1", "snapshot-uuid": "u2"}
	_, ierr := session.IdentityOf(c).Init(ctx, session.Meta{Settings: settings, Identity: other})
	for what, err := range map[string]error{"Init": ierr, "Bind": session.IdentityOf(c).Bind(ctx, other)} {
		var m *session.ConfigMismatch
		if !errors.As(err, &m) || !errors.Is(err, fault.ErrConfig) {
			t.Fatalf("%s: %v", what, err)
		}
		if want := []string{`destination was "dry run", is "cluster"`, `snapshot-uuid was "u1", is "u2"`}; !slices.Equal(m.Differences, want) {
			t.Errorf("%s: %v", what, m.Differences)
		}
	}
}

// groups runs small items to their end, several at a time.
func groups(t *testing.T, s cms.Store) {
	ctx := t.Context()
	c := Coordinator(t, s, 10*time.Minute)
	Seed(t, c, "a", 11)
	wanted := true
	g := c.Group("h", cms.GroupLimits{Items: 4, Bytes: 100, Size: func(cms.Item) int64 { return 10 }, More: func() bool { return wanted }})
	holders, done := map[string]bool{}, 0
	for {
		leases, err := g.Acquire(ctx, nil)
		if errors.Is(err, cms.ErrAllDone) {
			break
		}
		if err != nil || len(leases) == 0 || len(leases) > 4 {
			t.Fatalf("%d leases, %v", len(leases), err)
		}
		var all sync.WaitGroup
		for _, l := range leases {
			if holders[l.Holder] {
				t.Errorf("two leases of the holder %s", l.Holder)
			}
			holders[l.Holder] = true
			all.Go(func() {
				defer g.Left(ctx)
				if err := l.Complete(ctx, cms.Work{Counts: cms.Counts{Ordinals: 3, Live: 3, Indexed: 3}}); err != nil {
					t.Errorf("complete %s: %v", l.ID.Name(), err)
				}
				if it := get(t, s, l.Item.ID); it.Open() || it.Counts.Indexed != 3 {
					t.Errorf("left as %+v", it)
				}
			})
		}
		all.Wait()
		if done += len(leases); done >= 4 && wanted { // leases for the next turn are released without counting as attempts
			wanted = false
			if err := g.Close(ctx); err != nil {
				t.Fatal(err)
			}
			for it, err := range c.Items(ctx) {
				if err != nil || it.Open() && (it.Holder != "" || it.Expiration != 0 || it.Attempts != 0) {
					t.Errorf("released as %+v, %v", it, err)
				}
			}
		}
	}
	if done != 11 {
		t.Errorf("%d of 11 items", done)
	}
}
