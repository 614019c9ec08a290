package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

// TestWhateverAHintSaysANodeKeepsWithinItsBounds: payloads that a leader of another version, or another writer, may have written. The
// accepted values are within valid limits (daemon.TestAHintMayReorderDelayOrShrinkWorkAndNothingElse continues from there).
func TestWhateverAHintSaysANodeKeepsWithinItsBounds(t *testing.T) {
	f := newTestFleet(t)
	n := f.startWith("n0", false)
	most := int64(math.MaxInt64)
	now := time.Now()
	at := now.UnixMilli()
	payloads := []string{
		``, `null`, `[]`, `{}`, `"x"`, `{"at":"x"}`, `[[[[`, `{"workersProposed":1e400}`, `{"history":{"points":[null,{}]}}`, `[{"index":5}]`,
		fmt.Sprintf(`{"workersProposed":%d,"history":{"step":%d,"points":[{"t":%d,"n":%d,"b":%d,"d":%d,"w":1}]}}`, most, most, most, most, most, most),
		fmt.Sprintf(`{"workersProposed":%d,"history":{"step":-1,"points":[{"t":-1,"n":-1,"b":-1,"d":-1,"w":-1},{"n":1,"b":1,"d":1,"w":1}]}}`, -most),
		`{"workersProposed":1,"history":{"points":[{"n":60000,"b":60000,"w":60000}]}}`,
		fmt.Sprintf(`[{"index":"theirs","shard":%d,"bytes":%d},{"index":"","shard":-1,"bytes":-1}]`, most, -most),
	}
	for _, payload := range payloads {
		for _, written := range []int64{at, at - 30_000, 1, -most, most} {
			was := payload
			if rest, ok := strings.CutPrefix(payload, `{"workersProposed"`); ok {
				payload = fmt.Sprintf(`{"at":%d,"workersProposed"%s`, written, rest)
			}
			h := []store.Hint{{Kind: "any", Key: "a node of another fleet", Expires: most, Payload: json.RawMessage(payload)}}
			n.applySummary(h, now)
			n.applyShards(h)
			p := n.Plan()
			if e := p.MinExponent(timing.DefaultInitialLease); e < 0 || e > 2 {
				t.Fatalf("%s: leases 2^%d times as long", payload, e)
			}
			if left := schedule.Estimate(1<<40, p.Throughput); left != nil && !(*left >= 0) {
				t.Fatalf("%s: %v seconds left", payload, *left)
			}
			n.mu.Lock()
			is := n.heard
			n.mu.Unlock()
			if is.proposed.After(n.now().Add(n.intervals.planTTL)) || is.throughput.After(n.now().Add(summaryTTL)) {
				t.Fatalf("%s lives until %v and %v", payload, is.proposed, is.throughput)
			}
			payload = was
		}
	}
}

// TestASummaryIsUsedByItsAge: the store's clock determines the age, whatever the clocks of leader and node are.
func TestASummaryIsUsedByItsAge(t *testing.T) {
	f := newTestFleet(t)
	f.start("n0")
	n := f.nodes["n0"]
	eventually(t, "hints are there", func() bool { return n.hintStore() != nil })
	n.stop() // nothing else writes or reads
	n.done.Wait()
	now := time.Now().Add(5 * time.Hour) // of the store
	history := schedule.History{Samples: []schedule.Sample{{Took: 60_000, Bytes: 6_000_000, Worked: 60_000}}}
	for _, c := range []struct {
		name       string
		age        time.Duration
		workers    int
		throughput float64
	}{
		{"new", 0, 7, 100_000},
		{"its proposal is over", n.intervals.planTTL + time.Second, 0, 100_000},
		{"its history is over", summaryTTL + time.Second, 0, 0},
		{"a little in the future, by the error of a reading", -time.Second, 7, 100_000},
		{"in the future", -time.Hour, 0, 0},
	} {
		n.mu.Lock()
		n.heard = heard{}
		n.mu.Unlock()
		h, err := summaryHint(Summary{At: now.Add(-c.age).UnixMilli(), Proposed: 7, History: history})
		if err != nil {
			t.Fatal(err)
		}
		n.applySummary([]store.Hint{h}, now)
		if p := n.Plan(); p.Workers != c.workers || p.Throughput != c.throughput {
			t.Errorf("%s: %+v", c.name, p)
		}
	}
}

// TestASummaryFitsIntoAHint: the history is cut, the sums stay.
func TestASummaryFitsIntoAHint(t *testing.T) {
	s := Summary{Leader: strings.Repeat("n", 100), Bytes: math.MaxInt64}
	for range schedule.MaxSamples {
		s.History.Samples = append(s.History.Samples, schedule.Sample{Begin: math.MaxInt64, Took: math.MaxInt64, Bytes: math.MaxInt64, Documents: math.MaxInt64, Worked: math.MaxInt64})
	}
	h, err := summaryHint(s)
	var got Summary
	if err != nil || len(h.Payload) > maxHint || json.Unmarshal(h.Payload, &got) != nil || got.Bytes != s.Bytes || len(got.History.Samples) < historySamples/4 {
		t.Errorf("%d bytes with %d samples, %v", len(h.Payload), len(got.History.Samples), err)
	}
}

// TestALeaderGoesOnFromAnyAccount: the former leader's record is unreadable, or has impossible values.
func TestALeaderGoesOnFromAnyAccount(t *testing.T) {
	t.Parallel()
	for _, body := range []string{`{"history":5}`, `{"divided":9223372036854775807}`, `{"at":-1,"divided":-9,"shards":-1,"leftBytes":9,"history":{"step":-1,"points":[{"n":-1},{}]}}`} {
		f := newTestFleet(t)
		if _, err := f.store.Put(t.Context(), cms.Record{ID: summaryID, Kind: summaryKind, Body: json.RawMessage(body)}); err != nil {
			t.Fatal(err)
		}
		f.start("n0")
		eventually(t, "the account is right", func() bool { s, ok := f.summary(); return ok && s.Leader == "n0" && s.Seconds != nil })
		f.stop("n0")
	}
}
