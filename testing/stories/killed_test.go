package stories

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/s3server"
)

// bucketState starts a server with a bucket, and returns the directory of the bucket and the options that keep the state of the work in its
// folder state.
func bucketState(t *testing.T) (dir string, options []string) {
	root := t.TempDir()
	dir = filepath.Join(root, "bucket")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	server := s3server.Start(t, root)
	server.Setenv(t)
	return dir, []string{"--coordinator-bucket", "s3://bucket/state", "--coordinator-s3-endpoint", server.Endpoint, "--coordinator-s3-region", server.Region, "--coordinator-s3-path-style"}
}

// TestKilled_TheNextRunFreesTheLeases kills a command that holds leases in a bucket, and runs a command that continues its work: it ends
// long before the leases expire, however the snapshot is named.
func TestKilled_TheNextRunFreesTheLeases(t *testing.T) {
	demo, err := fixture()
	if err != nil {
		t.Fatal(err)
	}
	history := historyRepository(t)
	migrate := []string{"migrate", "--snapshot-name", "snap1", "--repo-uri"}
	follow := []string{"follow", "--once", "--index-allowlist", "grows", "--repo-uri", history, "--snapshot-name"}
	for _, c := range []struct {
		name         string
		command      []string
		killed, next string // last argument
	}{
		{"the same command", migrate, demo, demo},
		{"another spelling of the repository", migrate, demo, "file://" + demo + "/"},
		{"a later snapshot of a followed cluster", follow, "snap-1", "snap-3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			_, state := bucketState(t)
			run := func(k kill, last string) result {
				return w.run(k, "rfsd", slices.Concat(c.command, []string{last, "--target-host", w.url, "--session-name", "killed", "--documents-per-bulk-request", "1", "--max-connections", "1"}, state)...)
			}
			if r := run(kill{at: 30}, c.killed); r.code != -1 || !strings.Contains(r.output, "index created") {
				t.Fatalf("exit %d before it was killed:\n%s", r.code, r.output)
			}
			for _, freed := range []bool{true, false} { // a run that is complete leaves no lease
				if r := run(kill{}, c.next); r.code != 0 || strings.Contains(r.output, "leases of a dead process are freed") != freed {
					t.Errorf("exit %d, want leases freed: %t\n%s", r.code, freed, r.output)
				}
			}
		})
	}
}
