// Package diskwatch pauses the load while a data node of the target is above its high disk watermark.
package diskwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
)

// API sends requests to the target cluster; an error means that there was no response.
type API interface {
	Do(ctx context.Context, method, path string, query url.Values, body []byte) (status int, answer []byte, err error)
}

// Watcher blocks the load while a data node of the target is above its high disk watermark. It reads the
// disk usage on demand: at most once per interval, four times as often while a disk is full.
type Watcher struct {
	API      API
	Log      *slog.Logger
	Interval time.Duration // default 30 s

	mu     sync.Mutex
	asked  time.Time
	full   []Full
	denied bool // the user may not read the disk usage
}

// Full is a node above the high watermark.
type Full struct {
	Node      string  `json:"node"`
	Used      float64 `json:"used"` // share, 0 to 1
	Watermark string  `json:"high_watermark"`
}

// Wait blocks until documents may be sent, or returns the context's error. If disk usage cannot be read (missing
// permission) it does not block; the target still rejects writes at its flood stage.
func (w *Watcher) Wait(ctx context.Context) error {
	for {
		full, every := w.look(ctx)
		if len(full) == 0 {
			return ctx.Err()
		}
		t := time.NewTimer(every/4 + rand.N(every/4+1)) // sooner than otherwise, since a request waits
		select {
		case <-ctx.Done():
			t.Stop()
			return ctx.Err()
		case <-t.C:
		}
	}
}

// Look reads the disk usage unless that was done lately, so that the first documents need not wait for it.
func (w *Watcher) Look(ctx context.Context) { w.look(ctx) }

func (w *Watcher) look(ctx context.Context) ([]Full, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	every := w.Interval
	if every <= 0 {
		every = 30 * time.Second
	}
	fresh := every * 3 / 4
	if len(w.full) > 0 {
		fresh = every / 4
	}
	if w.denied || !w.asked.IsZero() && time.Since(w.asked) < fresh {
		return w.full, every
	}
	w.asked = time.Now()
	full, err := FullNodes(ctx, w.API)
	switch {
	case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
		return w.full, every // keep the former result
	case err != nil:
		w.denied, w.full = true, nil
		w.Log.WarnContext(ctx, "disk_usage_unreadable", "reason", fault.Text(err))
		return nil, every
	}
	switch {
	case len(full) > 0 && len(w.full) == 0:
		w.Log.WarnContext(ctx, "indexing_paused", "reason", "a node of the target is above its high disk watermark", "node", full[0].Node, "used_percent", int(100*full[0].Used), "watermark", full[0].Watermark)
	case len(full) == 0 && len(w.full) > 0:
		w.Log.InfoContext(ctx, "indexing_resumed", "reason", "every node of the target is below its high disk watermark")
	}
	w.full = full
	return full, every
}

// FullNodes returns the data nodes that are above the high watermark, sorted by name.
func FullNodes(ctx context.Context, api API) ([]Full, error) {
	mark, on, err := watermark(ctx, api)
	if err != nil || !on {
		return nil, err
	}
	var stats struct {
		Nodes map[string]struct {
			Name  string   `json:"name"`
			Roles []string `json:"roles"`
			FS    struct {
				Total struct {
					Total     int64 `json:"total_in_bytes"`
					Available int64 `json:"available_in_bytes"`
				} `json:"total"`
			} `json:"fs"`
		} `json:"nodes"`
	}
	q := url.Values{"filter_path": {"nodes.*.name,nodes.*.roles,nodes.*.fs.total"}}
	if err := get(ctx, api, "/_nodes/stats/fs", q, &stats); err != nil {
		return nil, err
	}
	var full []Full
	for _, n := range stats.Nodes {
		isData := slices.ContainsFunc(n.Roles, func(r string) bool { return strings.HasPrefix(r, "data") })
		if t := n.FS.Total; isData && t.Total > 0 && mark.above(t.Total, t.Available) {
			full = append(full, Full{Node: n.Name, Used: 1 - float64(t.Available)/float64(t.Total), Watermark: mark.text})
		}
	}
	slices.SortFunc(full, func(a, b Full) int { return strings.Compare(a.Node, b.Node) })
	return full, nil
}

// limit is a watermark: the ratio of the disk that may be used, or the bytes that must be free.
type limit struct {
	text string
	used float64
	free int64
}

func (l limit) above(total, available int64) bool {
	if l.free > 0 {
		return available < l.free
	}
	return float64(total-available) > l.used*float64(total)
}

// watermark returns the high watermark, and false if the threshold is disabled.
func watermark(ctx context.Context, api API) (limit, bool, error) {
	const prefix = "cluster.routing.allocation.disk"
	value, err := Settings(ctx, api, prefix)
	if err != nil {
		return limit{}, false, err
	}
	if value(prefix+".threshold_enabled", "true") == "false" {
		return limit{}, false, nil
	}
	l, err := parseLimit(value(prefix+".watermark.high", "90%"))
	return l, true, err
}

// Settings reads the cluster settings below the prefixes and returns a function for the effective value of a
// setting: transient before persistent before the default. It requests nested objects, since filter_path does
// not match flat names.
func Settings(ctx context.Context, api API, prefixes ...string) (func(name, otherwise string) string, error) {
	var paths []string
	for _, p := range prefixes {
		paths = append(paths, "*."+p)
	}
	var all map[string]map[string]any
	q := url.Values{"include_defaults": {"true"}, "filter_path": {strings.Join(paths, ",")}}
	if err := get(ctx, api, "/_cluster/settings", q, &all); err != nil {
		return nil, err
	}
	return func(name, otherwise string) string {
		for _, level := range []string{"transient", "persistent", "defaults"} {
			if v, ok := lookUp(all[level], name); ok {
				return fmt.Sprint(v)
			}
		}
		return otherwise
	}, nil
}

// lookUp resolves a dotted name in nested objects; keys may contain dots.
func lookUp(m map[string]any, name string) (any, bool) {
	if v, ok := m[name]; ok {
		_, object := v.(map[string]any)
		return v, !object
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := m[name[:i]].(map[string]any); ok {
			if v, ok := lookUp(inner, name[i+1:]); ok {
				return v, true
			}
		}
	}
	return nil, false
}

// parseLimit reads "90%", "0.9" (both: used) or "20gb" (free).
func parseLimit(s string) (limit, error) {
	l := limit{text: s}
	text := strings.ToLower(strings.TrimSpace(s))
	if p, ok := strings.CutSuffix(text, "%"); ok {
		f, err := strconv.ParseFloat(p, 64)
		if err == nil && f >= 0 && f <= 100 {
			l.used = f / 100
			return l, nil
		}
	} else if f, err := strconv.ParseFloat(text, 64); err == nil && f >= 0 && f <= 1 {
		l.used = f
		return l, nil
	}
	for _, u := range []struct {
		name string
		size float64
	}{{"pb", 1 << 50}, {"tb", 1 << 40}, {"gb", 1 << 30}, {"mb", 1 << 20}, {"kb", 1 << 10}, {"b", 1}} {
		if n, ok := strings.CutSuffix(text, u.name); ok {
			f, err := strconv.ParseFloat(n, 64)
			if err == nil && f >= 0 && f*u.size < 1<<62 {
				l.free = max(1, int64(f*u.size))
				return l, nil
			}
		}
	}
	return l, fmt.Errorf("invalid disk watermark %q: want a percentage, a ratio or bytes: %w", s, fault.ErrConfig)
}

func get(ctx context.Context, api API, path string, q url.Values, out any) error {
	status, b, err := api.Do(ctx, http.MethodGet, path, q, nil)
	if err != nil {
		return err
	}
	return fault.Decode("GET "+path, status, b, out)
}
