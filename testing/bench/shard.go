package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/rfsd/rfsd/testing/outputtest"
)

// Composition of a long shard of 100 GB and 10^9 documents, and of a quarter of it: how often each source's segments are repeated.
const (
	longCopies  = 64 // of single
	tinyCopies  = 96 // of counters
	restartTime = 3 * time.Second
)

// shardFigures measures one shard of 100 GB and 10^9 documents: compared with a quarter of it, interrupted in the middle, and split over
// slots.
func shardFigures(ctx context.Context, o options) ([]figure, error) {
	s, err := cached(o.cache, single)
	if err != nil {
		return nil, unlessAbsent(single, err)
	}
	tiny, err := cached(o.cache, counters)
	if err != nil {
		return nil, unlessAbsent(counters, err)
	}
	dir, err := os.MkdirTemp("", "rfsd-bench-shard-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	long := func(name string, part int) (*source, error) {
		return longShard(ctx, filepath.Join(dir, name), repeats{s, indexName, longCopies / part}, repeats{tiny, indexName, tinyCopies / part})
	}
	quarter, err := long("quarter", 4)
	if err != nil {
		return nil, err
	}
	whole, err := long("whole", 1)
	if err != nil {
		return nil, err
	}
	discard := func(s *source, more ...string) func() (run, error) {
		return func() (run, error) {
			return migration(ctx, o.rfsd, s, "--discard", append([]string{"--discard"}, more...)...)
		}
	}
	runs, err := alternate(min(o.rounds, 3), byTime, discard(quarter), discard(whole), discard(whole, "--slots", "8", "--split-shards-over", "4GiB"))
	if err != nil {
		return nil, err
	}
	part, r, split := runs[0], runs[1], runs[2]
	stop, start, err := inTheMiddle(ctx, o.rfsd, whole, r)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("one shard of %.0f GB and %.2f × 10⁹ documents: ", float64(whole.Bytes)/1e9, float64(whole.Documents)/1e9)
	return []figure{
		{Name: name + "time", Measured: fmt.Sprintf("%.0f s, %.0f CPU s", r.Seconds, r.CPUSeconds), Beside: fmt.Sprintf("four times a quarter of it: %.0f s, %.0f CPU s", 4*part.Seconds, 4*part.CPUSeconds),
			Value: r.Seconds / 4 / part.Seconds, Goal: 1.05, AtMost: true},
		{Name: name + "memory", Measured: fmt.Sprintf("%.1f MB", float64(r.PeakBytes)/mega), Beside: fmt.Sprintf("a quarter of it: %.1f MB", float64(part.PeakBytes)/mega), Value: float64(r.PeakBytes) / mega, Goal: 130, AtMost: true, Unit: "MB"},
		{Name: name + "interrupted in the middle, until the process has ended", Value: stop.Seconds(), Goal: 1, AtMost: true, Unit: "s"},
		{Name: name + "started again, without a document", Measured: fmt.Sprintf("of the first %v", restartTime), Value: start.Seconds(), Goal: 1, AtMost: true, Unit: "s"},
		{Name: name + "8 slots, `--split-shards-over 4GiB`", Measured: fmt.Sprintf("%.0f s, %.0f CPU s, %.1f MB", split.Seconds, split.CPUSeconds, float64(split.PeakBytes)/mega), Beside: fmt.Sprintf("not divided: %.0f s", r.Seconds), Value: r.Seconds / split.Seconds}, // no goal, as in coresFigures
	}, nil
}

// inTheMiddle interrupts a run after half of the time of another run, starts it again, interrupts it once more after restartTime, and lets
// a third process finish. It returns how long the first took to stop, and how much of the second's time was lost, compared with the other
// run.
func inTheMiddle(ctx context.Context, rfsd string, s *source, as run) (stop, start time.Duration, err error) {
	state, err := os.MkdirTemp("", "rfsd-bench-state-")
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	flags := []string{"--repo-uri", "file://" + s.Repo, "--discard", "--coordinator-file", filepath.Join(state, "coordinator.db")}
	first, stop, err := interrupted(ctx, rfsd, state, time.Duration(as.Seconds/2*float64(time.Second)), flags)
	if err != nil {
		return 0, 0, err
	}
	second, _, err := interrupted(ctx, rfsd, state, restartTime, flags)
	if err != nil {
		return 0, 0, err
	}
	if _, err := migrationWith(ctx, rfsd, s, "the rest", state, flags); err != nil {
		return 0, 0, err
	}
	used := float64(second.Totals.Indexed-first.Totals.Indexed) / (float64(as.Documents) / as.Seconds)
	return stop, max(0, restartTime-time.Duration(used*float64(time.Second))), nil
}

// interrupted runs rfsd like migrationWith and sends it SIGTERM after a while. It returns the output of the process and how long it took to
// stop.
func interrupted(ctx context.Context, rfsd, state string, after time.Duration, flags []string) (sum summary, took time.Duration, err error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, rfsd, migrateArguments(state, flags)...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return sum, 0, err
	}
	time.Sleep(after)
	begin := time.Now()
	err = errors.Join(cmd.Process.Signal(syscall.SIGTERM), cmd.Wait())
	took = time.Since(begin)
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 1 {
		return sum, took, fmt.Errorf("interrupted after %v: %w: %s", after, errors.Join(err, errors.New("it did not end with 1")), tail(stderr.Bytes()))
	}
	return sum, took, outputtest.Decode(stdout.Bytes(), &sum)
}
