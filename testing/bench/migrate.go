package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// run is one measured migration.
type run struct {
	Name string `json:"name"`
	usage
	Documents       int64 `json:"documents"`
	SourceBytes     int64 `json:"source_bytes"`
	RepositoryBytes int64 `json:"repository_bytes"`
	Requests        int64 `json:"repository_requests"`
	Resent          int64 `json:"documents_resent"`
	Retried         int64 `json:"requests_retried"`
}

// summary is what rfsd reports with --output json.
type summary struct {
	Complete bool
	Totals   struct {
		Live, Indexed, Failed, Bytes int64
	}
	RepositoryBytes int64 `json:"repository_bytes"`
	Requests        int64 `json:"repository_requests"`
	Resent          int64 `json:"documents_resent"`
	Retried         int64 `json:"requests_retried"`
}

// migration runs rfsd on the source with the given destination flags, its state in a directory of its own.
// A run that does not deliver every document is an error, not a figure.
func migration(ctx context.Context, rfsd string, s *source, name string, destination ...string) (run, error) {
	state, err := os.MkdirTemp("", "rfsd-bench-state-")
	if err != nil {
		return run{}, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	args := append([]string{
		"migrate", "--repo-uri", "file://" + s.Repo, "--snapshot-name", snapshotName, "--session-name", "bench",
		"--coordinator-file", filepath.Join(state, "coordinator.db"), "--failed-documents", filepath.Join(state, "failed"),
		"--log-level", "warn", "--output", "json",
	}, destination...)
	out, u, err := measured(ctx, rfsd, args...)
	if err != nil {
		return run{}, fmt.Errorf("%s: %w", name, err)
	}
	var sum summary
	if err := json.Unmarshal(out, &sum); err != nil {
		return run{}, fmt.Errorf("%s: summary: %w: %.300s", name, err, out)
	}
	if !sum.Complete || sum.Totals.Indexed != int64(s.Documents) || sum.Totals.Bytes != s.Bytes {
		return run{}, fmt.Errorf("%s: %d documents of %d bytes arrived (complete: %v), indexed were %d of %d",
			name, sum.Totals.Indexed, sum.Totals.Bytes, sum.Complete, s.Documents, s.Bytes)
	}
	return run{
		Name: name, usage: u, Documents: sum.Totals.Indexed, SourceBytes: sum.Totals.Bytes,
		RepositoryBytes: sum.RepositoryBytes, Requests: sum.Requests, Resent: sum.Resent, Retried: sum.Retried,
	}, nil
}

// byCPU and byTime are what makes a round the best: alone, the work it takes; into a cluster, how long it lasts.
func byCPU(r run) float64  { return r.CPUSeconds }
func byTime(r run) float64 { return r.Seconds }

// best repeats a measurement and gives the run with the least cost. The largest peak of all rounds is kept:
// memory is a bound, not a best case. Sent again and retried are kept in the same way.
func best(rounds int, cost func(run) float64, measure func() (run, error)) (run, error) {
	var b run
	for round := range rounds {
		r, err := measure()
		if err != nil {
			return r, err
		}
		worst := run{usage: usage{PeakBytes: max(b.PeakBytes, r.PeakBytes)}, Resent: max(b.Resent, r.Resent), Retried: max(b.Retried, r.Retried)}
		if round == 0 || cost(r) < cost(b) {
			b = r
		}
		b.PeakBytes, b.Resent, b.Retried = worst.PeakBytes, worst.Resent, worst.Retried
	}
	return b, nil
}
