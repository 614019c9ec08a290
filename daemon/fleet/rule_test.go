package fleet

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/schedule"
	"github.com/rfsd/rfsd/store"
)

// TestWhateverAHintSaysANodeKeepsWithinItsBounds: payloads that the leader of another version, or nobody, may have written. What is
// left of them is within what a node may be told (daemon.TestAHintMayReorderDelayOrShrinkWorkAndNothingElse goes on from there).
func TestWhateverAHintSaysANodeKeepsWithinItsBounds(t *testing.T) {
	f := newTestFleet(t)
	n := f.startWith("n0", false)
	soon, ever := time.Now().Add(time.Minute).UnixMilli(), int64(math.MaxInt64)
	most := int64(math.MaxInt64)
	payloads := []string{
		``, `null`, `[]`, `{}`, `"x"`, `{"rate":"x"}`, `[[[[`, `{"rate":1e400}`, `{"points":[null,{}]}`, `[{"index":5}]`,
		fmt.Sprintf(`{"number":%d,"rate":%d,"life_ms":%d,"workers":%d,"shard_ms":%d}`, most, most, most, most, most),
		fmt.Sprintf(`{"number":%d,"rate":%d,"life_ms":%d,"workers":%d,"shard_ms":%d}`, -most, -most, -most, -most, -most),
		`{"number":5,"rate":1,"life_ms":60000,"workers":1,"shard_ms":1}`,
		fmt.Sprintf(`{"step":%d,"points":[{"t":%d,"n":%d,"b":%d,"d":%d,"w":1}]}`, most, most, most, most, most),
		`{"step":-1,"points":[{"t":-1,"n":-1,"b":-1,"d":-1,"w":-1},{"n":1,"b":1,"d":1,"w":1}]}`,
		fmt.Sprintf(`[{"index":"theirs","shard":%d,"bytes":%d},{"index":"","shard":-1,"bytes":-1}]`, most, -most),
	}
	for _, payload := range payloads {
		for _, expires := range []int64{soon, ever, 1, -ever} {
			for _, key := range []string{allNodes, "n0", "a node of another fleet", ""} {
				h := []store.Hint{{Kind: "any", Key: key, Expires: expires, Payload: json.RawMessage(payload)}}
				n.applyPlan(h)
				n.applyHistory(h)
				n.applyShards(h)
				p := n.Plan()
				if e := p.MinExponent(cms.DefaultInitialLease); e < 0 || e > 2 {
					t.Fatalf("%s for %q: leases 2^%d times as long", payload, key, e)
				}
				if left := schedule.Estimate(1<<40, p.Throughput); left != nil && !(*left >= 0) {
					t.Fatalf("%s for %q: %v seconds left", payload, key, *left)
				}
				if later := n.now().Add(maxPlanTTL + time.Second); n.plan.expires.After(later) || n.throughput.expires.After(later) {
					t.Fatalf("%s for %q lives until %v", payload, key, n.plan.expires)
				}
			}
		}
	}
}

// TestALeaderGoesOnFromAnyAccount: the record of the leader before cannot be read, or says what cannot be.
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
