package diskwatch

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/url"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// fakeTarget has the disks of two nodes.
type fakeTarget struct {
	high   string
	free   atomic.Int64 // of 100 bytes
	status int
	asked  atomic.Int64
}

func (f *fakeTarget) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if f.status != 0 {
		return f.status, []byte(`{"error":"no"}`), nil
	}
	switch path {
	case "/_cluster/settings":
		f.asked.Add(1)
		return 200, []byte(`{"defaults":{"cluster.routing.allocation.disk.watermark.high":"90%"},"persistent":{"cluster.routing.allocation.disk.watermark.high":"` + f.high + `"}}`), nil
	case "/_nodes/stats/fs":
		b, _ := json.Marshal(map[string]any{"nodes": map[string]any{
			"a": map[string]any{"name": "n1", "roles": []string{"data", "ingest"}, "fs": map[string]any{"total": map[string]any{"total_in_bytes": 100, "available_in_bytes": f.free.Load()}}},
			"b": map[string]any{"name": "m", "roles": []string{"cluster_manager"}, "fs": map[string]any{"total": map[string]any{"total_in_bytes": 100, "available_in_bytes": 1}}},
		}})
		return 200, b, nil
	}
	return 404, []byte(`{}`), nil
}

func TestIndexingPausesAboveTheHighWatermarkAndResumesBelow(t *testing.T) {
	for _, high := range []string{"90%", "0.9", "10b"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeTarget{high: high}
			f.free.Store(5)
			d := &Watcher{API: f, Log: slog.New(slog.DiscardHandler)}
			passed := make(chan error, 1)
			go func() { passed <- d.Wait(t.Context()) }()
			time.Sleep(2 * time.Minute) // virtual
			select {
			case err := <-passed:
				t.Fatalf("watermark %s: documents pass: %v", high, err)
			default:
			}

			f.free.Store(20)
			if err := <-passed; err != nil {
				t.Error(err)
			}
			asked := f.asked.Load()
			for range 1000 {
				if err := d.Wait(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if f.asked.Load() > asked+1 {
				t.Errorf("the target was asked %d times by 1000 requests", f.asked.Load()-asked)
			}
			f.free.Store(5)
			time.Sleep(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if err := d.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a lease that ends waits on: %v", err)
			}
		})
	}
}

func TestATargetThatDoesNotTellOfItsDisksIsNotWaitedFor(t *testing.T) {
	d := &Watcher{API: &fakeTarget{status: 403}, Log: slog.New(slog.DiscardHandler)}
	if err := d.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestWatermarksAreReadOrRefused(t *testing.T) {
	for _, c := range []struct {
		in   string
		used float64
		free int64
	}{{"90%", .9, 0}, {"0.85", .85, 0}, {"20gb", 0, 20 << 30}, {"1.5TB", 0, 3 << 39}, {"100%", 1, 0}, {"", 0, 0}, {"x%", 0, 0}, {"7", 0, 0}, {"-1gb", 0, 0}} {
		l, err := parseLimit(c.in)
		if bad := c.used == 0 && c.free == 0; bad != (err != nil) || !bad && (l.used != c.used || l.free != c.free) {
			t.Errorf("%q: %+v, %v", c.in, l, err)
		}
	}
}
