package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

var errStorage = fmt.Errorf("the storage does not answer: %w", fault.ErrUnavailable)

// TestFolder_Names checks which files are read: those that writers made, in all directories, and no others.
func TestFolder_Names(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"w2.ndjson", "w1.ndjson", "move/w3.ndjson", "move.ndjson", ".hidden.ndjson", "notes.txt", "ndjson"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "folder.ndjson"), 0o700), os.Symlink("w1.ndjson", filepath.Join(dir, "link.ndjson"))); err != nil {
		t.Fatal(err)
	}
	names, err := Folder(dir).Names(t.Context())
	want := []string{filepath.Join(dir, "move.ndjson"), filepath.Join(dir, "move", "w3.ndjson"), filepath.Join(dir, "w1.ndjson"), filepath.Join(dir, "w2.ndjson")}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
	if names, err := Folder(filepath.Join(dir, "missing")).Names(t.Context()); err != nil || len(names) != 0 {
		t.Errorf("a folder that is missing: %q, %v", names, err)
	}
	if _, err := Folder(filepath.Join(dir, "notes.txt", "failed")).Names(t.Context()); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a folder below a file: %v", err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Folder(dir).Names(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("after the run has ended: %v", err)
	}
}

// TestObjects_Names checks which objects are read: those of the session that hold lines, and no others.
func TestObjects_Names(t *testing.T) {
	line := failed.AppendLine(nil, &doc.Failure{Index: "logs", ID: "a"}, failed.Full)
	s := shelf{
		"move/logs/0/w/000001.ndjson": line, "move/logs/0/w/000000.ndjson": line, "move/logs/0/w/000002.ndjson": nil,
		"move/logs/0/w/.000003.ndjson": line, "move/logs/0/w/notes.txt": line, "move-2/logs/0/w/000000.ndjson": line,
	}
	names, err := Objects{Read: backwards{s}, Session: "move"}.Names(t.Context())
	if want := []string{"move/logs/0/w/000000.ndjson", "move/logs/0/w/000001.ndjson"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("%q, %v; want %q", names, err, want)
	}
}

// backwards is a bucket that lists its last object first.
type backwards struct{ shelf }

func (b backwards) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		var all []repo.Blob
		for blob := range b.shelf.List(ctx, prefix) {
			all = append(all, blob)
		}
		for _, blob := range slices.Backward(all) {
			if !yield(blob, nil) {
				return
			}
		}
	}
}

// broken is a bucket whose requests fail.
type broken struct {
	shelf

	list, open, put error
}

func (b *broken) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	if b.list == nil {
		return b.shelf.List(ctx, prefix)
	}
	return func(yield func(repo.Blob, error) bool) { yield(repo.Blob{}, b.list) }
}

func (b *broken) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if b.open != nil {
		return nil, b.open
	}
	return b.shelf.Open(ctx, name, off, n)
}

func (b *broken) putFrom(ctx context.Context, name string, body io.ReadSeeker, size int64) error {
	if b.put != nil {
		return b.put
	}
	return b.shelf.putFrom(ctx, name, body, size)
}

// TestObjects_StayWhenTheBucketFails checks that an error ends the run by name, and that no failed document is lost.
func TestObjects_StayWhenTheBucketFails(t *testing.T) {
	const name = "move/logs/3/w/000000.ndjson"
	for _, c := range []struct {
		name   string
		bucket broken
		drafts string // "": a directory that is there
		refuse string
		is     error
		says   string
	}{
		{name: "it cannot be listed", bucket: broken{list: errStorage}, is: fault.ErrUnavailable, says: "s3://shelf"},
		{name: "an object cannot be read", bucket: broken{open: errStorage}, is: fault.ErrUnavailable, says: name},
		{name: "an object cannot be replaced", bucket: broken{put: errStorage}, is: fault.ErrUnavailable, says: name},
		{name: "an object cannot be replaced by what failed again", bucket: broken{put: errStorage}, refuse: "a", is: fault.ErrUnavailable, says: name},
		{name: "there is no directory for what failed again", drafts: "missing", refuse: "a", is: fault.ErrConfig, says: "TMPDIR"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.bucket.shelf = shelf{}
			o, err := failed.NewObjects(c.bucket.shelf, "move", "w", failed.Full)
			if err == nil {
				err = errors.Join(o.Record(t.Context(), []doc.Failure{refusal("logs", "a", 1), refusal("logs", "b", 2)}), o.Close())
			}
			if err != nil {
				t.Fatal(err)
			}
			before := maps.Clone(c.bucket.shelf)
			storage := Objects{Read: &c.bucket, Put: c.bucket.putFrom, Session: "move", Drafts: filepath.Join(t.TempDir(), c.drafts)}
			report, err := redriveOf(storage, &cluster{refuse: func(id string) string { return map[string]string{c.refuse: "later"}[id] }}).Run(t.Context())
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || report.Complete {
				t.Errorf("%s, %v; want %q", numbers(report), err, c.says)
			}
			if !reflect.DeepEqual(c.bucket.shelf, before) {
				t.Errorf("the bucket holds %q", c.bucket.shelf)
			}
		})
	}
}

// TestObjectEdit_Bound checks that what replaces an object is bounded, and that nothing of it is written beyond the bound.
func TestObjectEdit_Bound(t *testing.T) {
	for _, c := range []struct {
		name string
		size int64
		err  error
	}{
		{"up to the bound", maxObject - 2, nil},
		{"beyond it", maxObject - 1, fault.ErrUnsupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := &objectEdit{objects: Objects{Drafts: t.TempDir()}, name: "move/logs/0/w/000000.ndjson", size: c.size}
			n, err := e.Write([]byte("{}"))
			if !errors.Is(err, c.err) || (err == nil) != (n == 2) || err != nil && !strings.Contains(err.Error(), e.name) {
				t.Errorf("%d bytes, %v; want %v", n, err, c.err)
			}
			if err := e.Close(); err != nil {
				t.Error(err)
			}
			if err := e.Close(); !errors.Is(err, fs.ErrClosed) {
				t.Errorf("the draft is still open: %v", err)
			}
		})
	}
}

// faulty is a folder whose calls fail as stated: "names 1" is its first listing, "edit 2" the second opening of a file, "open 3" its
// third reading, "read 3" the same after its first line, and "write 1" and "close 2" likewise. A run surveys a file, sends it, and
// reads it again to replace it.
type faulty struct {
	Folder

	fails  map[string]error
	calls  map[string]int
	opened int // readings that were not closed
}

func (p *faulty) call(name string) error {
	p.calls[name]++
	return p.fails[fmt.Sprint(name, " ", p.calls[name])]
}

func (p *faulty) Names(ctx context.Context) ([]string, error) {
	if err := p.call("names"); err != nil {
		return nil, err
	}
	return p.Folder.Names(ctx)
}

func (p *faulty) Edit(ctx context.Context, name string) (Edit, error) {
	if err := p.call("edit"); err != nil {
		return nil, err
	}
	e, err := p.Folder.Edit(ctx, name)
	return faultyEdit{e, p}, err
}

type faultyEdit struct {
	Edit

	storage *faulty
}

func (e faultyEdit) Open(ctx context.Context) (io.ReadCloser, error) {
	if err := e.storage.call("open"); err != nil {
		return nil, err
	}
	in, err := e.Edit.Open(ctx)
	if err != nil {
		return nil, err
	}
	e.storage.opened++
	r := faultyReader{Reader: in, storage: e.storage}
	if err := e.storage.call("read"); err != nil {
		text, _ := io.ReadAll(in)
		line, _, _ := bytes.Cut(text, []byte("\n"))
		r.Reader = io.MultiReader(bytes.NewReader(text[:len(line)+1]), iotest.ErrReader(err))
	}
	return r, nil
}

func (e faultyEdit) Write(p []byte) (int, error) {
	if err := e.storage.call("write"); err != nil {
		return 0, err
	}
	return e.Edit.Write(p)
}

func (e faultyEdit) Close() error { return errors.Join(e.Edit.Close(), e.storage.call("close")) }

type faultyReader struct {
	io.Reader

	storage *faulty
}

func (r faultyReader) Close() error {
	r.storage.opened--
	return nil
}

// TestFolder_StaysWhenItFails checks that an error ends the run, and that no line is lost for it.
func TestFolder_StaysWhenItFails(t *testing.T) {
	unsent := doc.Failure{Index: "logs", ID: "c", Shard: 3, Ordinal: 3, Reason: doc.NoSource}
	all := []doc.Failure{refusal("logs", "a", 1), refusal("logs", "b", 2), unsent, refusal("other", "d", 4)}
	refused := []doc.Failure{refusal("logs", "b", 1)}
	several := []doc.Failure{refusal("logs", "a", 1), refusal("logs", "b", 2), refusal("logs", "e", 3), refusal("logs", "f", 4)}
	for _, c := range []struct {
		name, fails string
		lines       []doc.Failure
		broken      bool // the target, after the first request
		held        int  // lines afterwards
	}{
		{"it cannot be listed", "names 1", all, false, 4},
		{"a file cannot be opened to be surveyed", "edit 1", all, false, 4},
		{"a file cannot be closed after it was surveyed", "close 1", all, false, 4},
		{"a file cannot be opened to be sent", "edit 2", all, false, 4},
		{"a file cannot be read to be sent", "open 2", all, false, 4},
		{"a file breaks off when it is sent", "read 2", all, false, 4},
		{"a file cannot be read to be replaced", "open 3", all, false, 4},
		{"a file breaks off when it is read to be replaced", "read 3", all, false, 4},
		{"there is no room for what is not sent", "write 1", all, false, 4},
		{"there is no room for what fails again", "write 1", refused, false, 1},
		{"there is no room for what is left when the target breaks", "write 2", several, true, 4},
		{"a file cannot be closed after it was replaced", "close 2", all, false, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "w", c.lines...)
			storage := &faulty{Folder: Folder(dir), fails: map[string]error{c.fails: errDied}, calls: map[string]int{}}
			target := &cluster{refuse: func(id string) string { return map[string]string{"b": "later"}[id] }}
			if c.broken {
				target.broken = func(sent int) error { return map[bool]error{true: fault.ErrRejected}[sent > 0] }
			}
			r := redriveOf(storage, target)
			r.Bulk.MaxInFlight = 1
			r.Select = func(index string) bool { return index == "logs" }
			account := &ledger{}
			r.Account = account
			report, err := r.Run(t.Context())
			if !errors.Is(err, errDied) || errors.Is(err, fault.ErrRejected) != c.broken || report.Complete {
				t.Errorf("%s, %v", numbers(report), err)
			}
			if got := held(t, dir)["w.ndjson"]; len(got) != c.held {
				t.Errorf("the file holds %q", got)
			}
			if storage.opened != 0 {
				t.Errorf("%d readings were not closed", storage.opened)
			}
			if surveyed := storage.calls["close"] > 0 && c.fails != "close 1"; surveyed != (len(account.calls) > 0) {
				t.Errorf("the account: %q", account.calls)
			}
		})
	}
}

// TestFolder_NoRoomForWhatIsNotReadAgain checks that a document which the snapshot does not hold stays when it cannot be written.
func TestFolder_NoRoomForWhatIsNotReadAgain(t *testing.T) {
	dir := t.TempDir()
	f := refusal("logs", "a", 1)
	appendTo(t, filepath.Join(dir, "w.ndjson"), failed.AppendLine(nil, &f, failed.None))
	r := redriveOf(&faulty{Folder: Folder(dir), fails: map[string]error{"write 1": errDied}, calls: map[string]int{}}, &cluster{})
	r.Source = &snapshotOf{}
	if report, err := r.Run(t.Context()); !errors.Is(err, errDied) || report.Complete || len(held(t, dir)["w.ndjson"]) != 1 {
		t.Errorf("%s, %v, %q", numbers(report), err, held(t, dir))
	}
}

// TestFolder_FileThatVanishes checks that it is named.
func TestFolder_FileThatVanishes(t *testing.T) {
	name := filepath.Join(t.TempDir(), "w.ndjson")
	if _, err := Folder(filepath.Dir(name)).Edit(t.Context(), name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
		t.Errorf("%v", err)
	}
}

// TestFolder_DraftsOfKilledRuns checks that they are removed.
func TestFolder_DraftsOfKilledRuns(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1))
	draft, err := files.NewDraft(filepath.Join(dir, "w.ndjson"), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := draft.File.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := redriveOf(Folder(dir), &cluster{}).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// listing is a list of recorded failures that may end in an error.
func listing(err error, failures ...doc.Failure) func(context.Context) iter.Seq2[Record, error] {
	return func(context.Context) iter.Seq2[Record, error] {
		return func(yield func(Record, error) bool) {
			for _, f := range failures {
				f.Source = nil
				if !yield(Record{Failure: f}, nil) {
					return
				}
			}
			if err != nil {
				yield(Record{}, err)
			}
		}
	}
}

// TestRecorded_EndsWhenTheListFails checks that nothing is sent of a list that is not whole, and that failures which cannot be
// recorded end the run.
func TestRecorded_EndsWhenTheListFails(t *testing.T) {
	all := []doc.Failure{refusal("logs", "a", 1), refusal("logs", "b", 2)}
	for _, c := range []struct {
		name    string
		storage Recorded
		is      error
		says    string
		report  string
	}{
		{"it cannot be listed to its end", Recorded{List: listing(errStorage, all...)}, fault.ErrUnavailable, "",
			"0 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 0 remaining, complete false"},
		{"there is no directory for the list", Recorded{List: listing(nil, all...), Drafts: "missing"}, fault.ErrConfig, "control index",
			"0 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 0 remaining, complete false"},
		{"what failed again cannot be recorded", Recorded{List: listing(nil, all...), Note: func(context.Context, []doc.Failure) error { return errStorage }}, fault.ErrUnavailable, "",
			"2 documents: 0 indexed, 1 failed, 0 filtered, 0 duplicates, 1 remaining, complete false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.storage.Name = "control index"
			c.storage.Drafts = filepath.Join(t.TempDir(), c.storage.Drafts)
			target := &cluster{refuse: func(id string) string { return map[string]string{"b": "later"}[id] }}
			r := redriveOf(c.storage, target)
			r.Source = &snapshotOf{ids: []string{"a", "b"}}
			report, err := r.Run(t.Context())
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || numbers(report) != c.report {
				t.Errorf("%s, %v\nwant %s", numbers(report), err, c.report)
			}
		})
	}
}

// TestRecorded_IsListedOnce checks that a list stays the same while documents of it are removed.
func TestRecorded_IsListedOnce(t *testing.T) {
	listed := 0
	storage := Recorded{Name: "control index", Drafts: t.TempDir(), List: func(ctx context.Context) iter.Seq2[Record, error] {
		listed++
		return listing(nil, refusal("logs", fmt.Sprint(listed), 1))(ctx)
	}}
	e, err := storage.Edit(t.Context(), storage.Name)
	if err != nil {
		t.Fatal(err)
	}
	var texts [][]byte
	for range 2 {
		in, err := e.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(in)
		if err = errors.Join(err, in.Close()); err != nil {
			t.Fatal(err)
		}
		texts = append(texts, text)
	}
	if listed != 1 || len(texts[0]) == 0 || !bytes.Equal(texts[0], texts[1]) {
		t.Errorf("listed %d times: %q", listed, texts)
	}
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := e.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("the list is still open: %v", err)
	}
}
