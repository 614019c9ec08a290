package failed

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/failedtest"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func open(t testing.TB, dir, writer string) *Writer {
	t.Helper()
	w, err := Open(dir, writer, Full)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	return w
}

func record(t testing.TB, w *Writer, f ...doc.Failure) {
	t.Helper()
	if err := errors.Join(w.Record(t.Context(), f), w.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
}

func read(t testing.TB, dir string) []doc.Failure {
	t.Helper()
	var all []doc.Failure
	for f, err := range failedtest.Read(dir) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func TestWhatIsRecordedIsRead(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			t.Fatal(err)
		}
		w, err := Open(dir, "w", Full)
		if err != nil {
			t.Fatal(err)
		}
		var want []doc.Failure
		for i := range rapid.IntRange(1, 5).Draw(rt, "n") {
			f := doc.Failure{
				Index: rapid.String().Draw(rt, "index"), ID: rapid.String().Draw(rt, "id"), Type: rapid.String().Draw(rt, "type"),
				Routing: rapid.String().Draw(rt, "routing"), Shard: rapid.IntRange(0, 9).Draw(rt, "shard"), Ordinal: int64(i),
				Reason: doc.Reason(rapid.String().Draw(rt, "reason")), Detail: rapid.String().Draw(rt, "detail"), Status: rapid.IntRange(0, 600).Draw(rt, "status"),
				Source: rapid.SampledFrom([][]byte{nil, []byte(`{ "a":1e999,"a" :"<&>" }`), []byte("{\n}"), []byte("\xFF\x00"), []byte(`nojson`), []byte("{\"a\":\"\xFF\"}"), []byte(`null`), []byte(` {"a":1} `)}).Draw(rt, "source"),
			}
			want = append(want, f)
		}
		if err := errors.Join(w.Record(t.Context(), want), w.Sync(t.Context()), w.Close()); err != nil {
			t.Fatal(err)
		}
		got := read(t, dir)
		for i := range got {
			if strings.TrimSpace(string(want[i].Source)) == string(got[i].Source) {
				got[i].Source = want[i].Source // blanks around a JSON value are not kept by the reader
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("got  %+v\nwant %+v", got, want)
		}
	})
}

func TestSourceIsEmbeddedByteForByte(t *testing.T) {
	dir := t.TempDir()
	record(t, open(t, dir, "w"), doc.Failure{Index: "i", ID: "<1>", Source: []byte(`{ "a":"<b>",  "n":1.0 }`)}, doc.Failure{Ordinal: 1, Source: []byte("a\nb")})
	b, err := os.ReadFile(filepath.Join(dir, "w.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"index":"i","id":"<1>","shard":0,"ordinal":0,"reason":"","status":0,"detail":"","source":{ "a":"<b>",  "n":1.0 }}` + "\n" +
		`{"index":"","id":"","shard":0,"ordinal":1,"reason":"","status":0,"detail":"","source_base64":"YQpi"}` + "\n"
	if string(b) != want {
		t.Errorf("got  %s\nwant %s", b, want)
	}
	if info, err := os.Stat(filepath.Join(dir, "w.ndjson")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestATornLineIsSkippedAndThenCut(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "w")
	record(t, w, doc.Failure{Index: "i", Ordinal: 1}, doc.Failure{Index: "i", Ordinal: 2, Source: []byte(strings.Repeat("x", 200<<10))})
	path := filepath.Join(dir, "w.ndjson")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first := strings.IndexByte(string(whole), '\n') + 1
	for _, size := range []int{len(whole) - 1, len(whole) - 100<<10, first + 1, first, first - 1, 1, 0} {
		if err := os.WriteFile(path, whole[:size], 0o600); err != nil {
			t.Fatal(err)
		}
		lines := strings.Count(string(whole[:size]), "\n")
		if got := read(t, dir); len(got) != lines {
			t.Errorf("cut to %d bytes: %d failures, want %d", size, len(got), lines)
		}
		record(t, open(t, dir, "w"), doc.Failure{Index: "i", Ordinal: 3})
		if got := read(t, dir); len(got) != lines+1 || got[lines].Ordinal != 3 {
			t.Errorf("cut to %d bytes and written again: %d failures, want %d", size, len(got), lines+1)
		}
	}
}

func TestTheSameFailureCountsOnce(t *testing.T) {
	dir := t.TempDir()
	a := doc.Failure{Index: "i", ID: "1", Shard: 1, Ordinal: 5, Reason: "r"}
	b, c := a, a
	b.Shard, c.ID = 2, "2"
	record(t, open(t, dir, "w1"), a, b)
	record(t, open(t, dir, "w2"), a, c)
	if got := read(t, dir); len(got) != 3 {
		t.Errorf("%d failures, want 3: %+v", len(got), got)
	}
}

func TestDamageIsNamedAndReadingGoesOn(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "w.ndjson"), []byte("{\"ordinal\":1}\nnonsense\n{\"ordinal\":2}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var good, bad int
	for _, err := range failedtest.Read(dir) {
		switch {
		case err == nil:
			good++
		case errors.Is(err, fault.ErrCorrupt) && strings.Contains(err.Error(), "line 2"):
			bad++
		default:
			t.Error(err)
		}
	}
	if good != 2 || bad != 1 {
		t.Errorf("%d failures and %d errors", good, bad)
	}
}

func TestNoFailureLeavesNoFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "failed")
	if err := open(t, dir, "w").Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory: %v", err)
	}
	if got := read(t, filepath.Join(dir, "absent")); got != nil {
		t.Errorf("%v", got)
	}
}

// TestOpen_RefusesADirectoryThatCannotBeWritten checks that it is not noticed only when the first document has failed.
func TestOpen_RefusesADirectoryThatCannotBeWritten(t *testing.T) {
	parent := t.TempDir()
	file := filepath.Join(parent, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, filepath.Join(file, "below")} {
		if _, err := Open(dir, "w", Full); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%s: %v", dir, err)
		}
	}
	if entries, err := os.ReadDir(parent); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
	gone := filepath.Join(parent, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Chdir(gone)
	if err := os.Remove(gone); err != nil {
		t.Fatal(err)
	}
	if _, err := Open("failed", "w", Full); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("below a working directory that was removed: %v", err)
	}
}

// TestWriter_NameThatIsTaken checks that a directory in place of the file is reported, and that the writer goes on when it is gone.
func TestWriter_NameThatIsTaken(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "w.ndjson"), 0o700); err != nil {
		t.Fatal(err)
	}
	w := open(t, dir, "w")
	if err := w.Record(t.Context(), failures(1)); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("%v", err)
	}
	if err := os.Remove(filepath.Join(dir, "w.ndjson")); err != nil {
		t.Fatal(err)
	}
	record(t, w, failures(2)...)
	if got := read(t, dir); len(got) != 1 || got[0].Ordinal != 2 {
		t.Errorf("%+v", got)
	}
}

func TestWriterIdsThatLeaveTheDirectoryAreRefused(t *testing.T) {
	for _, id := range []string{"", "/", "../x", "a/b", ".hidden", ".."} {
		if _, err := Open(t.TempDir(), id, Full); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestConcurrentRecordsAreWholeLines(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "w")
	var wg sync.WaitGroup
	for shard := range 8 {
		wg.Go(func() {
			for o := range int64(50) {
				if err := errors.Join(w.Record(context.Background(), []doc.Failure{{Shard: shard, Ordinal: o, Source: []byte(`{}`)}})); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if got := read(t, dir); len(got) != 400 {
		t.Errorf("%d failures", len(got))
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte(`{"index":"i","id":"1","ordinal":3,"source":{"a":1}}`))
	f.Add([]byte(`{"source_base64":"YQpi"}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		x, err := failedtest.Parse(b)
		if err != nil {
			return
		}
		y, err := failedtest.Parse(AppendLine(nil, &x, Full))
		if err != nil || y.Ordinal != x.Ordinal || y.ID != x.ID || len(y.Source) != len(x.Source) {
			t.Fatalf("%+v became %+v, %v", x, y, err)
		}
	})
}
