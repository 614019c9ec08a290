package cms_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const now = int64(1_700_000_000_000)

func leased() cms.Item {
	it := cms.NewItem("YQ__0__10", "c", 0)
	it, _ = cms.Acquire{Holder: "h", InitialMs: 600_000, MaxMs: 1 << 40}.Apply(it, now)
	return it
}

func TestAcquireResults(t *testing.T) {
	acq := cms.Acquire{Holder: "me", InitialMs: 600_000, MaxMs: 6 * 3600_000, GraceMs: 5000, MaxAttempts: 5, ClientMs: now, ToleranceMs: 15_000}
	for _, tc := range []struct {
		name   string
		change func(*cms.Item)
		acq    func(*cms.Acquire)
		want   cms.Result
	}{
		{"free", nil, nil, cms.Applied},
		{"grace not over", func(it *cms.Item) { it.Expiration = now/1000 - 5 }, nil, cms.Held},
		{"grace over", func(it *cms.Item) { it.Expiration = now/1000 - 6 }, nil, cms.Applied},
		{"running", func(it *cms.Item) { it.Expiration = now/1000 + 1 }, nil, cms.Held},
		{"the same request again", func(it *cms.Item) { it.Holder, it.Expiration = "me", now/1000+1 }, nil, cms.Already},
		{"completed", func(it *cms.Item) { it.CompletedAt = 1 }, nil, cms.Done},
		{"other version", func(it *cms.Item) { it.ScriptVersion = "2.0" }, nil, cms.Foreign},
		{"skew of exactly the tolerance", nil, func(a *cms.Acquire) { a.ClientMs = now - 15_000 }, cms.Applied},
		{"skew beyond the tolerance", nil, func(a *cms.Acquire) { a.ClientMs = now + 15_001 }, cms.Skewed},
		{"skew without tolerance", nil, func(a *cms.Acquire) { a.ClientMs, a.ToleranceMs = now+3600_000, 0 }, cms.Applied},
		{"five times in vain", func(it *cms.Item) { it.Attempts = 5 }, nil, cms.Applied},
		{"five times, but handed off", func(it *cms.Item) { it.Attempts, it.Successors = 5, "x" }, nil, cms.Applied},
		{"five times without a limit", func(it *cms.Item) { it.Attempts = 99 }, func(a *cms.Acquire) { a.MaxAttempts = 0 }, cms.Applied},
	} {
		it, a := cms.NewItem("YQ__0__0", "c", 0), acq
		if tc.change != nil {
			tc.change(&it)
		}
		if tc.acq != nil {
			tc.acq(&a)
		}
		got, v := a.Apply(it, now)
		if v != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, v, tc.want)
		}
		if v != cms.Applied && got != it {
			t.Errorf("%s: refused but changed", tc.name)
		}
	}
}

func TestProgressOpensTheWayForARestart(t *testing.T) {
	it := leased()
	it.Attempts, it.Exponent, it.LeaseExponent = 4, 4, 3
	counts := cms.Counts{Ordinals: 5}
	p := cms.Progress{Holder: "h", Begin: 10, Watermark: 15, Counts: counts}
	got, v := p.Apply(it, now)
	if v != cms.Applied || got.Watermark != 15 || got.Attempts != 0 || got.Exponent != 2 || got.Counts != counts || got.Begin() != 15 {
		t.Fatalf("%v %+v", v, got)
	}
	if late, v := (cms.Progress{Holder: "h", Begin: 10, Watermark: 12}).Apply(got, now); v != cms.Already || late != got {
		t.Errorf("a late report changed %v %+v", v, late)
	}
	if at, v := (cms.Progress{Holder: "h", Begin: 10, Watermark: 10}).Apply(it, now); v != cms.Already || at.Attempts != 4 {
		t.Errorf("no progress counted as progress: %v %+v", v, at)
	}
	if _, v := (cms.Progress{Holder: "zombie", Watermark: 99}).Apply(got, now); v != cms.Lost {
		t.Errorf("zombie: %v", v)
	}
}

func TestSuccessorsAreWrittenOnce(t *testing.T) {
	it, v := cms.SetSuccessors{Holder: "h", Successors: "YQ__0__20", Watermark: 20, HandExponent: 1}.Apply(leased(), now)
	if v != cms.Applied {
		t.Fatal(v)
	}
	for _, tc := range []struct {
		name string
		t    cms.Transition
		want cms.Result
	}{
		{"the same again", cms.SetSuccessors{Holder: "h", Successors: "YQ__0__20"}, cms.Already},
		{"another cursor", cms.SetSuccessors{Holder: "h", Successors: "YQ__0__21"}, cms.Mismatch},
		{"a zombie", cms.SetSuccessors{Holder: "z", Successors: "YQ__0__20"}, cms.Lost},
		{"progress after it", cms.Progress{Holder: "h", Watermark: 30}, cms.Mismatch},
		{"plain completion", cms.Complete{Holder: "h"}, cms.Mismatch},
		{"failing it", cms.Fail{Holder: "h", Reason: "r"}, cms.Mismatch},
		{"completing it", cms.Complete{Holder: "h", Successors: "YQ__0__20"}, cms.Applied},
	} {
		if _, v := tc.t.Apply(it, now); v != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, v, tc.want)
		}
	}
	if _, v := (cms.Complete{Holder: "h", Successors: "YQ__0__20"}).Apply(leased(), now); v != cms.NoSuccessors {
		t.Errorf("completion of a hand-off that the store forgot: %v", v)
	}
}

func TestFirstCompletionIsKept(t *testing.T) {
	it, v := cms.Complete{Holder: "h", Watermark: 30, Counts: cms.Counts{Ordinals: 20}}.Apply(leased(), now)
	if v != cms.Applied || it.CompletedAt != now/1000 {
		t.Fatalf("%v %+v", v, it)
	}
	again, v := cms.Complete{Holder: "h", Watermark: 30}.Apply(it, now+60_000)
	if v != cms.Already || again != it {
		t.Errorf("%v %+v", v, again)
	}
	if _, v := (cms.Complete{Holder: "z"}).Apply(it, now); v != cms.Lost {
		t.Errorf("zombie: %v", v)
	}
	if _, v := (cms.Fail{Holder: "h", Reason: "r"}).Apply(it, now); v != cms.Done {
		t.Errorf("failing a completed item: %v", v)
	}
	if _, v := (cms.Complete{Holder: "h"}).Apply(leased(), now+3600_000); v != cms.Applied {
		t.Errorf("an expired lease that was not taken may complete: %v", v)
	}
}

func TestFailedIsReportedOverACompletion(t *testing.T) {
	it, v := cms.Fail{Holder: "h", Reason: "r"}.Apply(leased(), now)
	if v != cms.Applied || !it.FailedItem() {
		t.Fatalf("%v %+v", v, it)
	}
	if _, v := (cms.Complete{Holder: "h"}).Apply(it, now); v != cms.Done {
		t.Errorf("completing a failed item: %v", v)
	}
	if _, v := (cms.Fail{Holder: "other"}).Apply(leased(), now); v != cms.Held {
		t.Errorf("failing another's item: %v", v)
	}
	back, v := cms.Reopen{}.Apply(it, now)
	if v != cms.Applied || !back.Open() || back.Attempts != 0 || back.Holder != "" {
		t.Errorf("%v %+v", v, back)
	}
}

// TestInvariantsOfRandomHistories: under any sequence of transitions, completed items stay completed, successors are written once, and
// refused transitions change nothing.
func TestInvariantsOfRandomHistories(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := cms.NewItem("YQ__0__10", "c", 0)
		clock := now
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			clock += rapid.Int64Range(0, 2_000_000).Draw(t, "pause")
			holder := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "holder")
			mark := rapid.Int64Range(0, 40).Draw(t, "mark")
			succ := rapid.SampledFrom([]string{"YQ__0__20", "YQ__0__30"}).Draw(t, "successor")
			tr := rapid.SampledFrom([]cms.Transition{
				cms.Acquire{Holder: holder, InitialMs: 60_000, MaxMs: 600_000, GraceMs: 3000, MaxAttempts: 5},
				cms.Progress{Holder: holder, Begin: 10, Watermark: mark, Counts: cms.Counts{Ordinals: mark}},
				cms.Progress{Holder: holder, Begin: 10, Reached: mark, Alone: mark%2 == 0},
				cms.Release{Holder: holder, Begin: 10, Watermark: mark, Longer: mark%2 == 0},
				cms.SetSuccessors{Holder: holder, Successors: succ, Watermark: mark},
				cms.Complete{Holder: holder}, cms.Complete{Holder: holder, Successors: succ},
				cms.Release{Holder: holder, Counted: mark > 20}, cms.Fail{Holder: holder, Reason: "r", GraceMs: 3000}, cms.Reclaim{},
			}).Draw(t, "transition")
			after, v := tr.Apply(it, clock)
			again, v2 := tr.Apply(after, clock)
			switch {
			case v == 0:
				t.Fatalf("%s: no result", tr.Name())
			case v != cms.Applied && after != it:
				t.Fatalf("%s was refused (%v) but changed the item", tr.Name(), v)
			case v == cms.Applied && v2 != cms.Already && v2 != cms.Lost && v2 != cms.Done:
				t.Fatalf("%s repeated: %v", tr.Name(), v2)
			case again != after && v2 != cms.Applied:
				t.Fatalf("%s repeated changed the item: %+v %+v", tr.Name(), after, again)
			case !it.Open() && (after.Open() || after.CompletedAt != it.CompletedAt):
				t.Fatalf("%s opened a completed item", tr.Name())
			case it.Successors != "" && after.Successors != it.Successors:
				t.Fatalf("%s changed the successors", tr.Name())
			case after.Attempts > 6:
				t.Fatalf("%s: %d attempts", tr.Name(), after.Attempts)
			case after.Watermark < it.Watermark && after.Successors == it.Successors:
				t.Fatalf("%s moved the watermark back", tr.Name())
			case it.Expiration*1000 > clock && it.Open() && after.Open() && it.Holder != holder && after.Holder == holder:
				t.Fatalf("%s stole a running lease", tr.Name())
			}
			it = after
		}
	})
}
