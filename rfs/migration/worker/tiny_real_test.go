package worker_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/source/repo"
	servers "github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// wire counts the requests of coordination stores, by method and API, and the updates that lost a race.
type wire struct {
	mu    sync.Mutex
	kinds map[string]int
	spent map[string]time.Duration
	lost  int
}

// counting is the client of one store.
type counting struct {
	*target.Client
	wire *wire
}

func (c counting) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	begin := time.Now()
	status, answer, err := c.Client.Do(ctx, method, path, query, body)
	kind := method
	for part := range strings.SplitSeq(path, "/") {
		if strings.HasPrefix(part, "_") {
			kind += " " + part
		}
	}
	lost := bytes.Count(answer, []byte(`"version_conflict_engine_exception"`)) / 2 // which an answer names as root cause, too
	if kind == "POST _bulk" {
		lost = bytes.Count(answer, []byte(`"status":409`))
	}
	c.wire.mu.Lock()
	defer c.wire.mu.Unlock()
	c.wire.kinds[kind]++
	c.wire.spent[kind] += time.Since(begin)
	c.wire.lost += lost
	return status, answer, err
}

// twofold is a repository whose indices have any number of shards: the even ones are the first, the odd ones the second.
type twofold struct{ repo.Repository }

func (r twofold) name(name string) string {
	parts := strings.SplitN(name, "/", 4)
	if len(parts) < 4 {
		return name
	}
	shard, err := strconv.Atoi(parts[2])
	if err != nil {
		return name
	}
	parts[2] = strconv.Itoa(shard % 2)
	return strings.Join(parts, "/")
}

func (r twofold) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	return r.Repository.Open(ctx, r.name(name), off, n)
}

func (r twofold) Stat(ctx context.Context, name string) (int64, error) {
	return r.Repository.Stat(ctx, r.name(name))
}

// BenchmarkTinyShards runs tiny shards of many indices into indices of one shard each of a real OpenSearch: 2,000 shards by one
// process with two slots, and 200 by 40 that work side by side. The requests to the store include those of the end of a run.
func BenchmarkTinyShards(b *testing.B) {
	b.Run("one process, 2000 shards of 100 indices", func(b *testing.B) { tinyShards(b, 1, 2, 100, 20) })
	b.Run("40 processes, 200 shards of 10 indices", func(b *testing.B) { tinyShards(b, 40, 1, 10, 20) })
}

func tinyShards(b *testing.B, processes, slots, indices, shards int) {
	node := servers.OpenSearch(b, "2.19.4")
	dir, err := repo.NewDir("../../../testing/fixtures/6.8.23-plain")
	if err != nil {
		b.Fatal(err)
	}
	blobs := twofold{dir}
	p, err := plan.New(b.Context(), blobs, plan.Request{SnapshotName: "snap1", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, Sizes: true})
	if err != nil {
		b.Fatal(err)
	}
	of := p.Indices[0]
	of.Entry.Shards = shards
	of.Entry.Bytes = slices.Repeat(of.Entry.Bytes, shards/2)
	of.Entry.Locator.ShardSums = slices.Repeat(of.Entry.Locator.ShardSums, shards/2)
	of.Entry.Locator.Generations = slices.Repeat(of.Entry.Locator.Generations, shards/2)
	for n := 0; b.Loop(); n++ {
		b.StopTimer()
		session := fmt.Sprintf("tiny-%d-%d", time.Now().UnixNano(), n)
		w := &wire{kinds: map[string]int{}, spent: map[string]time.Duration{}}
		p.Indices = nil
		var all []*worker.Migration
		for i := range processes {
			client, err := target.New(b.Context(), target.Config{URL: node.URL, MaxConnections: 10})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = client.Close() })
			all = append(all, tinyMigration(b, w, client, session, fmt.Sprintf("bench%d", i), slots, blobs, p))
		}
		for i := range indices {
			x := of
			x.Name = fmt.Sprintf("%s-%d", session, i)
			x.Entry.Locator.IndexName, x.Entry.Naming = x.Name, plan.Naming{Index: x.Name}
			p.Indices = append(p.Indices, x)
			body := []byte(`{"settings":{"number_of_shards":1,"number_of_replicas":0}}`)
			if status, answer, err := all[0].Targets.(*target.Client).Do(b.Context(), "PUT", "/"+x.Name, nil, body); err != nil || status != 200 {
				b.Fatalf("%d %s %v", status, answer, err)
			}
		}
		if err := errors.Join(all[0].Join(b.Context()), all[0].Through(b.Context(), &retry.Outage{Limit: time.Minute, Now: func() time.Duration { return timing.SystemClock().Read().Mono }})); err != nil {
			b.Fatal(err)
		}
		clear(w.kinds)
		clear(w.spent)
		b.StartTimer()
		begin := time.Now()
		g, ctx := errgroup.WithContext(b.Context())
		for _, m := range all {
			g.Go(func() error {
				sum, err := m.Run(ctx)
				if err == nil && !sum.Complete {
					err = fmt.Errorf("%.300v", sum)
				}
				return err
			})
		}
		if err := g.Wait(); err != nil {
			b.Fatal(err)
		}
		took, requests := time.Since(begin), 0
		for kind, n := range w.kinds {
			requests += n
			b.Logf("%s: %d, %v each", kind, n, w.spent[kind]/time.Duration(n))
		}
		b.ReportMetric(float64(indices*shards)/took.Seconds(), "shards/s")
		b.ReportMetric(float64(requests)/float64(indices*shards), "requests/shard")
		b.ReportMetric(float64(w.lost), "conflicts")
	}
}

// tinyMigration is the migration of one process.
func tinyMigration(b *testing.B, w *wire, client *target.Client, session, holder string, slots int, blobs repo.Repository, p *plan.Plan) *worker.Migration {
	b.Helper()
	store, err := oscms.Open(b.Context(), oscms.Config{Client: counting{client, w}, Session: session})
	if err != nil {
		b.Fatal(err)
	}
	c := cms.New(cms.Config{Store: store, Creator: holder})
	log := slog.New(slog.DiscardHandler)
	return &worker.Migration{Slots: slots, Unavailable: time.Minute, Session: &phase.Session{
		Coordinator: c, Holder: holder, Log: log, Phases: phase.Phases{phase.PhaseDocuments},
		Source: phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return p, nil }},
		Transfer: phase.Transfer{Shards: shards.Reader{Repo: blobs, Log: log}, Runner: &engine.Runner{
			Destination: engine.ToCluster(client, engine.Limits{Connections: 10}), Failed: migrationtest.NoFailures{}, Meter: engine.NewMeter(), Clock: timing.SystemClock(), Log: log,
			Bulk: bulk.Options{Pool: &bulk.Pool{}},
		}},
		Cluster: phase.Cluster{Targets: client, Counts: client, Indices: there{}},
	}}
}

// there is a target whose indices exist.
type there struct{ phase.Indices }

func (there) Absent(context.Context, []string) ([]string, error) { return nil, nil }

func (there) Check(context.Context, *plan.Plan, creation.Owns) error { return nil }
