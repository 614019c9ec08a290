package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/testing/bench/corpus"
)

func stored(c corpus.Kind, codec, from string) kind {
	return kind{Corpus: c, Codec: codec, Cluster: from, Shards: ordinaryShards, Documents: c.Usual()}
}

// Sources of the parts.
var (
	mixed    = stored(corpus.Mixed, "default", ordinaryCluster)
	deflated = kind{Corpus: corpus.Mixed, Codec: "best_compression", Cluster: ordinaryCluster, Shards: ordinaryShards, Documents: 110_000}
	single   = kind{Corpus: corpus.Mixed, Codec: "default", Cluster: ordinaryCluster, Shards: 1, Documents: 1_130_000}
	giants   = kind{Corpus: corpus.Giant, Codec: "default", Cluster: ordinaryCluster, Shards: 1, Documents: corpus.Giant.Usual()}
	shards   = kind{Corpus: corpus.Tiny, Codec: "default", Cluster: ordinaryCluster, Shards: 10, Documents: 1000}

	counters = kind{Corpus: corpus.Tiny, Codec: "default", Cluster: ordinaryCluster, Shards: 1, Documents: 10_000_000, Merged: true}

	tiniest = kind{Corpus: corpus.Tiny, Codec: "default", Cluster: ordinaryCluster, Shards: 20, Documents: 100}
)

// lengths are the rows of the part reading by length of documents, with the goals of the whole program and of the pipeline alone; 0: no
// goal.
var lengths = []struct {
	name         string
	kind         kind
	whole, alone float64
}{
	{"LZ4, 0.9 KB", mixed, 1.2, 1.5},
	{"LZ4, 4 KB", stored(corpus.Wide, "default", ordinaryCluster), 1.5, 0},
	{"LZ4, 1 MB", stored(corpus.Long, "default", ordinaryCluster), 1.5, 0},
	{"LZ4, 0.3 KB", stored(corpus.Logs, "default", ordinaryCluster), 1.2, 0},
	{"LZ4, 39 bytes", stored(corpus.Tiny, "default", ordinaryCluster), 1, 0},
}

// prepare creates all sources that are not in the cache. The other parts skip rows without a source.
func prepare(ctx context.Context, o options) error {
	all := userSources(o.only)
	for _, c := range lengths {
		if strings.HasPrefix(c.name, o.only) {
			all = append(all, c.kind)
		}
	}
	if o.only == "" {
		all = append(all, shards, tiniest, single, counters, deflated, giants)
	}
	return provide(ctx, o.cache, all...)
}

// absent reports whether the source of a row is missing.
func absent(k kind, err error) bool {
	if isAbsent(err) {
		progress("not measured: %s is not in the cache; -part sources makes it", k.folder())
	}
	return isAbsent(err)
}

// unlessAbsent returns err, or nil if a source is missing.
func unlessAbsent(k kind, err error) error {
	if absent(k, err) {
		return nil
	}
	return err
}

// readingFigures compares the bytes read per CPU second with Lucene, for each codec and for each length of documents.
func readingFigures(ctx context.Context, o options) ([]figure, error) {
	all, err := codecFigures(ctx, o)
	if err != nil {
		return all, err
	}
	for _, c := range lengths {
		if !strings.HasPrefix(c.name, o.only) {
			continue
		}
		s, err := cached(o.cache, c.kind)
		if absent(c.kind, err) {
			continue
		}
		if err != nil {
			return all, err
		}
		progress("%s", c.name)
		r, err := readLong(ctx, o, s)
		if err != nil {
			return all, fmt.Errorf("%s: %w", c.name, err)
		}
		if r.Lucene == nil {
			return all, errors.New(r.NotRun[0])
		}
		rate := func(seconds float64) float64 { return float64(r.Source.Bytes) / mega / seconds }
		limit := fmt.Sprintf("Lucene %s: %.0f", r.version, rate(r.Lucene.CPUSeconds))
		add := func(name string, x run, goal float64) {
			all = append(all, figure{Name: c.name + ", " + name, Measured: fmt.Sprintf("%.0f MB per CPU second", rate(x.CPUSeconds)), Beside: limit,
				Value: r.Lucene.CPUSeconds / x.CPUSeconds, Goal: goal})
		}
		add("`--discard`", r.Runs[1], c.whole)
		add("the pipeline alone", r.Runs[0], cmp.Or(c.alone, c.whole))
		if c.kind == mixed {
			once, err := alternate(o.rounds, byCPU, func() (run, error) { return discarded(ctx, o.rfsd, s) })
			if err != nil {
				return all, err
			}
			all = append(all, figure{Name: "195 MB, `--discard`, CPU of the process", Measured: fmt.Sprintf("%.2f s in all", once[0].Seconds), Value: once[0].CPUSeconds, Goal: 0.4, AtMost: true, Unit: "s"})
		}
	}
	return all, nil
}

// readLong measures a source that is repeated for a long run.
func readLong(ctx context.Context, o options, s *source) (*report, error) {
	dir, err := os.MkdirTemp("", "rfsd-bench-reading-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	long, err := s.repeated(dir)
	if err != nil {
		return nil, err
	}
	r := &report{Source: *long}
	return r, r.reading(ctx, o, long)
}

// coresFigures compares one shard on two cores with one core and with two processes on one core each, and a split shard with an unsplit
// one.
func coresFigures(ctx context.Context, o options) (all []figure, err error) {
	for _, c := range []struct {
		name string
		kind kind
	}{{"LZ4", single}, {"DEFLATE", deflated}} {
		s, err := cached(o.cache, c.kind)
		if absent(c.kind, err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		f, err := twoCores(ctx, o, c.name, s)
		if err != nil {
			return nil, err
		}
		all = append(all, f)
	}
	whole, err := cached(o.cache, single)
	if err != nil {
		return all, unlessAbsent(single, err)
	}
	discard := func(further ...string) func() (run, error) {
		return func() (run, error) {
			return migration(ctx, o.rfsd, whole, "--discard", append([]string{"--discard", "--slots", "2"}, further...)...)
		}
	}
	runs, err := alternate(o.rounds, byTime, discard(), discard("--split-shards-over", "64MiB"))
	if err != nil {
		return nil, err
	}
	// No goal: one unsplit shard already uses all cores of a machine. Splitting is for several machines.
	return append(all, figure{Name: "one shard, two slots, `--split-shards-over 64MiB`", Measured: fmt.Sprintf("%.2f s, %.2f CPU s", runs[1].Seconds, runs[1].CPUSeconds),
		Beside: fmt.Sprintf("not split: %.2f s, %.2f CPU s", runs[0].Seconds, runs[0].CPUSeconds), Value: runs[0].Seconds / runs[1].Seconds}), nil
}

// twoCores compares the pipeline over a source on two cores with one core, and with two processes on one core each.
func twoCores(ctx context.Context, o options, name string, s *source) (f figure, err error) {
	var readers []*pipelineReader
	defer func() {
		for _, p := range readers {
			err = errors.Join(err, p.close())
		}
	}()
	for _, cores := range []int{1, 1, 2} {
		p, err := startPipeline(ctx, s, cores)
		if err != nil {
			return figure{}, err
		}
		readers = append(readers, p)
	}
	timed := func(readers ...*pipelineReader) func() (run, error) {
		return func() (run, error) {
			done := make(chan error, len(readers))
			begin := time.Now()
			for _, p := range readers {
				go func() {
					_, err := p.round()
					done <- err
				}()
			}
			var err error
			for range readers {
				err = errors.Join(err, <-done)
			}
			return run{usage: usage{Seconds: time.Since(begin).Seconds() / float64(len(readers))}}, err
		}
	}
	runs, err := alternate(o.rounds, byTime, timed(readers[0]), timed(readers[:2]...), timed(readers[2]))
	if err != nil {
		return figure{}, err
	}
	rate := func(r run) float64 { return float64(s.Bytes) / mega / r.Seconds }
	return figure{Name: "one shard on two cores, " + name, Measured: fmt.Sprintf("%.0f MB/s; on one %.0f", rate(runs[2]), rate(runs[0])),
		Beside: fmt.Sprintf("two processes of one core: %.0f", rate(runs[1])), Value: rate(runs[2]) / rate(runs[1]), Goal: 0.9}, nil
}

// memoryFigures measures the peak resident size.
func memoryFigures(ctx context.Context, o options) ([]figure, error) {
	s, err := cached(o.cache, mixed)
	if err != nil {
		return nil, unlessAbsent(mixed, err)
	}
	peak := func(name string, rounds int, s *source, goal float64) (figure, error) {
		r, err := alternate(rounds, byCPU, func() (run, error) { return migration(ctx, o.rfsd, s, "--discard", "--discard") })
		if err != nil {
			return figure{}, fmt.Errorf("%s: %w", name, err)
		}
		return figure{Name: name, Measured: fmt.Sprintf("%.1f s, %.2f CPU s", r[0].Seconds, r[0].CPUSeconds), Value: float64(r[0].PeakBytes) / mega, Goal: goal, AtMost: true, Unit: "MB"}, nil
	}
	small, err := peak("memory: 195 MB", o.rounds, s, 120)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-large-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const copies = 103
	if err := multiply(s, dir, copies, true); err != nil {
		return nil, err
	}
	large := *s
	large.Repo, large.Documents, large.Bytes = dir, s.Documents*copies, s.Bytes*copies
	big, err := peak(fmt.Sprintf("memory: %.0f GB (%d indices with the same files)", float64(large.Bytes)/1e9, copies), 1, &large, 130)
	if err != nil {
		return nil, err
	}
	if s, err = cached(o.cache, giants); err != nil {
		return []figure{small, big}, unlessAbsent(giants, err)
	}
	giant, err := peak("memory: documents of 100 MB", 3, s, 400)
	return []figure{small, big, giant}, err
}

// latencyFigures compares a bucket with a latency of 50 ms with one without.
func latencyFigures(ctx context.Context, o options) ([]figure, error) {
	s, err := cached(o.cache, single)
	if err != nil {
		return nil, unlessAbsent(single, err)
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "bench", "AWS_SECRET_ACCESS_KEY": "bench"} {
		if err := os.Setenv(name, value); err != nil {
			return nil, err
		}
	}
	from := func(after time.Duration) (func() (run, error), func()) {
		server := httptest.NewServer(bucket{s.Repo, after})
		return func() (run, error) {
			return migrationFrom(ctx, o.rfsd, s, "--discard", []string{"--repo-uri", "s3://" + bucketName, "--s3-endpoint", server.URL, "--s3-path-style", "--s3-region", "us-east-1"}, "--discard")
		}, server.Close
	}
	quick, stop := from(0)
	defer stop()
	slow, stop := from(50 * time.Millisecond)
	defer stop()
	runs, err := alternate(o.rounds, byTime, quick, slow)
	if err != nil {
		return nil, err
	}
	return []figure{{Name: fmt.Sprintf("one shard of %.1f GB from a bucket with 50 ms per request", float64(s.Bytes)/1e9),
		Measured: fmt.Sprintf("%.2f s, %d requests", runs[1].Seconds, runs[1].Requests), Beside: fmt.Sprintf("without latency: %.2f s", runs[0].Seconds),
		Value: runs[0].Seconds / runs[1].Seconds, Goal: 0.6}}, nil
}

// planFigures measures `rfsd plan` with very many shards.
func planFigures(ctx context.Context, o options) ([]figure, error) {
	s, err := cached(o.cache, shards)
	if err != nil {
		return nil, unlessAbsent(shards, err)
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-plan-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	const indices = 10_000
	if err := multiply(s, dir, indices, false); err != nil {
		return nil, err
	}
	runs, err := alternate(min(o.rounds, 3), byCPU, func() (run, error) {
		_, u, err := measured(ctx, o.rfsd, "plan", "--repo-uri", "file://"+dir, "--snapshot-name", snapshotName, "--output", "json")
		return run{usage: u}, err
	})
	if err != nil {
		return nil, err
	}
	all := float64(indices * shards.Shards)
	return []figure{
		{Name: "plan of 100,000 shards in 10,000 indices, CPU of each shard", Measured: fmt.Sprintf("%.1f s, %.1f CPU s", runs[0].Seconds, runs[0].CPUSeconds), Value: runs[0].CPUSeconds / all * 1000, Goal: 0.1, AtMost: true, Unit: "ms"},
		{Name: "the same, memory", Value: float64(runs[0].PeakBytes) / mega, Goal: 150, AtMost: true, Unit: "MB"},
	}, nil
}

// startRounds is the number of measurements of the start of a worker.
const startRounds = 21

// startFigures measures the time from the start of a worker to its first request.
func startFigures(ctx context.Context, o options) ([]figure, error) {
	s, err := cached(o.cache, mixed)
	if err != nil {
		return nil, unlessAbsent(mixed, err)
	}
	var times []float64
	for range startRounds {
		took, err := firstRequest(ctx, o.rfsd, s)
		if err != nil {
			return nil, err
		}
		times = append(times, took.Seconds()*1000)
	}
	slices.Sort(times)
	return []figure{{Name: "start of `rfsd worker` to its first request", Measured: strconv.Itoa(startRounds) + " starts", Value: times[startRounds/2], Goal: 30, AtMost: true, Unit: "ms"}}, nil
}

// firstRequest starts a worker and waits for its first connection to the target.
func firstRequest(ctx context.Context, rfsd string, s *source) (time.Duration, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer func() { _ = l.Close() }() // it may already be closed
	state, err := os.MkdirTemp("", "rfsd-bench-worker-")
	if err != nil {
		return 0, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, rfsd, "worker", "--repo-uri", "file://"+s.Repo, "--snapshot-name", snapshotName, "--session-name", "bench",
		"--target-host", "http://"+l.Addr().String(), "--failed-documents", filepath.Join(state, "failed"))
	accepted := make(chan time.Time, 1)
	go func() {
		defer close(accepted)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		if _, err := c.Read(make([]byte, 1)); err == nil {
			accepted <- time.Now()
		}
	}()
	begin := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	go func() {
		<-ctx.Done()
		_ = l.Close()
	}()
	at, ok := <-accepted
	stop()
	_ = cmd.Wait() // it was killed
	if !ok {
		return 0, errors.New("the worker sent no request within a minute")
	}
	return at.Sub(begin), nil
}
