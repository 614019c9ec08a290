package failed

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
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
		{"JSON with a byte that is no UTF-8", "{\"a\":\"\xFF\"}", `"source_base64":"eyJhIjoi/yJ9"}`},
		{"JSON in two lines", "{\n}", `"source_base64":"ewp9"}`},
		{"JSON with a carriage return", "{\r}", `"source_base64":"ew19"}`},
		{"no JSON", "x", `"source_base64":"eA=="}`},
		{"JSON in one line", `{ }`, `"source":{ }}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			line, err := AppendLine(nil, &doc.Failure{Source: []byte(c.source)})
			if err != nil || !strings.HasSuffix(string(line), c.want+"\n") || bytes.Count(line, []byte("\n")) != 1 {
				t.Errorf("%q, %v; want the end %s", line, err, c.want)
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

// TestADirectoryThatCannotBeSyncedIsReported: the kernel's own file system refuses it.
func TestADirectoryThatCannotBeSyncedIsReported(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("needs /proc of Linux")
	}
	if err := (system{}).SyncDir("/proc"); err == nil {
		t.Error("a directory that cannot be synced was reported as durable")
	}
}
