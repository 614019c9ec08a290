package redrive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// appendTo appends lines to a file of failed documents.
func appendTo(t *testing.T, path string, lines ...[]byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(slices.Concat(lines...))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestReport_Classes checks that each document that stays because it failed is counted with what has to be repaired.
func TestReport_Classes(t *testing.T) {
	dir := t.TempDir()
	unsent := doc.Failure{Index: "logs", ID: "unsent", Shard: 3, Ordinal: 9, Reason: doc.NoSource, Detail: "not stored"}
	sourceless := refusal("orders", "sourceless", 10)
	sourceless.Source = nil
	write(t, dir, "w", refusal("logs", "a", 1), refusal("logs", "b", 2), refusal("orders", "c", 3), refusal("logs", "d", 4), refusal("logs", "fine", 5),
		unsent, sourceless, refusal("payroll", "e", 6), refusal("left", "f", 7))
	absent, changed := refusal("logs", "absent", 11), refusal("logs", "changed", 12)
	path := filepath.Join(dir, "w.ndjson")
	appendTo(t, path, failed.AppendLine(nil, &absent, failed.None), failed.AppendLine(nil, &changed, failed.Hash), []byte("{\n"))
	reasons := map[string]string{"a": "mapper_parsing_exception", "b": "mapper_parsing_exception", "c": "mapper_parsing_exception", "d": "strict_dynamic_mapping_exception"}
	r := redriveOf(Folder(dir), &cluster{refuse: func(id string) string { return reasons[id] }})
	r.Source = &snapshotOf{ids: []string{"changed"}, sources: map[string]string{"changed": `{"another":1}`}}
	r.Select = func(index string) bool { return index != "left" }
	r.Permit = func(_ context.Context, index string) (string, error) {
		return map[string]string{"payroll": "not one of the session's"}[index], nil
	}
	var log strings.Builder
	r.Log = slog.New(slog.NewTextHandler(&log, nil))
	report, err := r.Run(t.Context())
	if want := "12 documents: 1 indexed, 10 failed, 1 filtered, 0 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want || report.Files != 1 {
		t.Errorf("%s, %d files, %v; want %s", numbers(report), report.Files, err, want)
	}
	var got []string
	for _, c := range report.Classes {
		got = append(got, fmt.Sprintf("%d %s %s %s %s", c.Count, c.Index, c.Class, c.Reason, c.Example))
	}
	want := []string{
		"2 logs mapping mapper_parsing_exception because of a",
		"2 logs not_read_again not_read_again the snapshot, or the files of the import, do not hold it as it was sent, or rules leave it out now",
		"1  import_line unreadable_line line 12 of failed documents: unexpected end of JSON input: corrupt",
		"1 logs no_source no_source not stored",
		"1 logs strict_mapping strict_dynamic_mapping_exception because of d",
		"1 orders mapping mapper_parsing_exception because of c",
		"1 orders strict_mapping strict_dynamic_mapping_exception of then",
		"1 payroll index_not_permitted index_not_permitted not one of the session's",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if sent, again := r.Sent.Load(), r.Failed.Load(); sent != 5 || again != 4 {
		t.Errorf("%d sent, %d failed again", sent, again)
	}
	if !strings.Contains(log.String(), "line 12 of failed documents") {
		t.Errorf("the log does not name the line that cannot be read: %s", &log)
	}
}

// TestReport_SourceThatChanged checks that it is told apart from a document that is not there.
func TestReport_SourceThatChanged(t *testing.T) {
	dir := t.TempDir()
	changed := refusal("logs", "changed", 1)
	appendTo(t, filepath.Join(dir, "w.ndjson"), failed.AppendLine(nil, &changed, failed.Hash))
	r := redriveOf(Folder(dir), &cluster{})
	r.Source = &snapshotOf{ids: []string{"changed"}, sources: map[string]string{"changed": `{"another":1}`}}
	report, err := r.Run(t.Context())
	if err != nil || len(report.Classes) != 1 || !strings.HasPrefix(report.Classes[0].Example, "its source is not the failed one") {
		t.Errorf("%+v, %v", report, err)
	}
}

// TestReport_IsBounded checks that any number of indices, and messages of any length, take a bounded report.
func TestReport_IsBounded(t *testing.T) {
	r := Report{Classes: make([]Class, maxClasses-1)}
	for _, index := range []string{"last", "further", "last"} {
		r.count(index, NotPermitted, strings.Repeat("x", maxExample+1), classes.Of(NotPermitted, ""))
	}
	last := r.Classes[len(r.Classes)-1]
	if len(r.Classes) != maxClasses || last.Index != "last" || last.Count != 2 || len(last.Example) != maxExample {
		t.Errorf("%d classes, the last %s with %d documents and an example of %d bytes", len(r.Classes), last.Index, last.Count, len(last.Example))
	}
}

// TestRedrive_BoundOfPermits checks that indices beyond the bound are asked for again.
func TestRedrive_BoundOfPermits(t *testing.T) {
	asked := 0
	r := &Redrive{refused: map[string]string{}, Permit: func(context.Context, string) (string, error) {
		asked++
		return "no", nil
	}}
	for n := range maxClasses + 1 {
		if _, err := r.mayNot(t.Context(), fmt.Sprint(n)); err != nil {
			t.Fatal(err)
		}
	}
	for _, index := range []string{"0", fmt.Sprint(maxClasses)} {
		if why, err := r.mayNot(t.Context(), index); err != nil || why != "no" {
			t.Errorf("%q, %v", why, err)
		}
	}
	if asked != maxClasses+2 || len(r.refused) != maxClasses {
		t.Errorf("asked %d times, %d are remembered", asked, len(r.refused))
	}
}

func TestManyLinesOfARedrive(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1), refusal("logs", "b", 2), refusal("logs", "c", 3))
	before := held(t, dir)
	r := redriveOf(Folder(dir), &cluster{})
	r.maxLines = 2
	report, err := r.Run(t.Context())
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "w.ndjson") || !strings.Contains(err.Error(), "split -l 2") {
		t.Errorf("%v", err)
	}
	if report.Complete || len(held(t, dir)) > len(before) {
		t.Errorf("%s: %v", numbers(report), held(t, dir))
	}
	r = redriveOf(Folder(dir), &cluster{})
	r.maxLines = 3
	if report, err = r.Run(t.Context()); err != nil || !report.Complete || len(held(t, dir)) != 0 {
		t.Errorf("at the bound: %s, %v, %v", numbers(report), err, held(t, dir))
	}
}

// TestRedrive_BoundOfKnownDocuments checks that further lines of documents beyond the bound are sent again, and that none is lost.
func TestRedrive_BoundOfKnownDocuments(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1), refusal("logs", "b", 2), refusal("logs", "c", 3), refusal("logs", "c", 3), refusal("logs", "a", 1))
	target, account := &cluster{}, &ledger{}
	r := redriveOf(Folder(dir), target)
	r.maxKnown, r.Account = 2, account
	report, err := r.Run(t.Context())
	if want := "4 documents: 4 indexed, 0 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want || target.sent != 4 {
		t.Errorf("%s, %d sent, %v; want %s", numbers(report), target.sent, err, want)
	}
	if len(r.fates) != 2 || account.left["logs"] != 2 {
		t.Errorf("%d documents are remembered, the account has %v", len(r.fates), account.left)
	}
	lesser, better := refusal("logs", "a", 1), refusal("logs", "a", 1)
	appendTo(t, filepath.Join(dir, "w.ndjson"), failed.AppendLine(nil, &lesser, failed.None), failed.AppendLine(nil, &better, failed.Full))
	r = redriveOf(Folder(dir), target)
	r.maxKnown = 1
	if report, err := r.Run(t.Context()); err != nil || report.Indexed != 1 || report.Duplicates != 1 {
		t.Errorf("a better line of the last document that is remembered: %s, %v", numbers(report), err)
	}
}

// passes is a source that is read in passes of which one may fail.
type passes struct {
	snapshotOf

	wanted []int
	fails  int // number of the pass that fails
}

func (p *passes) Read(ctx context.Context, wanted []Document, each func(n int, d *doc.Document) error) error {
	if p.wanted = append(p.wanted, len(wanted)); len(p.wanted) == p.fails {
		return errStorage
	}
	return p.snapshotOf.Read(ctx, wanted, each)
}

// TestRedrive_ReadsInPasses checks that no more documents are looked for at a time than the bound, each once, and that a pass that
// fails ends the run.
func TestRedrive_ReadsInPasses(t *testing.T) {
	for _, c := range []struct {
		name   string
		fails  int
		passes []int
		report string
		err    error
	}{
		{"all", 0, []int{2, 2, 1}, "5 documents: 0 indexed, 5 failed, 0 filtered, 0 duplicates, 0 remaining, complete true", nil},
		{"the first fails", 1, []int{2}, "5 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 5 remaining, complete false", fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			var text []byte
			for n := range 5 {
				f := refusal("logs", fmt.Sprint(n), int64(n))
				text = failed.AppendLine(text, &f, failed.None)
			}
			appendTo(t, filepath.Join(dir, "w.ndjson"), text)
			source := &passes{fails: c.fails}
			r := redriveOf(Folder(dir), &cluster{})
			r.Source, r.maxWanted = source, 2
			report, err := r.Run(t.Context())
			if !errors.Is(err, c.err) || numbers(report) != c.report || !slices.Equal(source.wanted, c.passes) {
				t.Errorf("%s in passes of %v, %v; want %s", numbers(report), source.wanted, err, c.report)
			}
		})
	}
}

// TestRedrive_LongDocumentsAreSentAlone checks that no line is read while a long source is in memory.
func TestRedrive_LongDocumentsAreSentAlone(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		sent int // when the line behind it is read
	}{{"as long as others may be read beside", alone, 0}, {"longer", alone + 1, 1}} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			long := refusal("logs", "long", 1)
			long.Source = []byte(`"` + strings.Repeat("x", c.size-2) + `"`)
			write(t, dir, "w", long, refusal("logs", "next", 2))
			target := &cluster{}
			r := redriveOf(Folder(dir), target)
			var sent []int
			r.Select = func(string) bool {
				target.mu.Lock()
				defer target.mu.Unlock()
				sent = append(sent, target.sent)
				return true
			}
			if report, err := r.Run(t.Context()); err != nil || report.Indexed != 2 || !slices.Equal(sent, []int{0, c.sent}) {
				t.Errorf("%s, %v; sent before each line: %v", numbers(report), err, sent)
			}
		})
	}
}

// slow is a target that takes its time, whatever becomes of the run.
type slow struct{ cluster }

func (s *slow) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	time.Sleep(time.Second)
	return s.cluster.Send(ctx, body, n)
}

// TestRedrive_EndsInGoodOrder checks that the answers to requests in flight count when the run is ended, and nothing that was not sent.
func TestRedrive_EndsInGoodOrder(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		write(t, dir, "w", refusal("logs", "a", 1), refusal("logs", "b", 2), refusal("logs", "c", 3), refusal("logs", "d", 4))
		target := &slow{}
		r := redriveOf(Folder(dir), nil)
		r.Bulk = bulk.Options{Sender: target, MaxDocs: 1, MaxInFlight: 1}
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		report, err := r.Run(ctx)
		if want := "4 documents: 1 indexed, 0 failed, 0 filtered, 0 duplicates, 3 remaining, complete false"; !errors.Is(err, context.DeadlineExceeded) || numbers(report) != want {
			t.Errorf("%s, %v; want %s", numbers(report), err, want)
		}
		if got := held(t, dir)["w.ndjson"]; len(got) != 3 || len(target.got) != 1 {
			t.Errorf("%q arrived, the file holds %q", target.got, got)
		}
		if sent := r.Sent.Load(); sent > 2 { // one in flight, and one that is buffered
			t.Errorf("%d documents count as sent", sent)
		}
	})
}

// endless is a folder whose file has no end.
type endless struct {
	Folder

	read func() // called with each part that is read
}

type endlessEdit struct {
	Edit

	line []byte
	read func()
}

func (p endless) Edit(ctx context.Context, name string) (Edit, error) {
	e, err := p.Folder.Edit(ctx, name)
	f := refusal("logs", "a", 1)
	return endlessEdit{e, failed.AppendLine(nil, &f, failed.Full), p.read}, err
}

func (e endlessEdit) Open(context.Context) (io.ReadCloser, error) { return io.NopCloser(e), nil }

func (e endlessEdit) Read(p []byte) (int, error) {
	e.read()
	return copy(p, e.line), nil
}

// TestRedrive_EndsWhileAFileIsSurveyed checks that a long file does not keep a run that is ended.
func TestRedrive_EndsWhileAFileIsSurveyed(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	account, target := &ledger{}, &cluster{}
	r := redriveOf(endless{Folder(dir), cancel}, target)
	r.Account = account
	if report, err := r.Run(ctx); !errors.Is(err, context.Canceled) || report.Complete || len(account.calls) > 0 || target.sent > 0 {
		t.Errorf("%s, %v, %q", numbers(report), err, account.calls)
	}
}

// TestRedrive_AccountOfDamagedFiles checks that only documents count, also of a file that is surveyed as far as it can be read.
func TestRedrive_AccountOfDamagedFiles(t *testing.T) {
	for _, c := range []struct {
		name  string
		fails string
		want  string
	}{
		{"a line that cannot be read", "", "start 1 map[logs:2]"},
		{"a file that breaks off", "read 1", "start 1 map[logs:1]"},
		{"a file that cannot be read", "open 1", "start 1 map[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "w", refusal("logs", "a", 1), refusal("logs", "b", 2))
			appendTo(t, filepath.Join(dir, "w.ndjson"), []byte("{\n"))
			storage, account := &faulty{Folder: Folder(dir), fails: map[string]error{c.fails: errDied}, calls: map[string]int{}}, &ledger{}
			r := redriveOf(storage, &cluster{refuse: func(string) string { return "still" }})
			r.Account = account
			if _, err := r.Run(t.Context()); err != nil || len(account.calls) != 1 || account.calls[0] != c.want {
				t.Errorf("%q, %v; want %q", account.calls, err, c.want)
			}
		})
	}
}

// TestRedrive_WhatItAsksMayFail checks that the error ends the run, and that the file stays as it is.
func TestRedrive_WhatItAsksMayFail(t *testing.T) {
	for name, fails := range map[string]func(r *Redrive){
		"whether an index is permitted": func(r *Redrive) {
			r.Permit = func(context.Context, string) (string, error) { return "", errStorage }
		},
		"what becomes of documents that are there": func(r *Redrive) {
			r.Existing = func(context.Context, string) (bulk.Existing, error) { return bulk.Overwrite, errStorage }
		},
		"the record of what arrived": func(r *Redrive) {
			r.Arrived = func(context.Context, func(Document) bool) error { return errStorage }
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			write(t, dir, "w", refusal("logs", "a", 1))
			r := redriveOf(Folder(dir), &cluster{})
			fails(r)
			if report, err := r.Run(t.Context()); !errors.Is(err, fault.ErrUnavailable) || report.Complete || len(held(t, dir)["w.ndjson"]) != 1 {
				t.Errorf("%s, %v, %q", numbers(report), err, held(t, dir))
			}
		})
	}
}

// TestRedrive_TargetThatRefusesOneRequest checks that its error is not lost when documents of another kind follow.
func TestRedrive_TargetThatRefusesOneRequest(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "w", refusal("logs", "a", 1), refusal("stream-a", "b", 2))
	requests := 0
	target := &cluster{broken: func(int) error {
		if requests++; requests == 1 {
			return fault.ErrRejected
		}
		return nil
	}}
	report, err := redriveOf(Folder(dir), target).Run(t.Context())
	if want := "2 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 2 remaining, complete false"; !errors.Is(err, fault.ErrRejected) || numbers(report) != want {
		t.Errorf("%s, %v; want %s", numbers(report), err, want)
	}
}
