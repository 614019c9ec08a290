package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/testing/rest"
)

// Times of the benchmark of a target under load.
const (
	delayed       = 200 * time.Millisecond // delay of a delayed bulk request
	beforeOutage  = 8 * time.Second        // after the first bulk request
	outage        = time.Minute
	rateWindow    = time.Second
	searchTime    = 20 * time.Second // duration of each part of a round
	searchEvery   = 50 * time.Millisecond
	searchIndex   = "searched"
	searchBodies  = 4         // bodies of about 5,800 documents each
	searchLatency = "50ms"    // value of --target-max-latency
	small         = 256 << 10 // request size while the outage is measured
	searchRequest = `{"size":10,"query":{"multi_match":{"query":"status shipped 200","fields":["*"],"lenient":true}}}`
)

// gate is a proxy of a cluster that can delay bulk requests and reject them for a while.
type gate struct {
	*httptest.Server
	delay time.Duration
	from  time.Duration // start of the rejections, after the first bulk request
	to    time.Duration
	only  string // index whose requests are rejected; "": all

	mu       sync.Mutex
	first    time.Time
	accepted []acceptedBody
	refused  int // number of rejected requests
}

type acceptedBody struct {
	at    time.Duration // after the first bulk request
	bytes int64
	index string // set with gate.only
}

func newGate(to string, g *gate) (*gate, error) {
	u, err := url.Parse(to)
	if err != nil {
		return nil, fmt.Errorf("target URL: %w", err)
	}
	next := httputil.NewSingleHostReverseProxy(u)
	next.Transport = &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	g.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// Requests of the coordination store set require_alias.
		if !strings.HasSuffix(r.URL.Path, "/_bulk") || r.URL.Query().Has("require_alias") {
			next.ServeHTTP(w, r)
			return
		}
		index, err := g.indexOf(r)
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		time.Sleep(g.delay)
		if at := g.at(); at >= g.from && at < g.to && index == g.only {
			g.mu.Lock()
			g.refused++
			g.mu.Unlock()
			_, _ = io.Copy(io.Discard, r.Body) // the content of a rejected request does not matter
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{"type":"circuit_breaking_exception","reason":"refused by the benchmark"},"status":429}`)
			return
		}
		n := r.ContentLength
		next.ServeHTTP(w, r)
		at := g.at()
		g.mu.Lock()
		g.accepted = append(g.accepted, acceptedBody{at, n, index})
		g.mu.Unlock()
	}))
	return g, nil
}

// indexOf returns the index of a bulk request, from the path or the first line of the body; "" unless the requests of one index are
// rejected.
func (g *gate) indexOf(r *http.Request) (string, error) {
	if g.only == "" {
		return "", nil
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if name, named := strings.CutSuffix(strings.TrimPrefix(r.URL.Path, "/"), "/_bulk"); named {
		return name, err
	}
	return string(bulk.FirstIndex(body)), err
}

// at returns the time since the first bulk request.
func (g *gate) at() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.first.IsZero() {
		g.first = time.Now()
	}
	return time.Since(g.first)
}

// rate returns the accepted bytes per second in a period.
func (g *gate) rate(from, to time.Duration) float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	var sum int64
	for _, a := range g.accepted {
		if a.at >= from && a.at < to {
			sum += a.bytes
		}
	}
	return float64(sum) / (to - from).Seconds()
}

// recovery returns the time after the outage until the rate of a window is at least nine tenths of the rate before it.
func (g *gate) recovery() (took time.Duration, before float64, err error) {
	before = g.rate(g.from-4*time.Second, g.from)
	for at := g.to; at < g.to+time.Minute; at += 100 * time.Millisecond {
		if g.rate(at, at+rateWindow) >= 0.9*before {
			return at + rateWindow - g.to, before, nil
		}
	}
	return 0, before, errors.New("the rate of before the refusals did not come back within a minute")
}

// pressed is a target whose load is measured.
type pressed struct {
	o    options
	s    *source
	node rest.Client
}

// press starts a target for a part of the table, which is measured with the source of a kind.
func press(ctx context.Context, o options, of kind, measure func(l *pressed) ([]figure, error)) (all []figure, err error) {
	s, err := cached(o.cache, of)
	if err != nil {
		return nil, unlessAbsent(of, err)
	}
	node, stop := o.targetURL, func() error { return nil }
	if node == "" {
		if node, stop, err = bootTarget(ctx, o.target); err != nil {
			return nil, err
		}
	}
	defer func() { err = errors.Join(err, stop()) }()
	return measure(&pressed{o: o, s: s, node: rest.Client{URL: node}})
}

// run migrates into an empty index through url.
func (l *pressed) run(ctx context.Context, url string, more ...string) (run, error) {
	return l.runFrom(ctx, l.s, url, more...)
}

// runFrom migrates a source of bench, or one created by multiply, into empty indices through url.
func (l *pressed) runFrom(ctx context.Context, s *source, url string, more ...string) (run, error) {
	all := indexName
	for i := range s.Copies - 1 {
		all += "," + copyName(i)
	}
	if err := l.node.JSON(ctx, http.MethodDelete, "/"+all+"?ignore_unavailable=true", nil, nil); err != nil {
		return run{}, err
	}
	return migration(ctx, l.o.rfsd, s, "→ "+url, append([]string{"--target-host", url, "--existing-documents", "overwrite"}, more...)...)
}

// flowFigures measures migrations with slow bulk requests, and how long the rate takes to recover after rejections.
func flowFigures(ctx context.Context, o options) ([]figure, error) {
	return press(ctx, o, deflated, func(l *pressed) ([]figure, error) {
		late, err := newGate(l.node.URL, &gate{delay: delayed})
		if err != nil {
			return nil, err
		}
		defer late.Close()
		size := []string{"--documents-size-per-bulk-request", strconv.Itoa(small) + "B"}
		through := func(more ...string) func() (run, error) {
			return func() (run, error) { return l.run(ctx, late.URL, append(more, size...)...) }
		}
		if _, err := l.run(ctx, l.node.URL); err != nil { // warm
			return nil, err
		}
		runs, err := alternate(o.rounds, byTime, through("--max-connections", "4"), through())
		if err != nil {
			return nil, err
		}
		rate := func(r run) float64 { return float64(r.SourceBytes) / mega / r.Seconds }
		refused, err := newGate(l.node.URL, &gate{delay: delayed, from: beforeOutage, to: beforeOutage + outage})
		if err != nil {
			return nil, err
		}
		defer refused.Close()
		if _, err := l.run(ctx, refused.URL, size...); err != nil {
			return nil, err
		}
		took, before, err := refused.recovery()
		return []figure{
			{Name: fmt.Sprintf("%v before each request of %d KiB into %s", delayed, small>>10, l.o.target), Measured: fmt.Sprintf("%.1f MB/s", rate(runs[1])),
				Beside: fmt.Sprintf("four connections: %.1f", rate(runs[0])), Value: rate(runs[1]) / rate(runs[0]), Goal: 1},
			{Name: fmt.Sprintf("after %v of 429: nine tenths of the rate of before", outage), Measured: fmt.Sprintf("%.1f MB/s before", before/mega), Value: took.Seconds(), Goal: 5, AtMost: true, Unit: "s"},
		}, err
	})
}

// searchFigures measures searches at a fixed rate in another index: without load, during migrations, and during migrations with a latency
// limit.
func searchFigures(ctx context.Context, o options) ([]figure, error) {
	return press(ctx, o, deflated, func(l *pressed) ([]figure, error) {
		if err := l.makeSearched(ctx); err != nil {
			return nil, err
		}
		if _, err := l.searching(ctx, searchTime/2); err != nil { // warm
			return nil, err
		}
		kinds := [][]string{nil, {}, {"--target-max-latency", searchLatency}}
		p99s, rates := make([][]float64, len(kinds)), make([][]float64, len(kinds))
		for range o.rounds {
			for i, options := range kinds {
				p99, rate, err := l.searchDuring(ctx, options)
				if err != nil {
					return nil, err
				}
				p99s[i], rates[i] = append(p99s[i], p99), append(rates[i], rate)
			}
		}
		median := func(all []float64) float64 { slices.Sort(all); return all[len(all)/2] }
		quiet, loaded, limited := median(p99s[0]), median(p99s[1]), median(p99s[2])
		return []figure{{
			Name:     "searches during a migration, excess of p99 with `--target-max-latency " + searchLatency + "`",
			Measured: fmt.Sprintf("p99 %.0f ms, %.1f MB/s", limited, median(rates[2])),
			Beside:   fmt.Sprintf("without it %.0f ms, %.1f MB/s; quiet %.0f ms", loaded, median(rates[1]), quiet),
			Value:    (limited - quiet) / max(loaded-quiet, 1), Goal: 0.5, AtMost: true,
		}}, nil
	})
}

// makeSearched fills the searched index with some of the source's documents.
func (l *pressed) makeSearched(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "rfsd-bench-bodies-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if _, err := migration(ctx, l.o.rfsd, l.s, "preparing bodies", "--export-dir", dir); err != nil {
		return err
	}
	bodies, err := prepareBodies(dir)
	if err != nil {
		return err
	}
	if err := l.node.JSON(ctx, http.MethodPut, "/"+searchIndex, `{"settings":{"number_of_shards":1,"number_of_replicas":0}}`, nil); err != nil {
		return err
	}
	for _, b := range bodies[:min(searchBodies, len(bodies))] {
		b = []byte(strings.ReplaceAll(string(b), `{"index":{"_index":"`+indexName+`"`, `{"index":{"_index":"`+searchIndex+`"`))
		if err := l.node.Bulk(ctx, "/_bulk", b); err != nil {
			return err
		}
	}
	return l.node.JSON(ctx, http.MethodPost, "/"+searchIndex+"/_forcemerge?max_num_segments=1", nil, nil)
}

// searchDuring searches while the source is migrated repeatedly with the options; nil: without load.
func (l *pressed) searchDuring(ctx context.Context, options []string) (p99, rate float64, err error) {
	var searched atomic.Bool
	done := make(chan error, 1)
	g, err := newGate(l.node.URL, &gate{})
	if err != nil {
		return 0, 0, err
	}
	defer g.Close()
	go func() {
		var err error
		for options != nil && err == nil && !searched.Load() {
			_, err = l.run(ctx, g.URL, options...)
		}
		done <- err
	}()
	if options != nil {
		for g.rate(0, time.Hour) == 0 && ctx.Err() == nil && len(done) == 0 { // until the first documents arrive
			time.Sleep(searchEvery)
		}
	}
	begin := g.at()
	p99, err = l.searching(ctx, searchTime)
	rate = g.rate(begin, begin+searchTime) / mega
	searched.Store(true)
	return p99, rate, errors.Join(err, <-done)
}

// searching searches at a fixed rate and returns the 99th percentile of the time since a search was due, in ms.
func (l *pressed) searching(ctx context.Context, d time.Duration) (p99 float64, err error) {
	c := rest.Client{URL: l.node.URL, HTTP: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	var mu sync.Mutex
	var took []float64
	var errs []error
	var all sync.WaitGroup
	begin := time.Now()
	for due := begin; due.Before(begin.Add(d)); due = due.Add(searchEvery) {
		time.Sleep(time.Until(due))
		all.Go(func() {
			_, err := c.Send(ctx, http.MethodPost, "/"+searchIndex+"/_search?request_cache=false", "", []byte(searchRequest))
			mu.Lock()
			defer mu.Unlock()
			took, errs = append(took, float64(time.Since(due).Microseconds())/1e3), append(errs, err)
		})
	}
	all.Wait()
	slices.Sort(took)
	return took[len(took)*99/100], errors.Join(errs...)
}
