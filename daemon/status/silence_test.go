package status_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// TestSum_SilenceOfImportsAndStreams: the items of both show when a process last reported, and their holders.
func TestSum_SilenceOfImportsAndStreams(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	ms := func(ago time.Duration) int64 { return now.Add(-ago).UnixMilli() }
	record := func(id, kind string, body any) cms.Record {
		t.Helper()
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		return cms.Record{ID: id, Kind: kind, State: "RUNNING", Body: b}
	}
	const task = `{"v":3,"kind":"import","file":"a.ndjson","size":100,"from":0,"to":100}`
	kinds := map[string]progress.Reading{
		"import": {Kind: importer.Kind, Seeded: true,
			Items: []cms.Item{{ID: cms.ItemID{Kind: importer.Kind, Index: "import"}.String(), Kind: importer.Kind, Task: task}}},
		"stream": {Kind: consume.Kind, Seeded: true, Phases: []cms.Record{
			record("consume:state", consume.Kind, map[string]any{"v": 1, "topic": "orders", "group": "g", "begins": []int64{0}}),
			record("consume:plan", consume.Kind, consume.Plan{Version: 1, Ends: []int64{7}, Nodes: []consume.Node{{Token: "a", Partitions: []int{0}}}})},
			Items: []cms.Item{{ID: cms.ItemID{Kind: consume.Kind, Index: "orders"}.String(), Kind: consume.Kind}}},
	}
	for _, c := range []struct {
		name               string
		acquired, reported time.Duration // ago
		until              time.Duration // of the lease, from now on
		state              string
		silent             float64
		holders            int
	}{
		{"a process reports", 10 * time.Minute, 5 * time.Second, time.Minute, progress.StateWorking, 0, 1},
		{"a process has just started", 5 * time.Second, time.Hour, time.Minute, progress.StateWorking, 0, 1},
		{"nothing was reported for a while", 10 * time.Minute, 45 * time.Second, time.Minute, progress.StateSilent, 45, 1},
		{"the lease is over", 10 * time.Minute, 5 * time.Minute, -time.Minute, progress.StateWaiting, 300, 0},
	} {
		for kind, r := range kinds {
			t.Run(kind+"/"+c.name, func(t *testing.T) {
				it := r.Items[0]
				it.Holder, it.Expiration, it.AcquiredAt, it.ReportedAt = "h", now.Add(c.until).Unix(), ms(c.acquired), ms(c.reported)
				r.At, r.Items = now, []cms.Item{it}
				m, _, err := status.Sum(&r)
				if err != nil {
					t.Fatal(err)
				}
				x := progress.Measure{Lag: progress.RecordLag}
				x.Add(0, m.Totals.Work())
				if v := x.View(0, m); v.State != c.state || v.Silent != c.silent || len(m.Holders) != c.holders {
					t.Errorf("%s, silent for %v s, holders %v; want %s, %v", v.State, v.Silent, m.Holders, c.state, c.silent)
				}
			})
		}
	}
}
