package export

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func openDir(t testing.TB, dir, writer string, c Compression) *Dir {
	t.Helper()
	d, err := Open(dir, writer, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func create(t testing.TB, d *Dir, index string, shard int, cursor int64) *File {
	t.Helper()
	f, err := d.Create(index, shard, cursor, nil)
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

// tree lists all finished and unfinished files but rfsd's own, with their content.
func tree(t testing.TB, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			if e != nil && e.Name() == private {
				return fs.SkipDir
			}
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil || rel == ManifestName {
			return err
		}
		all[filepath.ToSlash(rel)] = content(t, path)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func content(t testing.TB, path string) string {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var r io.Reader = bufio.NewReader(f)
	switch filepath.Ext(path) {
	case ".gz":
		r, err = gzip.NewReader(r)
	case ".zst":
		r, err = zstd.NewReader(r)
	}
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func wantTree(t testing.TB, dir string, want map[string]string) {
	t.Helper()
	got := tree(t, dir)
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s holds %q, want %q", name, got[name], text)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("unexpected file %s", name)
		}
	}
}

func TestAnItemBecomesAFileWhenItIsCommitted(t *testing.T) {
	for c, ext := range map[Compression]string{None: "", Gzip: ".gz", Zstd: ".zst", "gzip:1": ".gz", "zstd:19": ".zst"} {
		dir := filepath.Join(t.TempDir(), "out")
		f := create(t, openDir(t, dir, "w", c), "logs", 2, 700)
		send(t, f, pair("logs", "1"), pair("logs", "2"))
		send(t, f, pair("logs", "3"))
		if _, err := os.Stat(filepath.Join(dir, "logs", "2-700.ndjson"+ext)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: the file is there before the commit: %v", c, err)
		}
		commit(t, f)
		commit(t, f)
		wantTree(t, dir, map[string]string{"logs/2-700.ndjson" + ext: pair("logs", "1") + pair("logs", "2") + pair("logs", "3")})
		for path, mode := range map[string]fs.FileMode{"logs": 0o700, "logs/2-700.ndjson" + ext: 0o600} {
			if info, err := os.Stat(filepath.Join(dir, path)); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", path, info.Mode(), err)
			}
		}
	}
}

func TestDocumentsLandInTheFolderOfTheirIndex(t *testing.T) {
	dir := t.TempDir()
	f := create(t, openDir(t, dir, "w", None), "i", 0, 0)
	send(t, f, pair("i_a", "1"), pair("i_b", "1"), pair("i_b", "2"), pair("i", "9"), pair("i_a", "3"), pair("i", "10"))
	commit(t, f)
	wantTree(t, dir, map[string]string{
		"i/0-0.ndjson": pair("i", "9") + pair("i", "10"), "i_a/0-0.ndjson": pair("i_a", "1") + pair("i_a", "3"), "i_b/0-0.ndjson": pair("i_b", "1") + pair("i_b", "2"),
	})
}

func TestRunningAnItemAgainReplacesWhatItWrote(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, "w", None)
	f := create(t, d, "i", 0, 0)
	send(t, f, pair("i_a", "1"), pair("i_b", "1"), pair("i", "1"))
	commit(t, f)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	// The second run hands off before the documents of i_b and i, and compresses.
	f = create(t, openDir(t, dir, "w2", Gzip), "i", 0, 0)
	send(t, f, pair("i_a", "1"))
	commit(t, f)
	wantTree(t, dir, map[string]string{"i_a/0-0.ndjson.gz": pair("i_a", "1")})
}

func TestACommitThatStoppedBetweenTwoRenamesIsRepeated(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, "w", None)
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
	wantTree(t, dir, map[string]string{"i_a/0-0.ndjson": pair("i_a", "1"), "i_b/0-0.ndjson": pair("i_b", "1")})
}

func TestAbortLeavesWhatWasThereBefore(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, "w", Zstd)
	f := create(t, d, "i", 0, 0)
	send(t, f, pair("i", "1"))
	commit(t, f)
	if err := f.Abort(); err != nil {
		t.Fatal(err)
	}
	g := create(t, d, "i", 0, 0)
	send(t, g, pair("i", "2"))
	if err := g.Abort(); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Send(t.Context(), []byte(pair("i", "3")), 1); err == nil {
		t.Error("an aborted file takes documents")
	}
	wantTree(t, dir, map[string]string{"i/0-0.ndjson.zst": pair("i", "1")})
}

// The holder of a lost lease may still write while the next holder works on the same item.
func TestEachAttemptHasFilesOfItsOwn(t *testing.T) {
	former, later := pair("i", "1")+pair("i_a", "1"), pair("i", "1")+pair("i", "2")
	for _, c := range []struct {
		name string
		test func(t *testing.T, lost, next *File)
		want map[string]string
	}{
		{"the next holder commits first", func(t *testing.T, lost, next *File) {
			commit(t, next)
			wantSuperseded(t, lost)
		}, map[string]string{"i/0-0.ndjson": later}},
		{"the lost holder tries first", func(t *testing.T, lost, next *File) {
			wantSuperseded(t, lost)
			commit(t, next)
		}, map[string]string{"i/0-0.ndjson": later}},
		{"the lost holder aborts", func(t *testing.T, lost, next *File) {
			if err := lost.Abort(); err != nil {
				t.Error(err)
			}
			commit(t, next)
		}, map[string]string{"i/0-0.ndjson": later}},
		{"the next holder aborts", func(t *testing.T, lost, next *File) {
			if err := next.Abort(); err != nil {
				t.Error(err)
			}
			wantSuperseded(t, lost)
		}, map[string]string{}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			d := openDir(t, dir, "w", None)
			lost := create(t, d, "i", 0, 0)
			send(t, lost, former)
			next := create(t, d, "i", 0, 0)
			send(t, next, later)
			c.test(t, lost, next)
			wantTree(t, dir, c.want)
		})
	}
}

func wantSuperseded(t *testing.T, f *File) {
	t.Helper()
	if err := f.Commit(t.Context()); !errors.Is(err, ErrSuperseded) {
		t.Errorf("commit: %v, want %v", err, ErrSuperseded)
	}
	if err := f.Abort(); err != nil {
		t.Error(err)
	}
}

func TestASecondWriterIsRefusedByName(t *testing.T) {
	dir := t.TempDir()
	openDir(t, dir, "first-writer", None)
	_, err := Open(dir, "second", None)
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "first-writer") || !strings.Contains(err.Error(), dir) {
		t.Errorf("%v", err)
	}
}

func TestFilesOfDeadWritersAreRemoved(t *testing.T) {
	dir := t.TempDir()
	d := openDir(t, dir, "dead", Gzip)
	send(t, create(t, d, strings.Repeat("Long", 60), 0, 0), pair("x", "1"))
	if err := os.WriteFile(filepath.Join(dir, "notes.tmp-x"), []byte("theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if len(tree(t, dir)) != 2 {
		t.Fatalf("files %v", tree(t, dir))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "0-0.ndjson.tmp-folder")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	openDir(t, dir, "next", None)
	wantTree(t, dir, map[string]string{"notes.tmp-x": "theirs"})
	if _, err := os.Stat(folder); err != nil {
		t.Errorf("a folder of such a name: %v", err)
	}
}

func TestABodyThatIsNoneIsRefusedForGood(t *testing.T) {
	for _, body := range []string{"x", "{}\n", "{}\n{}\n", "{\"index\":{}}\n{}\n", pair("i", "1") + "{\n", strings.TrimSuffix(pair("i", "1"), "\n"), "{\"index\":{\"_index\":\"i\"}}\n"} {
		f := create(t, openDir(t, t.TempDir(), "w", None), "i", 0, 0)
		if _, err := f.Send(t.Context(), []byte(body), 1); err == nil {
			t.Errorf("%q was taken", body)
		}
		if err := f.Commit(t.Context()); err == nil {
			t.Errorf("%q: committed after an error", body)
		}
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

func TestDiscardCounts(t *testing.T) {
	var d Discard
	for range 3 {
		if _, err := d.Send(t.Context(), []byte("abcd"), 2); err != nil {
			t.Fatal(err)
		}
	}
	if n, b := d.Dropped(); n != 6 || b != 12 {
		t.Errorf("%d documents, %d bytes", n, b)
	}
}

func TestAContextThatHasEndedStopsAFileForNow(t *testing.T) {
	dir := t.TempDir()
	f := create(t, openDir(t, dir, "w", None), "i", 0, 0)
	ended, end := context.WithCancel(t.Context())
	end()
	if _, err := f.Send(ended, []byte(pair("i", "1")), 1); !errors.Is(err, context.Canceled) {
		t.Errorf("send: %v", err)
	}
	send(t, f, pair("i", "2"))
	if err := f.Commit(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("commit: %v", err)
	}
	if there := tree(t, dir); there["i/0-0.ndjson"] != "" {
		t.Errorf("committed all the same: %v", there)
	}
	commit(t, f)
	wantTree(t, dir, map[string]string{"i/0-0.ndjson": pair("i", "2")})
}

func TestAttemptsThatEndedAreForgotten(t *testing.T) {
	d := openDir(t, t.TempDir(), "w", None)
	for n, end := range []func(*File) error{func(f *File) error { return f.Commit(t.Context()) }, (*File).Abort} {
		f := create(t, d, "i", n, 0)
		send(t, f, pair("i", "1"))
		if err := end(f); err != nil || len(d.current) != 0 {
			t.Errorf("%v, %d attempts in progress", err, len(d.current))
		}
	}
}

// TestALockWithoutANameIsHeldAllTheSame opens a directory whose holder has not written its name yet.
func TestALockWithoutANameIsHeldAllTheSame(t *testing.T) {
	dir := t.TempDir()
	openDir(t, dir, "w", None)
	if err := os.Truncate(filepath.Join(dir, ".rfsd", "lock"), 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, "other", None); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "is locked by another process") {
		t.Errorf("%v", err)
	}
}
