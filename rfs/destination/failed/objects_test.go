package failed

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// folder is a Store in a directory, that fails when it is told to.
type folder struct {
	dir   string
	fails error // of the next Put; the object is written although when lost
	lost  bool
	puts  []string
}

func (f *folder) Put(_ context.Context, name string, body []byte) error {
	err := f.fails
	f.fails = nil
	if err != nil && !f.lost {
		return err
	}
	f.puts = append(f.puts, name)
	file := filepath.Join(f.dir, filepath.FromSlash(name))
	return errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, body, 0o600), err)
}

func failure(index string, shard int, ordinal int64) doc.Failure {
	return doc.Failure{Index: index, ID: "x", Shard: shard, Ordinal: ordinal, Reason: "mapper_parsing_exception", Status: 400, Source: []byte(`{"a":1}`)}
}

func objects(t *testing.T, s Store, writer string) *Objects {
	t.Helper()
	o, err := NewObjects(s, "move", writer, Full)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEachSyncIsAnObjectNamedByWhoseItIs(t *testing.T) {
	f := &folder{dir: t.TempDir()}
	o := objects(t, f, "host_pid1_A")
	want := []doc.Failure{failure("logs", 0, 1), failure("logs", 0, 2), failure("logs", 1, 1), failure("a/b", 1, 2)}
	sync := func() {
		t.Helper()
		if err := o.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sync()
	if err := o.Record(t.Context(), want[:2]); err != nil {
		t.Fatal(err)
	}
	sync()
	sync()
	if err := o.Record(t.Context(), want[2:]); err != nil {
		t.Fatal(err)
	}
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
	names := []string{"move/logs/0/host_pid1_A/000000.ndjson", "move/logs/1/host_pid1_A/000001.ndjson", "move/a%2Fb/1/host_pid1_A/000002.ndjson"}
	if !reflect.DeepEqual(f.puts, names) {
		t.Errorf("objects %q, want %q", f.puts, names)
	}
	if got := read(t, f.dir); len(got) != len(want) {
		t.Errorf("%d failures, want %d", len(got), len(want))
	}
	for _, bad := range []string{"", ".", "a/b", "/"} {
		for _, names := range [][2]string{{"move", bad}, {bad, "w"}} {
			if _, err := NewObjects(f, names[0], names[1], Full); !errors.Is(err, fault.ErrConfig) {
				t.Errorf("session and writer %q: %v", names, err)
			}
		}
	}
	if part("..") == ".." || part("") == "" {
		t.Error("a part of a name leads elsewhere")
	}
}

// TestWhatWasNotStoredIsStoredByTheNextSync loses a request, and the answer to one.
func TestWhatWasNotStoredIsStoredByTheNextSync(t *testing.T) {
	for _, lost := range []bool{false, true} {
		f := &folder{dir: t.TempDir(), fails: fault.ErrUnavailable, lost: lost}
		o := objects(t, f, "w")
		if err := o.Record(t.Context(), []doc.Failure{failure("logs", 0, 1)}); err != nil {
			t.Fatal(err)
		}
		if err := o.Sync(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("a Sync that stored nothing states %v", err)
		}
		if err := o.Record(t.Context(), []doc.Failure{failure("logs", 0, 2)}); err != nil {
			t.Fatal(err)
		}
		if err := o.Sync(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := read(t, f.dir); len(got) != 2 || f.puts[len(f.puts)-1] != "move/logs/0/w/000000.ndjson" {
			t.Errorf("lost answer %v: %d failures in %q", lost, len(got), f.puts)
		}
	}
}

// TestLinesBecomeObjectsBeforeTheyFillTheMemory records more than an object holds without a Sync.
func TestLinesBecomeObjectsBeforeTheyFillTheMemory(t *testing.T) {
	f := &folder{dir: t.TempDir()}
	o := objects(t, f, "w")
	big := []byte(`{"a":"` + strings.Repeat("x", 1<<20) + `"}`)
	for i := range int64(12) {
		x := failure("logs", 0, i)
		x.Source = big
		if err := o.Record(t.Context(), []doc.Failure{x}); err != nil {
			t.Fatal(err)
		}
		if len(o.buf) > objectSize+2*len(big) {
			t.Fatalf("%d bytes in memory", len(o.buf))
		}
	}
	if len(f.puts) < 2 {
		t.Errorf("objects %q", f.puts)
	}
	f.fails = fault.ErrConfig
	if err := o.Close(); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a refusal permanently: %v", err)
	}
}

// TestAWriterKilledBetweenObjectAndRecordLosesAndDoublesNothing does the work of a dead writer again.
func TestAWriterKilledBetweenObjectAndRecordLosesAndDoublesNothing(t *testing.T) {
	f := &folder{dir: t.TempDir()}
	all := []doc.Failure{failure("logs", 0, 1), failure("logs", 0, 2), failure("logs", 0, 3)}
	dead := objects(t, f, "dead")
	if err := errors.Join(dead.Record(t.Context(), all[:2]), dead.Sync(t.Context()), dead.Record(t.Context(), all[2:])); err != nil {
		t.Fatal(err)
	} // and is gone: its watermark is where it was
	next := objects(t, f, "next")
	if err := errors.Join(next.Record(t.Context(), all[:1]), next.Sync(t.Context()), next.Record(t.Context(), all[1:]), next.Sync(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := read(t, f.dir); !reflect.DeepEqual(got, all) {
		t.Errorf("%+v", got)
	}
}
