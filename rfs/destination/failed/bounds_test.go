package failed

import (
	"bytes"
	"errors"
	"io"
	"iter"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestNamesReportsWhatEndsIt(t *testing.T) {
	const two = "{\"index\":\"a\",\"id\":\"1\"}\n{\"index\":\"a\",\"id\":\"2\"}\n"
	for _, c := range []struct {
		name string
		r    io.Reader
		each error
		want int // names before the error
	}{
		{"a file that cannot be read", iotest.ErrReader(errBroken), nil, 0},
		{"a file that breaks off in an error", io.MultiReader(strings.NewReader(two), iotest.ErrReader(errBroken)), nil, 2},
		{"a name that is refused", strings.NewReader(two), errBroken, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := 0
			err := Names(c.r, func(string, string) error {
				names++
				return c.each
			})
			if !errors.Is(err, errBroken) || names != c.want {
				t.Errorf("%v after %d names, want %d", err, names, c.want)
			}
		})
	}
}

func TestASourceThatIsNoTextIsKeptInBase64(t *testing.T) {
	for _, c := range []struct{ name, source, want string }{
		{"JSON with a byte that is not a UTF-8", "{\"a\":\"\xFF\"}", `"source_base64":"eyJhIjoi/yJ9"}`},
		{"JSON in two lines", "{\n}", `"source_base64":"ewp9"}`},
		{"JSON with a carriage return", "{\r}", `"source_base64":"ew19"}`},
		{"no JSON", "x", `"source_base64":"eA=="}`},
		{"JSON in one line", `{ }`, `"source":{ }}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			line := AppendLine(nil, &doc.Failure{Source: []byte(c.source)}, Full)
			if !strings.HasSuffix(string(line), c.want+"\n") || bytes.Count(line, []byte("\n")) != 1 {
				t.Errorf("%q; want the end %s", line, c.want)
			}
		})
	}
}

func TestObjectsBound(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, f *folder, o *Objects)
	}{
		{"lines that fill an object are stored before the next", func(t *testing.T, f *folder, o *Objects) {
			o.place, o.buf = "logs/0", make([]byte, objectSize)
			if err := o.Record(t.Context(), []doc.Failure{failure("logs", 0, 1)}); err != nil || len(f.puts) != 1 {
				t.Errorf("%v, objects %q", err, f.puts)
			}
		}},
		{"lines that do not fill one are not", func(t *testing.T, f *folder, o *Objects) {
			o.place, o.buf = "logs/0", make([]byte, objectSize-1)
			if err := o.Record(t.Context(), []doc.Failure{failure("logs", 0, 1)}); err != nil || len(f.puts) != 0 {
				t.Errorf("%v, objects %q", err, f.puts)
			}
		}},
		{"lines of another shard that could not be stored are reported and kept", func(t *testing.T, f *folder, o *Objects) {
			if err := o.Record(t.Context(), []doc.Failure{failure("logs", 0, 1)}); err != nil {
				t.Fatal(err)
			}
			f.fails = fault.ErrUnavailable
			next := []doc.Failure{failure("logs", 1, 1)}
			if err := o.Record(t.Context(), next); !errors.Is(err, fault.ErrUnavailable) {
				t.Errorf("recorded: %v", err)
			}
			if err := errors.Join(o.Record(t.Context(), next), o.Close()); err != nil || len(read(t, f.dir)) != 2 {
				t.Errorf("%v, objects %q", err, f.puts)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &folder{dir: t.TempDir()}
			c.test(t, f, objects(t, f, "w"))
		})
	}
}

func TestTheMemoryOfAGiantLineIsGivenBack(t *testing.T) {
	w := open(t, t.TempDir(), "w")
	record(t, w, failures(1)...)
	if w.buf == nil {
		t.Error("the memory of a small line was not kept")
	}
	record(t, w, doc.Failure{Source: bytes.Repeat([]byte("x"), 1<<20)})
	if w.buf != nil {
		t.Errorf("%d bytes are kept", cap(w.buf))
	}
}

// TestLines_TheMemoryOfALongLineIsFreed checks that a line of a few bytes does not hold what the one before took.
func TestLines_TheMemoryOfALongLineIsFreed(t *testing.T) {
	text := AppendLine(nil, &doc.Failure{Index: "i", ID: "long", Source: bytes.Repeat([]byte("x"), 6<<20)}, Full)
	text = AppendLine(text, &doc.Failure{Index: "i", ID: "short"}, Full)
	for l, err := range Lines(bytes.NewReader(text), 8<<20) {
		if err != nil || l.Err != nil || l.Failure.ID == "short" && cap(l.Text) > 4<<20 {
			t.Errorf("%s: %d bytes, %v, %v", l.Failure.ID, cap(l.Text), err, l.Err)
		}
	}
}

// TestLines_ReportWhatEndsThem checks that a file which cannot be read to its end is not taken for a shorter one.
func TestLines_ReportWhatEndsThem(t *testing.T) {
	const two = "{\"index\":\"a\",\"id\":\"1\"}\n{\"index\":\"a\",\"id\":\"2\"}\n"
	for name, lines := range map[string]func(io.Reader) iter.Seq2[Line, error]{
		"Lines": func(r io.Reader) iter.Seq2[Line, error] { return Lines(r, 1<<20) }, "Heads": Heads,
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			var ended error
			for l, err := range lines(io.MultiReader(strings.NewReader(two), iotest.ErrReader(errBroken))) {
				if ended = err; n == 2 || err == nil && l.Err != nil {
					break
				}
				n++
			}
			if n != 2 || !errors.Is(ended, errBroken) {
				t.Errorf("%d lines, then %v", n, ended)
			}
		})
	}
}

// TestADirectoryThatCannotBeSyncedIsReported: the kernel's own file system refuses it.
func TestADirectoryThatCannotBeSyncedIsReported(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("needs /proc of Linux")
	}
	if err := (system{}).SyncDir("/proc"); err == nil {
		t.Error("a directory that cannot be synced was reported as durable")
	}
}

// TestLongLines: a source that is longer than asked for ends the lines by name; their heads need no source.
func TestLongLines(t *testing.T) {
	const most = 3 << 20
	file := func(sources ...string) string {
		var all []byte
		for i, s := range sources {
			all = AppendLine(all, &doc.Failure{Index: "i", ID: string(rune('a' + i)), Detail: `,"source":`, Source: []byte(s)}, Full)
		}
		return string(all)
	}
	fits, binary := `"`+strings.Repeat("x", most-2)+`"`, strings.Repeat("\xff", most)
	tooLong := `"` + strings.Repeat("x", most/3*4+2*maxHead) + `"`
	for _, c := range []struct {
		name, text  string
		lines, head int // without an error
		err         error
		headErr     error
	}{
		{"as long as asked for", file(fits, binary, "{}"), 3, 3, nil, nil},
		{"longer", file("{}", tooLong, "{}"), 1, 3, fault.ErrUnsupported, nil},
		{"one that is not finished", file("{}", fits)[:1<<21], 1, 1, nil, nil},
		{"no failed document", "{}" + strings.Repeat(" ", most*2) + "\n", 0, 0, fault.ErrUnsupported, fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := 0
			var err error
			for l, lerr := range Lines(strings.NewReader(c.text), most) {
				if err = lerr; err == nil {
					if n++; l.Err != nil {
						t.Error(l.Err)
					}
				}
			}
			if n != c.lines || !errors.Is(err, c.err) || c.err != nil && !strings.Contains(err.Error(), "--max-document-size") {
				t.Errorf("%d lines, %v", n, err)
			}
			n, err = 0, nil
			for l, lerr := range Heads(strings.NewReader(c.text)) {
				if err = lerr; err == nil && l.Err == nil && l.Failure.ID == string(rune('a'+n)) {
					n++
				}
				if len(l.Text) > maxHead {
					t.Errorf("a head of %d bytes", len(l.Text))
				}
			}
			if n != c.head || !errors.Is(err, c.headErr) {
				t.Errorf("%d heads, %v", n, err)
			}
		})
	}
}
