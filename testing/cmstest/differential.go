package cmstest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// differentialOf applies random transitions to random documents, in the store and with the pure functions, and compares the results. It
// requires a minimum number of distinct outcomes.
func differentialOf(t *testing.T, s cms.Store, cases, outcomes int) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	seen := map[string]int{}
	for n := range cases {
		now := storeNow(t, s).UnixMilli()
		it := randomItem(r, n, now/1000)
		tr := randomTransition(r, now)
		create(t, s, it)
		want, wantV := tr.Apply(it, now)
		got, gotV, err := s.Apply(t.Context(), it.ID, tr)
		if err != nil {
			t.Fatalf("case %d: %s %+v on %+v: %v", n, tr.Name(), tr, it, err)
		}
		stored := get(t, s, it.ID)
		seen[tr.Name()+" "+wantV.String()]++
		if gotV != wantV || !sameItem(stored, want) {
			t.Fatalf("case %d: %s %+v\non   %+v\ngave %v %+v\nwant %v %+v", n, tr.Name(), tr, it, gotV, stored, wantV, want)
		}
		if (gotV == cms.Applied || gotV == cms.Exhausted || gotV == cms.Mismatch) && !sameItem(got, want) {
			t.Fatalf("case %d: %s answered %+v, want %+v", n, tr.Name(), got, want)
		}
	}
	if len(seen) < outcomes {
		t.Errorf("only %d kinds of outcomes: %v", len(seen), seen)
	}
}

// together applies random transitions to random items in one request, and one to a missing item.
func together(t *testing.T, s cms.Store) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 2))
	now := storeNow(t, s).UnixMilli()
	var changes []cms.Change
	var items []cms.Item
	for n := range 25 {
		it := randomItem(r, n, now/1000)
		items, changes = append(items, it), append(changes, cms.Change{ID: it.ID, Transition: randomTransition(r, now)})
	}
	create(t, s, items...)
	missing := ID("none", 0, 0)
	got, err := s.ApplyAll(t.Context(), append(changes, cms.Change{ID: missing, Transition: changes[0].Transition}))
	if err != nil || len(got) != len(changes)+1 {
		t.Fatalf("%d outcomes, %v", len(got), err)
	}
	if last := got[len(changes)]; !errors.Is(last.Err, cms.ErrNotFound) {
		t.Errorf("an item that is missing: %+v", last)
	}
	seen := map[cms.Result]bool{}
	for i, c := range changes {
		want, wantV := c.Transition.Apply(items[i], now)
		stored := get(t, s, c.ID)
		seen[wantV] = true
		if got[i].Err != nil || got[i].Result != wantV || !sameItem(stored, want) {
			t.Fatalf("%s %+v\non   %+v\ngave %+v, stored %+v\nwant %v %+v", c.Transition.Name(), c.Transition, items[i], got[i], stored, wantV, want)
		}
		if (wantV == cms.Applied || wantV == cms.Mismatch) && !sameItem(got[i].Item, want) {
			t.Fatalf("%s answered %+v, want %+v", c.Transition.Name(), got[i].Item, want)
		}
	}
	if len(seen) < 3 {
		t.Errorf("only the results %v", seen)
	}
}

// sameItem compares items, ignoring the seconds between the two clocks.
func sameItem(a, b cms.Item) bool {
	near := func(x, y *int64, tolerance int64) {
		if d := *x - *y; *x != 0 && *y != 0 && d <= tolerance && d >= -tolerance {
			*x = *y
		}
	}
	near(&a.Expiration, &b.Expiration, 10)
	near(&a.CompletedAt, &b.CompletedAt, 10)
	near(&a.AcquiredAt, &b.AcquiredAt, 10_000)
	near(&a.ReportedAt, &b.ReportedAt, 10_000)
	return a == b
}

func pick[T any](r *rand.Rand, of ...T) T { return of[r.IntN(len(of))] }

func randomItem(r *rand.Rand, n int, now int64) cms.Item {
	it := cms.NewItem(ID("d", n, pick[int64](r, 0, 0, 20)), "c", pick(r, 0, 1, 3, 9, 10, 15))
	it.Engine = pick(r, "", "go")
	it.Holder = pick(r, "", "h1", "h1", "h2")
	it.Expiration = pick(r, 0, now-3600, now-60, now+600, now+3600)
	it.LeaseExponent = pick[cms.Exponent](r, 0, 1, 4)
	it.Attempts = pick(r, 0, 1, 4, 5, 6)
	it.Reached = pick[int64](r, 0, 0, 0, 60, 170)
	it.AloneAt = pick[int64](r, 0, 0, 1, 51, 101)
	it.AloneDied = pick[int64](r, 0, 0, 1, 51)
	it.AloneDeaths = pick(r, 0, 0, 1, 4, 5)
	it.Watermark = pick[int64](r, 0, 0, 50, 100)
	it.End = pick[int64](r, 0, 0, 0, 100, 170, 180, 200)
	it.Successors = pick(r, "", "", "", ID("d", n, 100))
	if it.Watermark > 0 {
		it.Counts = cms.Counts{Ordinals: it.Watermark, Live: 7, Indexed: 5, Failed: 1, Filtered: 1, Bytes: 1 << 40}
		it.Checks = `["x"]`
	}
	if r.IntN(4) == 0 {
		it.CompletedAt = now - 100
		if it.Successors == "" && r.IntN(2) == 0 {
			it.Status, it.Failure = cms.StatusFailed, "because"
		}
	}
	if r.IntN(20) == 0 {
		it.ScriptVersion = "2.0"
	}
	return it
}

func randomTransition(r *rand.Rand, now int64) cms.Transition {
	holder := pick(r, "h1", "h1", "h1", "h2", "h3")
	counts := cms.Counts{Ordinals: 100, Live: 90, Indexed: 80, Failed: 5, Filtered: 5, Bytes: 1 << 41}
	succ := pick(r, "", fmt.Sprintf("s%d", r.IntN(3)))
	switch r.IntN(9) {
	case 0, 1:
		return cms.Acquire{
			Holder: holder, InitialMs: pick[int64](r, 20_000, 600_000), MaxMs: 6 * 3600_000, GraceMs: pick[int64](r, 0, 5000, 120_000),
			MaxAttempts: pick(r, 0, 5), ClientMs: now + pick[int64](r, 0, -3600_000, 3600_000, 1000), ToleranceMs: pick[int64](r, 0, 0, 15_000, 60_000),
		}
	case 2:
		return cms.Progress{Holder: holder, Begin: pick[int64](r, 0, 100), Watermark: pick[int64](r, 0, 50, 100, 150), Counts: counts, Checks: `["y"]`, SetupMs: 12,
			Reached: pick[int64](r, 0, 0, 50, 130, 180), Alone: r.IntN(3) == 0}
	case 3:
		return cms.SetSuccessors{Holder: holder, Successors: "s1", HandExponent: pick(r, 0, 2), Watermark: 170, Counts: counts, Checks: `["z"]`, SetupMs: 13}
	case 4:
		return cms.Complete{Holder: holder, Successors: succ, Watermark: pick[int64](r, 10, 200), Counts: counts, Checks: `["w"]`, SetupMs: 14}
	case 5:
		return cms.Release{Holder: holder, Cause: "drain", Counted: r.IntN(2) == 0, Longer: r.IntN(2) == 0,
			Begin: pick[int64](r, 0, 100), Watermark: pick[int64](r, 0, 0, 50, 100, 150), Counts: counts, Checks: `["y"]`, SetupMs: 12}
	case 6:
		return cms.Fail{Holder: pick(r, "", "h1", "h2"), Reason: "r", GraceMs: 5000, Checks: pick(r, "", `["f"]`)}
	}
	return pick[cms.Transition](r, cms.Reopen{}, cms.Reclaim{})
}
