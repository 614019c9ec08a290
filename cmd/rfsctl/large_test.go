package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/repotest"
)

// entries is how many a large catalog of a test has; RFSD_ENTRIES sets another number (300000 at night).
func entries(t *testing.T) int {
	t.Helper()
	if s := os.Getenv("RFSD_ENTRIES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return 10_000
}

// largeCatalog writes a repository whose catalog lists many snapshots, and many indices of the last one. Nothing else is there.
func largeCatalog(t *testing.T, snapshots, indices int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	var b bytes.Buffer
	b.WriteString(`{"min_version":"7.12.0","snapshots":[`)
	for i := range snapshots {
		fmt.Fprintf(&b, `{"name":"s%d","uuid":"%022d","state":1,"version":"7.17.29"},`, i, i)
	}
	fmt.Fprintf(&b, `{"name":"last","uuid":"last-uuid","state":1,"version":"7.17.29"}],"indices":{`)
	listed := make([]string, indices)
	for i := range indices {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"i%d":{"id":"id%d","snapshots":["last-uuid"],"shard_generations":["g"]}`, i, i)
		listed[i] = fmt.Sprintf("i%d", i)
	}
	b.WriteString(`}}`)
	repotest.Put(t, dir, "index-0", b.Bytes())
	repotest.Put(t, dir, "index.latest", make([]byte, 8))
	info, err := json.Marshal(map[string]any{"snapshot": map[string]any{"name": "last", "uuid": "last-uuid", "state": "SUCCESS", "indices": listed}})
	if err != nil {
		t.Fatal(err)
	}
	repotest.Put(t, dir, "snap-last-uuid.dat", repotest.Frame("snapshot", string(info)))
	return dir
}

// TestLargeCatalogs_AreReadInTime checks that finding a missing blob of a partially copied repository takes a fraction of a second,
// regardless of the length of the catalog.
func TestLargeCatalogs_AreReadInTime(t *testing.T) {
	n := entries(t)
	listed, copied := largeCatalog(t, n, 1), largeCatalog(t, 1, n*2/3)
	for _, args := range [][]string{{"list", listed}, {"list", copied}, {"check", listed}, {"check", copied}} {
		began := time.Now()
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"rfsctl", "snapshot", args[0], "--repo-uri", args[1]}, &stdout, &stderr)
		took := time.Since(began)
		t.Logf("%s of %d entries: %.1f s, exit code %d", args[0], n, took.Seconds(), code)
		if most := 20*time.Second + time.Duration(n)*time.Millisecond; took > most {
			t.Errorf("%s took %v", args[0], took)
		}
		if stdout.Len() == 0 {
			t.Errorf("%s printed nothing: %s", args[0], stderr.String())
		}
	}
}

// TestInterruption_EndsEachCommand cancels commands while they read a large catalog.
func TestInterruption_EndsEachCommand(t *testing.T) {
	n := entries(t)
	dir := largeCatalog(t, n/3, n/2)
	for _, command := range []string{"list", "check", "show"} {
		for _, after := range []time.Duration{time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second} {
			ctx, cancel := context.WithTimeout(t.Context(), after)
			args := []string{"rfsctl", "snapshot", command, "--repo-uri", dir}
			if command != "list" {
				args = append(args, "--snapshot-name", "last")
			}
			began := time.Now()
			code := run(ctx, args, io.Discard, io.Discard)
			late := time.Since(began) - after
			cancel()
			t.Logf("%s, interrupted after %v: ended %v later with exit code %d", command, after, late, code)
			if late > 5*time.Second { // one of them on an idle machine
				t.Errorf("%s went on for %v", command, late)
			}
		}
	}
}

// TestList_NamesWhatIsWrongBelowTheTable takes the blob of a snapshot away.
func TestList_NamesWhatIsWrongBelowTheTable(t *testing.T) {
	dir, blobs := unpack(t, "opensearch-2.19")
	for _, blob := range blobs {
		if strings.HasPrefix(blob, "snap-") {
			if err := os.Remove(filepath.Join(dir, blob)); err != nil {
				t.Fatal(err)
			}
			break
		}
	}
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"rfsctl", "snapshot", "list", "--repo-uri", dir}, &stdout, &stderr); code != exit.OK {
		t.Fatalf("exit code %d: %s", code, stderr.String())
	}
	lines := strings.Split(strings.TrimSpace(stdout.String()), "\n")
	if len(lines) != 4 || !strings.Contains(lines[3], "the blob is missing") {
		t.Fatalf("%s", stdout.String())
	}
	damaged := 0
	for _, line := range lines[1:3] {
		cells := strings.Fields(line)
		if len(line) > 100 || len(cells) < 5 {
			t.Errorf("the row is %q", line)
		} else if cells[1] == "DAMAGED" {
			damaged++
		}
	}
	if damaged != 1 {
		t.Errorf("%d snapshots are damaged: %s", damaged, stdout.String())
	}
}

// TestMissingBlobs_ReadTheCatalogOnce counts how often it is read when the metadata of many indices is missing.
func TestMissingBlobs_ReadTheCatalogOnce(t *testing.T) {
	dir := largeCatalog(t, 0, 50)
	at, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var log []repo.Request
	r := repo.NewCounting(at)
	r.Log(&log)
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	s, err := catalog.Snapshot(t.Context(), "last")
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range s.Indices {
		loc, _, ok := s.Located(ref.Name)
		if !ok {
			t.Fatalf("%s is not located", ref.Name)
		}
		if _, err := snapshot.OpenShard(t.Context(), r, loc, 0); err == nil {
			t.Fatal("a shard without a manifest was opened")
		}
		if _, err := loc.Index(t.Context(), r); err == nil {
			t.Fatal("an index without metadata was read")
		}
	}
	reads := 0
	for _, q := range log {
		if q.Verb == "open" && q.Name == "index-0" {
			reads++
		}
	}
	if reads > 4 { // each of two readings of the catalog looks at its length and reads it
		t.Errorf("the catalog was read %d times", reads)
	}
}
