package redrive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/failed/classes"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

const (
	// drainTimeout limits the wait for requests in flight when the run ends early.
	drainTimeout = 12 * time.Second
	// alone is the length of a source, in bytes, above which it is delivered before the next one is read.
	alone = 4 << 20
	// lastWrite limits the time to replace a file when the run ends early.
	lastWrite = time.Minute
)

// file is one active file.
type file struct {
	run  *Redrive
	edit Edit
	name string
	// noter records documents that failed again; nil: the draft contains them.
	noter noter

	loader *bulk.Loader
	exists bulk.Existing // of the loader
	begin  int           // position in order of the first document of the loader
	kept   int64         // documents for which the target kept its own

	wanted []wanted // lines whose sources must be read again

	mu    sync.Mutex
	lines []entry
	order []int32 // lines in the order in which they were sent; positions are the ordinals of loaders
	err   error   // of writing the draft
	buf   []byte
	// changed states that a document failed again, and its line has the new reason.
	changed bool
}

// entry is one line of the file.
type entry struct {
	key     key
	shard   int
	ordinal int64
	fate    fate
	content uint8 // index into contents
}

// over reports whether the document has not to be sent again.
func (e entry) over() bool { return e.fate == arrived || e.fate == gone }

// contents states which part of their sources lines hold.
var contents = [...]failed.Content{failed.Full, failed.Hash, failed.None}

// wanted is a line whose source must be read again.
type wanted struct {
	Document

	n    int // of the line
	line failed.Line
}

// maxWanted is the maximum number of documents that one pass reads again.
const maxWanted = 10_000

// send reads the file and sends its documents. It returns when their results are known, or an error.
func (f *file) send(ctx context.Context) error {
	err := f.each(ctx, func(n int, l failed.Line) error {
		if most := f.run.maxLines; n == most {
			return fmt.Errorf("failed documents in %s: more than %d lines: split the file into shorter ones (split -l %d), and run the same command again: %w", f.name, most, most, fault.ErrConfig)
		}
		return f.take(ctx, l)
	})
	if err == nil {
		err = f.fetch(ctx)
	}
	if err == nil {
		err = f.flush(ctx)
	}
	if f.loader != nil { // the run ends early
		patience, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
		defer cancel()
		f.loader.Drain(patience)
		f.settle()
	}
	return err
}

// each calls do with every line and its number.
func (f *file) each(ctx context.Context, do func(n int, l failed.Line) error) error {
	in, err := f.edit.Open(ctx)
	if err != nil {
		return err
	}
	n := 0
	for l, lerr := range failed.Lines(in, f.run.MaxDocument) {
		if lerr != nil {
			err = fmt.Errorf("failed documents in %s: %w", f.name, lerr)
		} else {
			err = do(n, l)
		}
		if err != nil {
			break
		}
		n++
	}
	return errors.Join(err, in.Close())
}

// take sends the document of a line, or keeps or drops the line.
func (f *file) take(ctx context.Context, l failed.Line) error {
	x := l.Failure
	d, rank := documentOf(l), rank(l)
	e := entry{key: d.key(), shard: x.Shard, ordinal: x.Ordinal, content: uint8(max(0, slices.Index(contents[:], l.Content)))}
	was, seen := f.run.fates[e.key]
	switch {
	case l.Err != nil:
		e.fate = unreadable
		f.run.Log.WarnContext(ctx, "line kept", "error", l.Err)
	case was.superseded(rank):
		e.fate = duplicate
	case f.run.Select != nil && !f.run.Select(x.Index):
		e.fate = left
	case f.run.later[onTarget(x.Index, x.ID, x.Routing)] == deleted:
		e.fate = gone
	default:
		why, err := f.run.mayNot(ctx, x.Index)
		if err != nil {
			return err
		}
		if why != "" {
			l.Err = notPermitted(why)
		}
		if why != "" || !sendable(l) {
			e.fate = again
		}
	}
	if e.fate == pending && l.Omitted() && f.run.Source == nil {
		return fmt.Errorf("%s holds no sources (--failed-documents-content): --repo-uri and --rules of the migration, or --from of the import, read them again: %w", f.name, fault.ErrConfig)
	}
	if e.fate != duplicate && e.fate != unreadable && (seen || len(f.run.fates) < f.run.maxKnown) {
		f.run.fates[e.key] = known{best: rank, taken: true}
	}
	n := f.append(e)
	switch e.fate {
	case pending:
	case duplicate, gone:
		return nil
	default:
		return f.stay(e.fate, l)
	}
	if !l.Omitted() {
		return f.add(ctx, n, &doc.Document{Index: []byte(x.Index), ID: []byte(x.ID), Type: bytesOf(x.Type), Routing: bytesOf(x.Routing), Source: x.Source, Version: x.Version})
	}
	l.Text = bytes.Clone(l.Text)
	if f.wanted = append(f.wanted, wanted{Document: d, n: n, line: l}); len(f.wanted) < f.run.maxWanted {
		return nil
	}
	return f.fetch(ctx)
}

// notPermitted is the error for a line whose index is not permitted, with the reason.
type notPermitted string

func (n notPermitted) Error() string { return string(n) }

// bytesOf returns nil for "".
func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

// stay writes a line that is not sent to the draft.
func (f *file) stay(why fate, l failed.Line) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch why {
	case unreadable:
		f.run.report.count("", Unreadable, l.Err.Error(), classes.Of(Unreadable, ""))
	case again:
		if why := notPermitted(""); errors.As(l.Err, &why) {
			f.run.report.count(l.Failure.Index, NotPermitted, why.Error(), classes.Of(NotPermitted, ""))
			break
		}
		f.run.report.count(l.Failure.Index, l.Failure.Reason, l.Failure.Detail, l.Class())
	}
	return f.put(l.Text)
}

// fetch reads the wanted documents again and sends them. Documents that the source does not contain unchanged stay in the file.
func (f *file) fetch(ctx context.Context) error {
	if len(f.wanted) == 0 {
		return nil
	}
	all, sent := f.wanted, make([]bool, len(f.wanted))
	f.wanted = nil
	documents, why := make([]Document, len(all)), make([]string, len(all))
	for i, w := range all {
		documents[i], why[i] = w.Document, "the snapshot, or the files of the import, do not hold it as it was sent, or rules leave it out now"
	}
	err := f.run.Source.Read(ctx, documents, func(i int, d *doc.Document) error {
		w := all[i]
		if w.line.Content == failed.Hash && failed.Digest(d.Source) != w.line.SHA256 {
			why[i] = "its source is not the failed one: the rules, the snapshot or the files have changed"
			return nil
		}
		if sent[i] {
			return nil
		}
		sent[i] = true
		x := *d
		return f.add(ctx, w.n, &x)
	})
	if err != nil {
		return fmt.Errorf("read failed documents again: %w", err)
	}
	for i, w := range all {
		if sent[i] {
			continue
		}
		f.mu.Lock()
		f.lines[w.n].fate = again
		f.run.report.count(w.Index, NotAgain, why[i], classes.Of(NotAgain, ""))
		err := f.put(w.line.Text)
		f.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// add sets the ordinal of the document of a line and passes it to the loader for its bulk.Existing.
func (f *file) add(ctx context.Context, n int, d *doc.Document) error {
	existing, err := f.run.existingIn(ctx, string(d.Index))
	if err != nil {
		return err
	}
	if f.loader == nil || existing != f.exists {
		if err := f.flush(ctx); err != nil {
			return err
		}
		opts := f.run.Bulk
		opts.Recorder, opts.From, opts.Index, opts.EmitType = f, int64(len(f.order)), string(d.Index), true
		opts.Existing, opts.SentBelow = existing, math.MaxInt64 // a killed redrive may have sent it
		f.loader, f.exists, f.begin = bulk.New(ctx, opts), existing, len(f.order)
	}
	f.mu.Lock()
	d.Ordinal = int64(len(f.order))
	f.order = append(f.order, int32(n))
	f.mu.Unlock()
	if err := f.loader.Add(ctx, d); err != nil {
		return err
	}
	f.run.Sent.Add(1)
	if len(d.Source) > alone {
		return f.flush(ctx)
	}
	return nil
}

func (f *file) append(e entry) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lines = append(f.lines, e)
	return len(f.lines) - 1
}

// flush blocks until the loader's documents are done.
func (f *file) flush(ctx context.Context) error {
	if f.loader == nil {
		return nil
	}
	if err := f.loader.Flush(ctx); err != nil {
		return err
	}
	f.settle()
	f.loader = nil
	return nil
}

// settle marks the documents below the watermark that did not fail as arrived.
func (f *file) settle() {
	watermark, counts := f.loader.Settled()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kept += counts.Kept
	for _, n := range f.order[f.begin:watermark] {
		if e := &f.lines[n]; e.fate == pending {
			e.fate = arrived
		}
	}
}

// Record keeps documents that failed again, with the new reason.
func (f *file) Record(ctx context.Context, failures []doc.Failure) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range failures {
		x := &failures[i]
		e := &f.lines[f.order[x.Ordinal]]
		x.Shard, x.Ordinal = e.shard, e.ordinal
		e.fate, f.changed = again, true
		f.run.report.count(x.Index, x.Reason, x.Detail, classes.Of(x.Reason, x.Detail))
		if f.noter != nil {
			continue
		}
		f.buf = failed.AppendLine(f.buf[:0], x, contents[e.content])
		if err := f.put(f.buf); err != nil {
			return err
		}
	}
	f.run.Failed.Add(int64(len(failures)))
	if f.noter != nil {
		return f.noter.note(ctx, failures)
	}
	return nil
}

// Sync does nothing: the draft becomes durable as a whole when it replaces the file.
func (f *file) Sync(context.Context) error { return nil }

// write appends an unchanged line to the draft.
func (f *file) write(text []byte) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.put(text)
}

func (f *file) put(text []byte) error {
	if f.err == nil {
		_, f.err = f.edit.Write(text)
	}
	return f.err
}

// save replaces the file if it changes, and counts the results of its documents. It first appends the lines with
// unknown results to the draft, unchanged.
func (f *file) save(ctx context.Context) error {
	if f.err != nil {
		return nil // the draft is unusable; send has returned the error
	}
	changed, remaining := f.changed, int64(0)
	for _, e := range f.lines {
		changed = changed || e.over() || e.fate == duplicate
		if was, seen := f.run.fates[e.key]; seen && e.over() {
			was.arrived = true
			f.run.fates[e.key] = was
		}
	}
	lines, documents := 0, map[string]int64{}
	err := f.each(ctx, func(n int, l failed.Line) error {
		lines++
		if n < len(f.lines) && f.lines[n].fate != pending {
			if f.lines[n].over() {
				documents[l.Failure.Index]++
			}
			return nil
		}
		remaining++
		if !changed {
			return nil
		}
		return f.write(l.Text)
	})
	if err == nil && changed {
		err = f.commit(ctx, lines, documents)
	}
	if err != nil {
		return err
	}
	f.run.report.add(f.lines, f.kept, remaining)
	return nil
}

// commit reports the documents that arrived, then replaces the file. If the process dies in between, the next run does both again.
func (f *file) commit(ctx context.Context, lines int, documents map[string]int64) error {
	if f.run.Arrived != nil {
		err := f.run.Arrived(ctx, func(d Document) bool { return f.run.fates[d.key()].arrived })
		if err != nil {
			return err
		}
	}
	if f.run.Account != nil && len(documents) > 0 {
		if err := f.run.Account.Delivered(ctx, f.name, lines, documents); err != nil {
			return err
		}
	}
	return f.edit.Commit(ctx)
}
