// Package diskwatch pauses the load while a data node of the target is above its high disk watermark.
package diskwatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/base/wait"
)

// Defaults of a Watcher.
const (
	defaultInterval = 30 * time.Second
	readTimeout     = 8 * time.Second // for all requests of one reading
)

// Watcher blocks the load while a data node of the target is above its high disk watermark. While requests arrive, a goroutine reads
// the disk usage: at most about once per interval, two to four times as often while a disk is full. Requests use the last result and
// never wait for a reading, so that a node that does not answer delays none of them.
type Watcher struct {
	API      rest.API
	Log      *slog.Logger
	Interval time.Duration // default 30 s

	once    sync.Once
	result  atomic.Pointer[result]
	waiting atomic.Int64  // calls of Wait that block
	wanted  chan struct{} // signalled by each request; run waits for it before the next reading
}

// result is the result of one reading.
type result struct {
	full []Full
	next chan struct{} // closed when a newer result exists
}

// Full is a node above the high watermark.
type Full struct {
	Node      string  `json:"node"`
	Used      float64 `json:"used"` // fraction of the disk, 0 to 1
	Watermark string  `json:"high_watermark"`
}

func (w *Watcher) init() {
	w.once.Do(func() {
		w.wanted = make(chan struct{}, 1)
		w.result.Store(&result{next: make(chan struct{})})
	})
}

// Start starts the goroutine, and blocks until its first reading has succeeded or failed, at most 8 s. stop ends the goroutine
// and blocks until it has ended.
func (w *Watcher) Start(ctx context.Context) (stop func()) {
	w.init()
	first := w.result.Load().next
	run, cancel := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.run(run)
	}()
	select {
	case <-first:
	case <-ctx.Done():
	}
	return func() {
		cancel()
		<-ended
	}
}

// Wait blocks until no disk is full, or returns the error of ctx. If the disk usage cannot be read (missing
// permission) it does not block; the target still rejects writes at its flood stage.
func (w *Watcher) Wait(ctx context.Context) error {
	w.init()
	for {
		is := w.result.Load()
		select {
		case w.wanted <- struct{}{}:
		default:
		}
		if len(is.full) == 0 {
			return ctx.Err()
		}
		w.waiting.Add(1)
		select {
		case <-ctx.Done():
			w.waiting.Add(-1)
			return ctx.Err()
		case <-is.next:
			w.waiting.Add(-1)
		}
	}
}

// Held returns why Wait blocks, with the remedy; "" if no call of it blocks.
func (w *Watcher) Held() string {
	w.init()
	full := w.result.Load().full
	if len(full) == 0 || w.waiting.Load() == 0 {
		return ""
	}
	others := ""
	if n := len(full) - 1; n > 0 {
		others = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("indexing is paused, because the disk of the target's node %s%s is %d %% full, above its high watermark of %s: free or add disk space there; sending continues by itself (--ignore-disks sends nevertheless)",
		full[0].Node, others, int(100*full[0].Used), full[0].Watermark)
}

// run reads the disk usage until ctx is done, or the target does not permit it.
func (w *Watcher) run(ctx context.Context) {
	every := w.Interval
	if every <= 0 {
		every = defaultInterval
	}
	for {
		before := w.result.Load().full
		full, permitted := w.read(ctx, before)
		last := w.result.Swap(&result{full: full, next: make(chan struct{})})
		close(last.next)
		if !permitted {
			return
		}
		pause := every * 3 / 4
		if len(full) > 0 {
			pause = every/4 + rand.N(every/4+1) // sooner, since requests wait
		}
		if wait.For(ctx, pause) != nil {
			return
		}
		select {
		case <-w.wanted:
		case <-ctx.Done():
			return
		}
	}
}

// read returns the nodes that are above the high watermark, or before if the target does not answer. permitted is false after any
// other error, such as a missing permission.
func (w *Watcher) read(ctx context.Context, before []Full) (full []Full, permitted bool) {
	limited, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	full, err := FullNodes(limited, w.API)
	switch {
	case errors.Is(err, fault.ErrUnavailable) || limited.Err() != nil:
		return before, true
	case err != nil:
		w.Log.WarnContext(ctx, "disk usage unreadable", "reason", fault.Text(err))
		return nil, false
	case len(full) > 0 && len(before) == 0:
		w.Log.WarnContext(ctx, "indexing paused", "reason", "a node of the target is above its high disk watermark", "node", full[0].Node, "used_percent", int(100*full[0].Used), "watermark", full[0].Watermark)
	case len(full) == 0 && len(before) > 0:
		w.Log.InfoContext(ctx, "indexing resumed", "reason", "every node of the target is below its high disk watermark")
	}
	return full, true
}

// FullNodes returns the data nodes that are above the high watermark, sorted by name.
func FullNodes(ctx context.Context, api rest.API) ([]Full, error) {
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
	if err := rest.Get(ctx, api, "/_nodes/stats/fs", q, &stats); err != nil {
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

// limit is a watermark: the fraction of the disk that may be used, or the bytes that must be free.
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
func watermark(ctx context.Context, api rest.API) (limit, bool, error) {
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

// Settings reads the cluster settings below the prefixes. It returns a function for the effective value of a setting: transient,
// else persistent, else the default, else otherwise. It requests nested objects, since filter_path does not match flat names.
func Settings(ctx context.Context, api rest.API, prefixes ...string) (func(name, otherwise string) string, error) {
	var paths []string
	for _, p := range prefixes {
		paths = append(paths, "*."+p)
	}
	var all map[string]map[string]any
	q := url.Values{"include_defaults": {"true"}, "filter_path": {strings.Join(paths, ",")}}
	if err := rest.Get(ctx, api, "/_cluster/settings", q, &all); err != nil {
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

// parseLimit parses "90%" or "0.9", the used fraction, or "20gb", the free bytes.
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
