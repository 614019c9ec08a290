package main

import (
	"bytes"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/check"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/repotest"
)

// generations are small repositories made by real clusters.
var generations = []string{"elasticsearch-1.7", "elasticsearch-5.6", "opensearch-2.19"}

func unpack(t *testing.T, name string) (dir string, blobs []string) {
	t.Helper()
	return repotest.Unpack(t, filepath.Join("..", "..", "rfs", "source", "check", "testdata", name+".zip"))
}

func TestCommandsGiveTheirExitCodesAndForms(t *testing.T) {
	dir, blobs := unpack(t, "opensearch-2.19")
	try := func(want exit.Code, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"rfsctl", "snapshot"}, args...)
		if code := run(t.Context(), args, &stdout, &stderr); code != want {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	var list struct {
		Snapshots []struct {
			Name    string
			Indices []string
		}
	}
	if err := outputtest.Decode(try(0, "list", "--repo-uri", dir, "--output", "json"), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Snapshots) != 2 || !slices.Equal(list.Snapshots[0].Indices, []string{"hp", "hp2"}) {
		t.Errorf("list: %+v", list)
	}
	if table := try(0, "list", "--repo-uri", "file://"+dir); !strings.Contains(table, "SUCCESS") {
		t.Errorf("list: %s", table)
	}
	if table := try(0, "show", "--repo-uri", dir, "--snapshot-name", "snap-1"); !strings.Contains(table, "Lucene90StoredFields") {
		t.Errorf("show: %s", table)
	}
	try(1, "show", "--repo-uri", dir, "--snapshot-name", "none")
	try(1, "check", "--repo-uri", dir, "--snapshot-name", "none")
	try(1, "check", "--repo-uri", dir, "--read-data-subset", "all")
	try(1, "check", "--repo-uri", filepath.Join(dir, "indices"))
	try(1, "list", "--repo-uri", dir, "--output", "xml")
	try(1, "list")
	if table := try(0, "check", "--repo-uri", dir); !strings.HasSuffix(table, "0 findings\n") {
		t.Errorf("check: %s", table)
	}
	var out check.Report
	if err := outputtest.Decode(try(0, "check", "--repo-uri", dir, "--output", "json", "--snapshot-name", "snap-2"), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Snapshots) != 1 || len(out.Findings) != 0 || out.FilesRead == 0 {
		t.Errorf("check: %+v", out)
	}
	repotest.Put(t, dir, "strange", []byte("x"))
	try(exit.OK, "check", "--repo-uri", dir)
	repotest.Put(t, dir, blobs[slices.IndexFunc(blobs, func(s string) bool { return strings.Contains(s, "/__") })], []byte("short"))
	try(exit.Snapshot, "check", "--repo-uri", dir)
	repotest.Put(t, dir, "index-9", []byte("{"))
	try(exit.Snapshot, "check", "--repo-uri", dir)
}

func TestCheck_Subset(t *testing.T) {
	for _, bad := range []string{"", "1", "2/1", "1/0", "-1/2", "a/b", "1/2/3", "99999999999/99999999999"} {
		part, _ := config.Find(config.Settings(config.CheckSnapshots{}), "read-data-subset")
		if err := part.Valid([]string{bad}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("--read-data-subset %q: %v", bad, err)
		}
	}
}

func TestBundledSnapshotsAreWholeButForWhatTheySayTheyLack(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "..", "testing", "fixtures", "*", "index.latest"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no bundled snapshots: %v", err)
	}
	lacking := 0
	for _, latest := range dirs {
		dir := filepath.Dir(latest)
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"rfsctl", "snapshot", "check", "--repo-uri", dir, "--output", "json"}, &stdout, &stderr)
		var out check.Report
		if err := outputtest.Decode(stdout.Bytes(), &out); err != nil {
			t.Fatalf("%v: %s", err, stderr.String())
		}
		want := exit.OK
		for _, s := range out.Snapshots {
			if s.State != string(snapshot.Success) {
				want = exit.Parts
				lacking++
				show(t, dir, s.Name)
			}
		}
		if code != want {
			t.Errorf("%s: exit code %d, %+v", dir, code, out.Findings)
		}
	}
	if lacking == 0 {
		t.Error("no snapshot lacked a shard")
	}
}

// show demands that a snapshot that lacks shards can be shown, and that it says which.
func show(t *testing.T, dir, name string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", name}, &stdout, &stderr); code != 0 {
		t.Errorf("show %s of %s: exit code %d, %s%s", name, dir, code, stdout.String(), stderr.String())
	}
	if !strings.Contains(stdout.String(), "not in the snapshot: ") {
		t.Errorf("show %s of %s does not say what is missing:\n%s", name, dir, stdout.String())
	}
}
