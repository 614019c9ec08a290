package fleet

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/store"
)

// workOf returns a session of so many indices of so many shards in which workers record progress and begin and end leases.
func workOf(indices, shards int, rng *rand.Rand) (r *progress.Reading, work func(n int)) {
	r = &progress.Reading{At: time.UnixMilli(start), Intent: progress.Intent{State: "run"}, Repository: "s3://snapshots/prod", Snapshot: "snap1"}
	for i := range indices {
		index := fmt.Sprintf("logs-2026.%06d", i)
		sizes := make([]int64, shards)
		for n := range shards {
			sizes[n] = rng.Int64N(50 << 30)
			r.Items = append(r.Items, cms.NewItem(cms.ItemID{Index: index, Shard: n}.String(), "ip-10-0-3-17_pid4242_k3jx9q", 3))
		}
		body, _ := json.Marshal(map[string]any{"name": index, "shards": shards, "locator": map[string]any{"naming": map[string]any{"index": index}, "bytes": sizes}})
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

// TestReading_TravelsWithinItsBudget reckons the bytes that a node receives that shows the leader's readings, all that a fleet of 500
// nodes sends while operators watch ten of them, and the age of what these show.
func TestReading_TravelsWithinItsBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("hundreds of thousands of items; run without -short")
	}
	const (
		nodes    = 500
		asked    = 10      // nodes that operators watch
		each     = 3       // seconds between two looks of a node
		question = 6 << 10 // bytes of a connection and a question
		greatest = 200_000 // bytes a second of one node
	)
	for _, c := range []struct{ indices, shards int }{{50, 20}, {5000, 20}, {200_000, 1}} {
		t.Run(fmt.Sprintf("%d indices, %d shards", c.indices, c.indices*c.shards), func(t *testing.T) {
			r, work := workOf(c.indices, c.shards, rand.New(rand.NewPCG(1, 1)))
			work(3 * len(r.Items)) // in the middle of the migration
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			packed, err := mirror.Pack(r)
			if err != nil {
				t.Fatal(err)
			}
			runtime.ReadMemStats(&after)
			is, err := mirror.Unpack(packed)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := r.Sum()
			if got, _ := is.Sum(); !reflect.DeepEqual(got, want) {
				t.Error("a node shows another state than the store has")
			}
			pages := 4 + (len(r.Items)+len(r.Indices))/pageOfRead
			took := time.Duration(pages) * readTook
			pause := took + max(3*time.Second, 4*took)
			rate := float64(len(packed))/pause.Seconds() + question/each
			all := rate * float64(store.Voters(nodes)-1+asked)
			oldest := pause + took + each*time.Second
			t.Logf("%d bytes every %v, %.0f bytes a second, %.0f of the whole fleet, at most %v old; packing allocated %d MB", len(packed), pause, rate, all, oldest, (after.TotalAlloc-before.TotalAlloc)>>20)
			if rate > greatest || oldest > 3*time.Minute {
				t.Errorf("%.0f bytes a second, %v old", rate, oldest)
			}
		})
	}
}
