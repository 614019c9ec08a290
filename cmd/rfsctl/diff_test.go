package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/testing/outputtest"
)

func TestDiffSnapshots(t *testing.T) {
	dir := filepath.Join("..", "..", "testing", "fixtures", "7.10.2-history")
	damaged := t.TempDir()
	if err := os.CopyFS(damaged, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	for _, list := range []string{"snap-*.dat", "index-*"} {
		blobs, err := filepath.Glob(filepath.Join(damaged, "indices", "*", "0", list))
		if err != nil {
			t.Fatal(err)
		}
		for _, blob := range blobs {
			if err := os.Remove(blob); err != nil {
				t.Fatal(err)
			}
		}
	}
	table := strings.Join([]string{
		"INDEX   STATE      SHARDS  NEW  GONE  UNCHANGED",
		"again   recreated",
		"grows   compared        1   12    21         19",
		"leaves  removed",
		"",
	}, "\n")
	documents := strings.Join([]string{
		"INDEX   STATE      SHARDS  INSERTED  UPDATED  DELETED  UNCHANGED",
		"again   recreated",
		"grows   compared        1         0       12        9         19",
		"leaves  removed",
		"",
	}, "\n")
	for name, c := range map[string]struct {
		args []string
		code int
		out  string // all of it, or a part where it ends with an ellipsis
		err  string // a part of it
	}{
		"two snapshots":      {[]string{"--repo-uri", dir, "--since", "snap-1", "--snapshot-name", "snap-3"}, 0, table, ""},
		"a selection":        {[]string{"--repo-uri", dir, "--since", "snap-1", "--snapshot-name", "snap-3", "--index-allowlist", "le*"}, 0, "INDEX   STATE    SHARDS  NEW  GONE  UNCHANGED\nleaves  removed\n", ""},
		"in the other order": {[]string{"--repo-uri", dir, "--since", "snap-3", "--snapshot-name", "snap-1"}, 0, "index grows: shard 0 was not compared: the second snapshot of it is older than the first…", "exchange --snapshot-name and --since"},
		"before numbers":     {[]string{"--repo-uri", strings.ReplaceAll(dir, "7.10.2", "2.4.6"), "--since", "snap-1", "--snapshot-name", "snap-3"}, 0, "index grows: shard 0 was not compared: its documents have no sequence numbers…", ""},
		"documents":          {[]string{"--repo-uri", dir, "--since", "snap-1", "--snapshot-name", "snap-3", "--read-documents"}, 0, documents, ""},
		"by contents":        {[]string{"--repo-uri", strings.ReplaceAll(dir, "7.10.2", "2.4.6"), "--since", "snap-1", "--snapshot-name", "snap-3", "--read-documents"}, 0, documents, ""},
		"a missing blob":     {[]string{"--repo-uri", damaged, "--since", "snap-1", "--snapshot-name", "snap-3"}, 5, "index grows: shard 0: …", ""},
		"one snapshot":       {[]string{"--repo-uri", dir, "--snapshot-name", "snap-1"}, 1, "", "--since and --snapshot-name are needed"},
		"no such snapshot":   {[]string{"--repo-uri", dir, "--since", "none", "--snapshot-name", "snap-1"}, 1, "", `no snapshot "none"`},
		"no repository":      {[]string{"--since", "snap-1", "--snapshot-name", "snap-3"}, 1, "", "--repo-uri is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := run(t.Context(), append([]string{"rfsctl", "snapshot", "diff"}, c.args...), &stdout, &stderr)
			part, partial := strings.CutSuffix(c.out, "…")
			said := stdout.String() == c.out || partial && strings.Contains(stdout.String(), part)
			if int(code) != c.code || !said || !strings.Contains(stderr.String(), c.err) {
				t.Errorf("exit %d: %s%s", code, stdout.String(), stderr.String())
			}
		})
	}
	t.Run("JSON", func(t *testing.T) {
		var stdout, stderr bytes.Buffer
		code := run(t.Context(), []string{"rfsctl", "snapshot", "diff", "--repo-uri", dir, "--since", "snap-1", "--snapshot-name", "snap-3", "--output", "json"}, &stdout, &stderr)
		var got struct {
			Since, Snapshot string
			Indices         []differentIndex
		}
		if err := outputtest.Decode(stdout.Bytes(), &got); code != 0 || err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, stderr.String())
		}
		if len(got.Indices) != 3 || got.Since != "snap-1" || got.Snapshot != "snap-3" || got.Indices[1].New != 12 || got.Indices[1].Gone != 21 || got.Indices[1].Unchanged != 19 {
			t.Errorf("%+v", got)
		}
		stdout.Reset()
		code = run(t.Context(), []string{"rfsctl", "snapshot", "diff", "--repo-uri", dir, "--since", "snap-1", "--snapshot-name", "snap-3", "--output", "json", "--read-documents"}, &stdout, &stderr)
		got.Indices = nil
		if err := outputtest.Decode(stdout.Bytes(), &got); code != 0 || err != nil {
			t.Fatalf("exit %d, %v: %s", code, err, stderr.String())
		}
		if x := got.Indices[1]; x.Versions != nil || *x.Documents != (Documents{Updated: 12, Deleted: 9}) || x.Unchanged != 19 {
			t.Errorf("%s", stdout.String())
		}
	})
}
