package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rfsd/rfsd/testing/outputtest"
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

// summary is the JSON output of rfsd.
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

// migration runs rfsd on the source with the given destination flags, with its state in a directory of its own. It returns an error unless
// every document is delivered.
func migration(ctx context.Context, rfsd string, s *source, name string, destination ...string) (run, error) {
	return migrationFrom(ctx, rfsd, s, name, []string{"--repo-uri", "file://" + s.Repo}, destination...)
}

// migrationFrom is like migration, with the flags that name the repository.
func migrationFrom(ctx context.Context, rfsd string, s *source, name string, repository []string, destination ...string) (run, error) {
	state, err := os.MkdirTemp("", "rfsd-bench-state-")
	if err != nil {
		return run{}, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	return migrationWith(ctx, rfsd, s, name, state, slices.Concat(repository, destination, []string{"--coordinator-file", filepath.Join(state, "coordinator.db")}))
}

// discarded runs rfsd on the source with --discard, which keeps temporary state only.
func discarded(ctx context.Context, rfsd string, s *source) (run, error) {
	state, err := os.MkdirTemp("", "rfsd-bench-state-")
	if err != nil {
		return run{}, err
	}
	defer func() { _ = os.RemoveAll(state) }()
	return migrationWith(ctx, rfsd, s, "--discard", state, []string{"--repo-uri", "file://" + s.Repo, "--discard"})
}

// migrationWith is like migration, with all flags for repository, destination and coordination; files are written to the directory state.
func migrationWith(ctx context.Context, rfsd string, s *source, name, state string, flags []string) (run, error) {
	out, u, err := measured(ctx, rfsd, migrateArguments(state, flags)...)
	if err != nil {
		return run{}, fmt.Errorf("%s: %w", name, err)
	}
	var sum summary
	if err := outputtest.Decode(out, &sum); err != nil {
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

// migrateArguments returns the arguments of a migration from the snapshot of a source, unless rfsd creates the snapshot itself.
func migrateArguments(state string, flags []string) []string {
	args := []string{"migrate", "--session-name", "bench", "--failed-documents", filepath.Join(state, "failed"), "--log-level", "warn", "--output", "json"}
	if !slices.Contains(flags, "--source-host") {
		args = append(args, "--snapshot-name", snapshotName)
	}
	return append(args, flags...)
}

// byCPU and byTime are the criteria for comparing rounds: CPU time for reading, elapsed time into a cluster.
func byCPU(r run) float64  { return r.CPUSeconds }
func byTime(r run) float64 { return r.Seconds }

// alternate runs rounds of all measurements in turn and returns the median of each. It keeps the maximum of all rounds for peak memory,
// resent documents and retries.
func alternate(rounds int, cost func(run) float64, measures ...func() (run, error)) ([]run, error) {
	done := make([][]run, len(measures))
	for range rounds {
		for i, measure := range measures {
			r, err := measure()
			if err != nil {
				return nil, err
			}
			done[i] = append(done[i], r)
		}
	}
	medians := make([]run, len(measures))
	for i, all := range done {
		medians[i] = median(all, cost)
	}
	return medians, nil
}

// median returns the run whose cost is the median, the lower one of two.
func median(all []run, cost func(run) float64) run {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b run) int { return cmp.Compare(cost(a), cost(b)) })
	m := sorted[(len(sorted)-1)/2]
	for _, r := range all {
		m.PeakBytes, m.Resent, m.Retried = max(m.PeakBytes, r.PeakBytes), max(m.Resent, r.Resent), max(m.Retried, r.Retried)
	}
	return m
}
