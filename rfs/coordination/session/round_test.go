package session_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

func rounds(t *testing.T) session.Rounds {
	t.Helper()
	store := boltstore.Open(t)
	return session.RoundsOf(cms.New(cms.Config{Store: store, Creator: "test"}))
}

// TestRounds_OneAfterTheOther: a round starts after the previous one has arrived.
func TestRounds_OneAfterTheOther(t *testing.T) {
	r := rounds(t)
	if all, err := r.Read(t.Context()); err != nil || len(all.Rounds) != 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	last := func(all session.Followed, err error) session.Round {
		t.Helper()
		x, ok := all.Last()
		if err != nil || !ok {
			t.Fatal(err)
		}
		return x
	}
	if x := last(r.Start(t.Context(), session.Round{Snapshot: "a"})); x.Snapshot != "a" || x.Started == 0 {
		t.Errorf("%+v", x)
	}
	if x := last(r.Start(t.Context(), session.Round{Number: 1, Snapshot: "b"})); x.Number != 0 {
		t.Errorf("round 1 starts before round 0 has arrived: %+v", x)
	}
	if _, err := r.Arrive(t.Context(), session.Round{Number: 1}); !errors.Is(err, cms.ErrConflict) {
		t.Errorf("a round that has not started arrives: %v", err)
	}
	done := session.Round{Snapshot: "a", Identity: "u", Account: session.Account{Inserted: 3}}
	for range 2 {
		if _, err := r.Arrive(t.Context(), done); err != nil {
			t.Fatal(err)
		}
		done.Inserted = 9 // only the first account counts
	}
	if x := last(r.Read(t.Context())); x.Arrived == 0 || x.Inserted != 3 || x.Identity != "u" || x.Started == 0 {
		t.Errorf("%+v", x)
	}
	if x := last(r.Start(t.Context(), session.Round{Number: 0, Snapshot: "again"})); x.Snapshot != "a" {
		t.Errorf("a round starts twice: %+v", x)
	}
}

// TestRounds_AtTheSameTime: of several processes that start the same round one succeeds, and all see its snapshot.
func TestRounds_AtTheSameTime(t *testing.T) {
	r := rounds(t)
	var wg sync.WaitGroup
	got := make([]session.Followed, 8)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = r.Start(t.Context(), session.Round{Snapshot: string(rune('a' + i))}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, f := range got {
		if len(f.Rounds) != 1 || f.Rounds[0].Snapshot != got[0].Rounds[0].Snapshot {
			t.Errorf("%+v, %+v", f, got[0])
		}
	}
}

// TestRounds_TheLastHundredAreKept: the record does not grow without end.
func TestRounds_TheLastHundredAreKept(t *testing.T) {
	r := rounds(t)
	for n := range 103 {
		if _, err := r.Start(t.Context(), session.Round{Number: n}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Arrive(t.Context(), session.Round{Number: n, Account: session.Account{Failed: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := r.Read(t.Context())
	if err != nil || len(all.Rounds) != 100 || all.Rounds[0].Number != 3 || all.Failed() != 103 {
		t.Errorf("%d rounds from %d, %v", len(all.Rounds), all.Rounds[0].Number, err)
	}
	if err := r.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Start(t.Context(), session.Round{Number: 103}); !errors.Is(err, session.ErrFinished) {
		t.Errorf("a round starts after the end: %v", err)
	}
}

// TestRounds_FailuresBeforeARoundThatStartedOver: they do not count, because that round has sent every document again, also after the list
// has lost it.
func TestRounds_FailuresBeforeARoundThatStartedOver(t *testing.T) {
	r := rounds(t)
	for n := range 130 {
		all, err := r.Start(t.Context(), session.Round{Number: n, Whole: n == 5 || n == 20})
		if err != nil {
			t.Fatal(err)
		}
		if n == 20 && (all.StartedOver() != 5 || all.Failed() != 15) {
			t.Errorf("before the round has arrived: %d documents failed since round %d", all.Failed(), all.StartedOver())
		}
		if _, err := r.Arrive(t.Context(), session.Round{Number: n, Account: session.Account{Failed: 1}}); err != nil {
			t.Fatal(err)
		}
		if all, err = r.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		over := 0
		switch {
		case n >= 20:
			over = 20
		case n >= 5:
			over = 5
		}
		if want := int64(n - over + 1); all.Failed() != want || n < 120 && all.StartedOver() != over || n >= 120 && all.StartedOver() != 0 {
			t.Fatalf("after round %d: %d documents failed since round %d, want %d since %d", n, all.Failed(), all.StartedOver(), want, over)
		}
	}
}

// TestFollowed_Lag: the lag is the age of the last snapshot that arrived, regardless of rounds in progress, until following has finished.
func TestFollowed_Lag(t *testing.T) {
	now := time.UnixMilli(100_000)
	for _, c := range []struct {
		name string
		f    session.Followed
		want time.Duration // negative: unknown
	}{
		{"none started", session.Followed{}, -1},
		{"the first one is in progress", session.Followed{Rounds: []session.Round{{Started: 40_000}}}, -1},
		{"one has arrived", session.Followed{Rounds: []session.Round{{Started: 40_000, Arrived: 50_000}}}, time.Minute},
		{"a later one is in progress", session.Followed{Rounds: []session.Round{{Started: 40_000, Arrived: 50_000}, {Number: 1, Started: 60_000}}}, time.Minute},
		{"a clock that went back", session.Followed{Rounds: []session.Round{{Started: 140_000, Arrived: 150_000}}}, 0},
		{"finished", session.Followed{Finished: 90_000, Rounds: []session.Round{{Started: 40_000, Arrived: 50_000}}}, -1},
	} {
		if got, ok := c.f.Lag(now); ok != (c.want >= 0) || ok && got != c.want {
			t.Errorf("%s: %v %v, want %v", c.name, got, ok, c.want)
		}
	}
}

// TestRounds_FailuresAreCountedUntilARoundArrives: of every process, with a reason of limited length.
func TestRounds_FailuresAreCountedUntilARoundArrives(t *testing.T) {
	r := rounds(t)
	is := func(failures int, reason string) {
		t.Helper()
		if all, err := r.Read(t.Context()); err != nil || all.Failures != failures || all.Failure != reason {
			t.Errorf("%d failures, the last because of %.40q, %v; want %d because of %.40q", all.Failures, all.Failure, err, failures, reason)
		}
	}
	fail := func(reason string) {
		t.Helper()
		if err := r.Fail(t.Context(), reason); err != nil {
			t.Fatal(err)
		}
	}
	fail("no round has started")
	is(0, "")
	if _, err := r.Start(t.Context(), session.Round{Snapshot: "a"}); err != nil {
		t.Fatal(err)
	}
	fail("shard 0 is damaged")
	fail(strings.Repeat("é", 5000))
	is(2, strings.Repeat("é", 512))
	if _, err := r.Arrive(t.Context(), session.Round{Snapshot: "a"}); err != nil {
		t.Fatal(err)
	}
	is(0, "")
}

// TestFollowed_Bases: rounds of some indices replace the last round of all indices, for these indices. Rounds that were replaced do not count.
func TestFollowed_Bases(t *testing.T) {
	group := func(names ...string) session.Round { return session.Round{Group: names} }
	all := session.Followed{Rounds: []session.Round{group(), group("a"), group("a"), group("b", "c"), group("a"), group("a"), group(), group("c")}}
	for i := range all.Rounds {
		all.Rounds[i].Number, all.Rounds[i].Arrived = i+10, 1
	}
	all.Rounds = slices.Insert(all.Rounds, 4, session.Round{Number: 30}) // of all indices, replaced
	for at, want := range []string{"false 0 []", "true 10 []", "true 11 []", "true 10 [12]", "true 10 [13 12]", "true 12 [13]", "true 14 []", "true 10 [15 13]", "true 16 []", "true 16 [17]"} {
		base, parts, ok := all.Bases(at)
		numbers := []int{}
		for _, p := range parts {
			numbers = append(numbers, p.Number)
		}
		if got := fmt.Sprint(ok, base.Number, numbers); got != want {
			t.Errorf("round %d: %s, want %s", at, got, want)
		}
	}
}
