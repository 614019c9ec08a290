package diskwatch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
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
			defer d.Start(t.Context())()
			passed := make(chan error, 1)
			go func() { passed <- d.Wait(t.Context()) }()
			time.Sleep(2 * time.Minute) // virtual
			select {
			case err := <-passed:
				t.Fatalf("watermark %s: documents pass: %v", high, err)
			default:
			}
			if got, want := d.Held(), "the target's node n1 is 95 % full, above its high watermark of "+high+": free or add disk space there"; !strings.Contains(got, want) {
				t.Errorf("held %q, want %q", got, want)
			}

			f.free.Store(20)
			if err := <-passed; err != nil || d.Held() != "" {
				t.Errorf("%v, held %q", err, d.Held())
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
	defer d.Start(t.Context())()
	if err := d.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// hangingTarget does not answer from some time on.
type hangingTarget struct {
	*fakeTarget
	hangs atomic.Bool
	held  atomic.Int64 // for how long the last request was, in ns
}

func (h *hangingTarget) Do(ctx context.Context, method, path string, q url.Values, body []byte) (int, []byte, error) {
	if !h.hangs.Load() {
		return h.fakeTarget.Do(ctx, method, path, q, body)
	}
	begin := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(2 * time.Minute): // the limit of the client
	}
	h.held.Store(int64(time.Since(begin)))
	return 0, nil, fmt.Errorf("no answer: %w", fault.ErrUnavailable)
}

// TestWatcher_NodeThatDoesNotAnswer: no request waits for a reading, and the last result stays in force. A reading is given up after
// 8 s.
func TestWatcher_NodeThatDoesNotAnswer(t *testing.T) {
	for _, c := range []struct {
		name string
		free int64
		want time.Duration // that a request with 20 s of time waits
	}{
		{"the disks had room", 50, 0},
		{"a disk was full", 5, 20 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &hangingTarget{fakeTarget: &fakeTarget{high: "90%"}}
				h.free.Store(c.free)
				d := &Watcher{API: h, Log: slog.New(slog.DiscardHandler)}
				stop := d.Start(t.Context())
				h.hangs.Store(true)
				for range 100 {
					begin := time.Now()
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					_ = d.Wait(ctx)
					cancel()
					if waited := time.Since(begin); waited != c.want {
						t.Fatalf("a request waited %v, want %v", waited, c.want)
					}
					time.Sleep(time.Second)
				}
				if held := time.Duration(h.held.Load()); held != readTimeout {
					t.Errorf("a reading was given up after %v", held)
				}
				begin := time.Now()
				stop()
				if waited := time.Since(begin); waited != 0 {
					t.Errorf("the goroutine ended after %v", waited)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) { // from the beginning
		h := &hangingTarget{}
		h.hangs.Store(true)
		begin := time.Now()
		defer (&Watcher{API: h, Log: slog.New(slog.DiscardHandler)}).Start(t.Context())()
		if waited := time.Since(begin); waited != readTimeout {
			t.Errorf("the start waited %v", waited)
		}
	})
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
