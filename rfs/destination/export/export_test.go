package export

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func create(t testing.TB, d *Export, index string, shard int, cursor int64) *File {
	t.Helper()
	f, err := d.Create(t.Context(), index, shard, cursor, nil)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func pair(index, id string) string {
	return fmt.Sprintf("{\"index\":{\"_index\":%q,\"_id\":%q}}\n{\"id\":%q}\n", index, id, id)
}

func send(t testing.TB, f *File, pairs ...string) {
	t.Helper()
	if _, err := f.Send(t.Context(), []byte(strings.Join(pairs, "")), len(pairs)); err != nil {
		t.Fatal(err)
	}
}

func commit(t testing.TB, f *File) {
	t.Helper()
	if err := f.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func TestAnItemBecomesAFileWhenItIsCommitted(t *testing.T) {
	for c, ext := range map[Compression]string{None: "", Gzip: ".gz", Zstd: ".zst", "gzip:1": ".gz", "zstd:19": ".zst"} {
		dir := filepath.Join(t.TempDir(), "out")
		f := create(t, enter(t, dirHome(dir), "w", c), "logs", 2, 700)
		send(t, f, pair("logs", "1"), pair("logs", "2"))
		send(t, f, pair("logs", "3"))
		if _, err := os.Stat(filepath.Join(dir, "logs", "2-700.ndjson"+ext)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is there before the commit: %v", c, err)
		}
		commit(t, f)
		commit(t, f)
		wantTree(t, dirHome(dir), map[string]string{"logs/2-700.ndjson" + ext: pair("logs", "1") + pair("logs", "2") + pair("logs", "3")})
		for path, mode := range map[string]fs.FileMode{"logs": 0o700, "logs/2-700.ndjson" + ext: 0o600} {
			if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

func TestACommitThatStoppedBetweenTwoRenamesIsRepeated(t *testing.T) {
	dir := t.TempDir()
	d := enter(t, dirHome(dir), "w", None)
	f := create(t, d, "i", 0, 0)
	send(t, f, pair("i_a", "1"), pair("i_b", "1"))
	// A folder where the file of i_b must go makes the second or first rename fail.
	obstacle := filepath.Join(dir, "i_b", "0-0.ndjson", "x")
	if err := os.MkdirAll(obstacle, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := f.Commit(t.Context()); err == nil {
		t.Fatal("committed over a folder")
	}
	if err := os.RemoveAll(filepath.Dir(obstacle)); err != nil {
		t.Fatal(err)
	}
	commit(t, f)
	wantTree(t, dirHome(dir), map[string]string{"i_a/0-0.ndjson": pair("i_a", "1"), "i_b/0-0.ndjson": pair("i_b", "1")})
}

func TestASecondWriterIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	enter(t, dirHome(dir), "first-writer", None)
	_, err := Open(dir, "second", None)
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "first-writer") || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}

func TestFilesOfDeadWritersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	d := enter(t, dirHome(dir), "dead", Gzip)
	send(t, create(t, d, strings.Repeat("Long", 60), 0, 0), pair("x", "1"))
	if err := os.WriteFile(filepath.Join(dir, "notes.tmp-x"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(tree(t, dirHome(dir))) != 2 {
		t.Fatalf("files %v", tree(t, dirHome(dir)))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "0-0.ndjson.tmp-folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	enter(t, dirHome(dir), "next", None)
	wantTree(t, dirHome(dir), map[string]string{"notes.tmp-x": "theirs"})
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("a folder of such a name: %v", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	if _, err := Open(t.TempDir(), "w", "lzma"); !errors.Is(err, fault.ErrConfig) {
		t.Error(err)
	}
	for _, writer := range []string{"../w", "", "a/b"} {
		if _, err := Open(t.TempDir(), writer, None); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", writer, err)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file, "w", None); !errors.Is(err, fault.ErrConfig) {
		t.Error(err)
	}
}

func TestNamesAreSafeAndComeBack(t *testing.T) {
	for name, want := range map[string]string{
		"logs-2026.01.01": "logs-2026.01.01", ".kibana": "%2Ekibana", "..": "%2E%2E", ".": "%2E", "": "%", "a/b": "a%2Fb", "A": "%41",
		"a%": "a%25", "nul": "%6Eul", "com1.x": "%63om1.x", "a.": "a%2E", "ü": "%C3%BC", "com": "com", ".rfsd": "%2Erfsd",
		"z": "z", "com0": "%63om0", "lpt9": "%6Cpt9", "com:": "com%3A", "comx": "comx", "com-": "com-",
		strings.Repeat("x", 240): strings.Repeat("x", 240), strings.Repeat("x", 241): strings.Repeat("x", 240) + "%/x",
	} {
		if got := EncodeName(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	for _, bad := range []string{"", "A", "%41%", "%4", "%zz", "%6c", "nul", "..", "a/b", "a%/b", "/", "a/"} {
		if got, err := decodeName(bad); err == nil {
			t.Errorf("%q stands for %q", bad, got)
		}
	}
}

func FuzzNamesComeBack(f *testing.F) {
	for _, s := range []string{"", ".", "nul", "Ab", strings.Repeat("x", 500), strings.Repeat("%", 85) + ".", strings.Repeat("x", 240) + "con", strings.Repeat("a", 240) + ".", strings.Repeat(".", 241)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		defer fuzzing.Bounded(t, len(name))()
		path := EncodeName(name)
		back, err := decodeName(path)
		if err != nil || back != name {
			t.Fatalf("%q became %q and %q, %v", name, path, back, err)
		}
		for _, part := range strings.Split(path, "/") {
			if part == "" || len(part) > 255 || part[0] == '.' || strings.HasSuffix(part, ".") || isReserved(part) || part != strings.ToLower(part) && !strings.Contains(part, "%") {
				t.Fatalf("%q has the component %q", name, part)
			}
		}
	})
}

// TestALockWithoutANameIsHeldAllTheSame opens a directory whose holder has not written its name yet.
func TestALockWithoutANameIsHeldAllTheSame(t *testing.T) {
	dir := t.TempDir()
	enter(t, dirHome(dir), "w", None)
	if err := os.Truncate(filepath.Join(dir, ".rfsd", "lock"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "other", None); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("%v", err)
	}
}
