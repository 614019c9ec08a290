package e2e

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/failedtest"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/s3server"
)

// refusedKey is one refused document, whichever command lists it.
type refusedKey struct {
	index, id string
	shard     int
	ordinal   int64
}

// inSink are the documents in a sink.
func inSink(t *testing.T, dir string) map[refusedKey]bool {
	t.Helper()
	all := map[refusedKey]bool{}
	for f, err := range failedtest.Read(dir) {
		must(t, err)
		if f.Detail == "" || len(f.Source) == 0 {
			t.Errorf("%s/%s is kept without the target's words or its source", f.Index, f.ID)
		}
		all[refusedKey{f.Index, f.ID, f.Shard, f.Ordinal}] = true
	}
	return all
}

// TestRefusedDocumentsOfAFleetAreInItsSinksOrTheControlIndex has workers with different sinks. One of them is killed after some of its
// documents were rejected.
func TestRefusedDocumentsOfAFleetAreInItsSinksOrTheControlIndex(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	var allow []string
	all := Run(t, "rfsd", "migrate", "--repo-uri", demo(t), "--snapshot-name", "snap1", "--discard", "--output", "json")
	for _, i := range parseSummary(t, all).Indices {
		if i.Live > 0 { // and each refuses all of its documents
			call(t, n, "PUT", "/"+i.Index, map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
			allow = append(allow, "--index-allowlist", i.Index)
		}
	}
	if len(allow) < 4 {
		t.Fatalf("too few indices: %q", allow)
	}
	p := newProxy(t, n.URL, 100*time.Millisecond)
	// All documents but the first wait until the worker is dead: it cannot end by itself before it is killed.
	var sent atomic.Bool
	dead := make(chan struct{})
	p.held = func(_ string, isBulk bool, _ []byte) <-chan struct{} {
		if isBulk && sent.Swap(true) {
			return dead
		}
		return nil
	}
	release := sync.OnceFunc(func() { close(dead) })
	defer release()
	dir, state := t.TempDir(), t.TempDir()
	must(t, os.Mkdir(filepath.Join(state, "bucket"), 0o700))
	server := s3server.Start(t, state)
	server.Setenv(t)
	own, bucket := filepath.Join(dir, "own"), filepath.Join(state, "bucket", "failed", "sinks")
	args := func(more ...string) []string {
		return workerArgs(p.URL, demo(t), "sinks", append(append([]string{"--max-failed-documents", "unlimited", "--initial-lease-duration", "5s",
			"--disable-compression"}, allow...), more...)...)
	}
	inDirectory := args("--failed-documents", own)
	inBucket := args("--failed-documents", "s3://bucket/failed", "--s3-endpoint", server.Endpoint, "--s3-region", server.Region, "--s3-path-style")
	limit, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()

	// A worker dies when the first refused document is noted.
	noting := coordinator(t, n, "sinks", 5*time.Second)
	for killed := false; !killed; {
		if limit.Err() != nil {
			t.Fatal("no document is refused")
		}
		ctx, kill := context.WithCancel(limit)
		var watch sync.WaitGroup
		watch.Go(func() {
			for ctx.Err() == nil {
				for _, err := range session.RefusalsOf(noting).All(ctx) {
					if err == nil {
						kill()
					}
					break
				}
				select {
				case <-ctx.Done():
				case <-time.After(20 * time.Millisecond):
				}
			}
		})
		_, told, _ := runWorker(ctx, t, dir, append(inDirectory, "--documents-per-bulk-request", "1"))
		killed = ctx.Err() != nil && !told
		kill()
		watch.Wait()
		if !killed && len(inSink(t, own)) > 0 {
			t.Fatal("the worker ended before it was killed")
		}
	}
	release()
	p.delay.Store(0)
	// Workers with either sink take turns at what is left.
	for turn, over := 0, false; !over; turn++ {
		switch _, _, code := runWorker(limit, t, dir, [][]string{inDirectory, inBucket}[turn%2]); {
		case limit.Err() != nil:
			t.Fatal("the work does not end")
		case code == 3:
			over = true
		case code == 4: // the dead worker's lease is not over
			turn--
			select {
			case <-limit.Done():
			case <-time.After(200 * time.Millisecond):
			}
		case code != 0 && code != 2:
			t.Fatalf("exit %d", code)
		}
	}

	var sums struct {
		Totals status.Sums `json:"totals"`
	}
	store := []string{"--target-host", n.URL, "--session-name", "sinks", "--output", "json"}
	res := Run(t, "rfsctl", append([]string{"items", "list"}, store...)...)
	must(t, outputtest.Decode(res.Stdout, &sums))
	var told struct {
		Documents []session.Refused `json:"documents"`
	}
	res = Run(t, "rfsctl", append([]string{"failures"}, store...)...)
	must(t, outputtest.Decode(res.Stdout, &told))

	local, remote, noted := inSink(t, own), inSink(t, bucket), map[refusedKey]bool{}
	for _, d := range told.Documents {
		k := refusedKey{d.Index, d.ID, d.Shard, d.Ordinal}
		if noted[k] || !local[k] || d.Reason != "strict_dynamic_mapping_exception" {
			t.Errorf("%+v is told twice, or is not in the directory of the worker that met it", d)
		}
		noted[k] = true
	}
	for name, parts := range map[string][]map[refusedKey]bool{"directory and bucket": {local, remote}, "control index and bucket": {noted, remote}} {
		union := map[refusedKey]bool{}
		for _, part := range parts {
			for k := range part {
				union[k] = true
			}
		}
		if int64(len(union)) != sums.Totals.Failed || len(union) == 0 {
			t.Errorf("%s hold %d documents, %d failed", name, len(union), sums.Totals.Failed)
		}
	}
	if len(noted) == 0 || len(remote) == 0 {
		t.Errorf("%d documents are noted, %d in the bucket: each sink should have had work", len(noted), len(remote))
	}
	// A comparison on a machine without the directory takes those from the control index, and the others from the bucket.
	given := append(append([]string{"", "--repo-uri", demo(t), "--snapshot-name", "snap1", "--target-host", n.URL, "--session-name", "sinks", "--output", "json"}, allow...),
		inBucket[len(inBucket)-7:]...)
	compared, report := verified(t, t.TempDir(), given)
	explained := int64(0)
	for _, x := range report.Indices {
		explained += x.Failed
	}
	if compared.Code != 6 || explained != sums.Totals.Failed {
		t.Errorf("a comparison: exit %d, %d documents explained, %d failed\n%s%s", compared.Code, explained, sums.Totals.Failed, notEqual(report), compared.Stderr)
	}
	t.Logf("%d documents failed: %d in the directory, %d in the bucket, %d noted", sums.Totals.Failed, len(local), len(remote), len(noted))
}
