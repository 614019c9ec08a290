package e2e

import (
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

// TestPinnedSnapshotsArriveWithTheirTranslog follows two snapshots of a cluster that nothing had refreshed: the last inserts, updates and
// deletions, and all documents of an index, are in the translog of its remote store alone. What arrives is what a refresh made searchable
// at the source. Each round is killed again and again; round 1 sends what differs, which the numbers of operations determine.
func TestPinnedSnapshotsArriveWithTheirTranslog(t *testing.T) {
	for _, version := range targets {
		for _, source := range []string{"os2.19.4-translog", "os3.8.0-translog", "os3.9.0-translog"} {
			t.Run(source+" to "+version, func(t *testing.T) {
				n := cluster.OpenSearch(t, version)
				wipe(t, n)
				repo, dir := fixture(t, source), t.TempDir()
				p := newProxy(t, n.URL, 20*time.Millisecond)
				for i, snapshot := range []string{"snap-1", "snap-2"} {
					args := followArgs(p.URL, repo, snapshot, "--documents-per-bulk-request", "3", "--slots", "2", "--max-connections", "2")
					for range 3 {
						before := p.bulks.Load()
						killAfter(t, dir, args, func() bool { return p.bulks.Load() >= before+2 })
					}
					sum := round(t, dir, args)
					if sum.Round.Number != i || !sum.Round.Arrived {
						t.Errorf("round %d: %+v", i, sum.Round)
					}
					t.Logf("%s: %+v, %+v", snapshot, sum.Totals, sum.Changes)
					holds(t, n, repo, snapshot)
				}
				wipe(t, n)
				args := []string{"migrate", "--repo-uri", repo, "--snapshot-name", "snap-2", "--target-host", n.URL, "--output", "json"}
				if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 0 {
					t.Fatalf("exit %d: %s", r.Code, r.Stderr)
				}
				res, report := verified(t, dir, args)
				want, err := truth.Load(false, repo+".snap-2.ndjson.gz")
				must(t, err)
				documents := 0
				for _, x := range report.Indices {
					documents += int(x.SourceSide.Documents)
				}
				if res.Code != 0 || documents != len(want) {
					t.Errorf("exit %d, %d documents compared of %d\n%s", res.Code, documents, len(want), notEqual(report))
				}
			})
		}
	}
}
