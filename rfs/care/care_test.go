package care

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// fakeTarget keeps settings of indices and disks of nodes.
type fakeTarget struct {
	indices map[string]map[string]string
	high    string
	free    atomic.Int64 // of 100 bytes
	status  int
	fail    int // the next so many puts break before they are applied
	asked   atomic.Int64
}

func (f *fakeTarget) Do(_ context.Context, method, path string, _ url.Values, body []byte) (int, []byte, error) {
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
	name := strings.TrimSuffix(strings.TrimPrefix(path, "/"), "/_settings")
	x := f.indices[name]
	if x == nil {
		return 404, []byte(`{}`), nil
	}
	if method == http.MethodPut {
		if f.fail > 0 {
			f.fail--
			return 0, nil, fault.ErrUnavailable
		}
		var set map[string]*string
		if err := json.Unmarshal(body, &set); err != nil {
			return 400, nil, nil
		}
		for k, v := range set {
			if v == nil {
				delete(x, k)
			} else {
				x[k] = *v
			}
		}
		return 200, []byte(`{}`), nil
	}
	b, _ := json.Marshal(map[string]any{name: map[string]any{"settings": x}})
	return 200, b, nil
}

func tuner(t *testing.T, f *fakeTarget) *Tuner {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c, err := cms.New(cms.Config{Store: store, Creator: "t"})
	if err != nil {
		t.Fatal(err)
	}
	return &Tuner{API: f, Records: c, Log: slog.New(slog.DiscardHandler)}
}

func TestTunedSettingsComeBackAsTheyWereAndOnlyThose(t *testing.T) {
	f := &fakeTarget{indices: map[string]map[string]string{
		"a": {"index.uuid": "ua", "index.number_of_replicas": "2"},
		"b": {"index.uuid": "ub", "index.number_of_replicas": "1", "index.refresh_interval": "5s"},
		"c": {"index.uuid": "uc", "index.number_of_replicas": "1"},
		"d": {"index.uuid": "ud", "index.number_of_replicas": "1"},
	}}
	tn := tuner(t, f)
	for range 2 { // a worker that comes back does it again: what was first recorded counts
		if err := tn.Tune(t.Context(), []string{"a", "b", "c", "d"}); err != nil {
			t.Fatal(err)
		}
	}
	if x := f.indices["a"]; x["index.number_of_replicas"] != "0" || x["index.refresh_interval"] != "-1" {
		t.Errorf("a is not tuned: %v", x)
	}
	f.indices["b"]["index.number_of_replicas"] = "3" // an operator changed it meanwhile
	delete(f.indices, "c")
	f.indices["d"]["index.uuid"] = "another"
	f.fail = 1
	if _, err := tn.Restore(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a broken request is no error: %v", err)
	}
	if _, err := tn.Restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	if x := f.indices["a"]; x["index.number_of_replicas"] != "2" || x["index.refresh_interval"] != "" {
		t.Errorf("a: %v", x)
	}
	if x := f.indices["b"]; x["index.number_of_replicas"] != "3" || x["index.refresh_interval"] != "5s" {
		t.Errorf("b: %v", x)
	}
	if x := f.indices["d"]; x["index.number_of_replicas"] != "0" {
		t.Errorf("an index that is not the one that was tuned was changed: %v", x)
	}
	if again, err := tn.Restore(t.Context()); err != nil || len(again) != 0 {
		t.Errorf("restored twice: %+v, %v", again, err)
	}
}

func TestIndexingPausesAboveTheHighWatermarkAndResumesBelow(t *testing.T) {
	for _, high := range []string{"90%", "0.9", "10b"} {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeTarget{high: high}
			f.free.Store(5)
			d := &Disks{API: f, Log: slog.New(slog.DiscardHandler)}
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
	d := &Disks{API: &fakeTarget{status: 403}, Log: slog.New(slog.DiscardHandler)}
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
