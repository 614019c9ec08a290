package worker

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/target"
	servers "github.com/rfsd/rfsd/testing/cluster"
)

// wire counts the requests of the coordination store.
type wire struct {
	*target.Client
	requests atomic.Int64
}

func (w *wire) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	w.requests.Add(1)
	return w.Client.Do(ctx, method, path, query, body)
}

// BenchmarkTinyShards runs 100 tiny shards into 25 indices of a real OpenSearch, with two slots. The requests to the store
// include those of the beginning and the end of a run.
func BenchmarkTinyShards(b *testing.B) {
	const sources, targets = 50, 25 // of two shards each; of one
	node := servers.OpenSearch(b, "2.19.4")
	client, err := target.New(b.Context(), target.Config{URL: node.URL, MaxConnections: 10})
	if err != nil {
		b.Fatal(err)
	}
	defer client.Close()
	blobs, err := repo.NewDir("../../testing/fixtures/6.8.23-plain")
	if err != nil {
		b.Fatal(err)
	}
	plan, err := NewPlan(b.Context(), blobs, Request{SnapshotName: "snap1", MultiType: SplitTypes, EmitType: EmitAuto, Sizes: true})
	if err != nil {
		b.Fatal(err)
	}
	of := plan.Indices[0]
	for n := 0; b.Loop(); n++ {
		session := fmt.Sprintf("tiny-%d-%d", time.Now().UnixNano(), n)
		w := &wire{Client: client}
		store, err := oscms.Open(b.Context(), oscms.Config{Client: w, Session: session})
		if err != nil {
			b.Fatal(err)
		}
		c, err := cms.New(cms.Config{Store: store, Creator: "bench"})
		if err != nil {
			b.Fatal(err)
		}
		plan.Indices = nil
		for i := range sources {
			x := of
			x.Name = fmt.Sprintf("%s-%d", session, i)
			x.Entry.Locator.IndexName, x.Entry.Naming = x.Name, Naming{Index: fmt.Sprintf("%s-of-%d", session, i%targets)}
			plan.Indices = append(plan.Indices, x)
		}
		for i := range targets {
			body := []byte(`{"settings":{"number_of_shards":1,"number_of_replicas":0}}`)
			if status, answer, err := client.Do(b.Context(), "PUT", fmt.Sprintf("/%s-of-%d", session, i), nil, body); err != nil || status != 200 {
				b.Fatalf("%d %s %v", status, answer, err)
			}
		}
		log := slog.New(slog.DiscardHandler)
		m := &Migration{Slots: 2, Unavailable: time.Minute, Session: &Session{
			Coordinator: c, Holder: "bench", Log: log, Phases: Phases{PhaseDocuments}, Targets: client, Counts: client, Indices: there{},
			Plan: func(context.Context, string) (*Plan, error) { return plan, nil },
			Runner: &Runner{
				Repo: blobs, Destination: ToCluster(client, Limits{Connections: 10}), Failed: noFailures{}, Meter: NewMeter(), Clock: cms.SystemClock(), Log: log,
				Bulk: bulk.Options{Pool: &bulk.Pool{}},
			},
		}}
		if err := m.Join(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := m.throughPhases(b.Context()); err != nil {
			b.Fatal(err)
		}
		before := w.requests.Load()
		b.ResetTimer()
		begin := time.Now()
		sum, err := m.Run(b.Context())
		if err != nil || !sum.Complete {
			b.Fatalf("%.300v, %v", sum, err)
		}
		shards := 2.0 * sources
		b.ReportMetric(shards/time.Since(begin).Seconds(), "shards/s")
		b.ReportMetric(float64(w.requests.Load()-before)/shards, "requests/shard")
	}
}

// there is a target whose indices exist.
type there struct{ Indices }

func (there) Absent(context.Context, []string) ([]string, error) { return nil, nil }

func (there) Check(context.Context, *Plan) error { return nil }
