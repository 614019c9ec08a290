package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/store"
)

// workOf returns a session of so many items in which workers record progress and begin and end leases.
func workOf(items int, rng *rand.Rand) (r *progress.Reading, work func(n int)) {
	r = &progress.Reading{At: time.UnixMilli(start), Intent: progress.Intent{State: "run"}, Repository: "s3://snapshots/prod", Snapshot: "snap1"}
	const each = 20
	for i := range items / each {
		index := fmt.Sprintf("logs-2026.%04d", i)
		sizes := make([]int64, each)
		for n := range each {
			sizes[n] = rng.Int64N(50 << 30)
			r.Items = append(r.Items, cms.NewItem(cms.ItemID{Index: index, Shard: n}.String(), "ip-10-0-3-17_pid4242_k3jx9q", 3))
		}
		body, _ := json.Marshal(map[string]any{"name": index, "shards": each, "locator": map[string]any{"naming": map[string]any{"index": index}, "bytes": sizes}})
		r.Indices = append(r.Indices, cms.Record{ID: "index:" + index, State: "COMPLETED", Body: body})
	}
	return r, func(n int) {
		for range n {
			it := &r.Items[rng.IntN(len(r.Items))]
			switch now := r.At.Unix(); {
			case !it.Open():
			case it.Holder == "" || rng.IntN(12) == 0:
				it.Holder = fmt.Sprintf("ip-10-0-%d-%d_pid%d_w%d_%06x", rng.IntN(4), rng.IntN(250), rng.IntN(30000), rng.IntN(40), rng.IntN(1<<24))
				it.AcquiredAt, it.Expiration, it.Checks = r.At.UnixMilli(), now+9600, fmt.Sprintf(`[{"ordinals":%d}]`, rng.IntN(1e9))
			case rng.IntN(6) == 0:
				it.CompletedAt = now
			default:
				done := rng.Int64N(1e6)
				it.Watermark += done
				it.Counts = it.Counts.Add(cms.Counts{Ordinals: done, Live: done, Indexed: done, Bytes: 1000*done + rng.Int64N(1000)})
			}
		}
	}
}

// TestTheLeadersReadingTravelsWithinItsBudget counts the bytes that a fleet of 500 nodes sends for 100,000 items, and the age of
// what a node shows. The items change as often as the budgets of the fleet allow.
func TestTheLeadersReadingTravelsWithinItsBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("a hundred thousand items; run without -short")
	}
	const (
		items    = 100_000
		minutes  = 5
		nodes    = 500
		changed  = 30 + 3*3  // items a second: progress, and leases that begin, end and are handed on
		asked    = 10        // nodes that operators watch
		each     = 3         // seconds between two looks of a node
		frame    = 80        // bytes of a hint beside key and payload
		request  = 6 << 10   // bytes of a connection and a question
		unasked  = 200 << 10 // bytes a second of all nodes that are not asked
		greatest = 1_000_000 // bytes a second
	)
	pages := 4 + items/pageOfRead
	took := time.Duration(pages) * readTook
	r, work := workOf(items, rand.New(rand.NewPCG(1, 1)))
	work(items) // in the middle of the migration
	leader, other := &mirror.Copy{}, &mirror.Copy{}
	var now, due, oldest time.Duration
	total, whole := 0, 0
	take := func(parts []mirror.Part) (bytes int) {
		for _, p := range parts {
			bytes += len(p.Key) + len(p.Payload) + frame
			for _, c := range []*mirror.Copy{leader, other} {
				c.Put(p.Key, p.Payload, r.At.Add(p.TTL))
			}
		}
		return bytes
	}
	shown := time.UnixMilli(start)
	for ; now < minutes*time.Minute; now += time.Second {
		work(changed)
		if now >= due {
			r.At = time.UnixMilli(start).Add(now)
			parts, err := leader.Changes(r, r.At)
			if err != nil {
				t.Fatal(err)
			}
			bytes := take(parts)
			if now == 0 {
				whole, bytes = bytes, 0 // once
			}
			total += bytes * (store.Voters(nodes) - 1 + asked)
			due = now + took + max(3*time.Second, 4*took)
			oldest = max(oldest, r.At.Sub(shown)+took+each*time.Second)
			shown = r.At
		}
		if now%(each*time.Second) == 0 {
			total += asked * request
		}
		if now%time.Minute == 0 {
			total += whole // another node is asked for the first time
		}
		total += unasked
	}
	parts, err := leader.Changes(r, r.At)
	if err != nil {
		t.Fatal(err)
	}
	take(parts)
	is, err := other.Reading()
	if err != nil {
		t.Fatal(err)
	}
	want, _ := r.Sum()
	if got, _ := is.Sum(); !reflect.DeepEqual(got, want) {
		t.Error("a node shows another state than the store has")
	}
	rate := float64(total) / now.Seconds()
	t.Logf("%d items: whole %d bytes, %.0f bytes a second of the whole fleet, at most %v old", items, whole, rate, oldest)
	if rate > greatest || oldest > time.Minute {
		t.Errorf("%.0f bytes a second, %v old", rate, oldest)
	}
}
