package redrive

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/fault"
)

const (
	// drainTimeout is how long requests under way are waited for when the run ends early.
	drainTimeout = 12 * time.Second
	// alone is the longest source, in bytes, beside which others are read: a longer one is delivered first.
	alone = 4 << 20
	// lastWrite is how long replacing a file may take when the run ends early.
	lastWrite = time.Minute
)

// file is one file in work. Ordinals of its loader are the numbers of its lines.
type file struct {
	run  *Redrive
	edit Edit
	name string

	loader *bulk.Loader
	create bool // the loader's op
	begin  int  // first line of the loader

	mu    sync.Mutex
	lines []entry
	err   error // of writing the draft
	buf   []byte
	// changed: a document failed again, and its line has the reason of now.
	changed bool
}

// entry is one line of the file.
type entry struct {
	key     key
	shard   int
	ordinal int64
	fate    fate
}

// send reads the file and sends its documents, until their fates are known or an error ends it.
func (f *file) send(ctx context.Context) error {
	most := cmp.Or(f.run.maxLines, maxLines)
	err := f.each(ctx, func(n int, l failed.Line) error {
		if n == most {
			return fmt.Errorf("failed documents in %s: more than %d lines: split the file into shorter ones (split -l %d), and run the same command again: %w", f.name, most, most, fault.ErrConfig)
		}
		return f.take(ctx, l)
	})
	if err == nil {
		err = f.flush(ctx)
	}
	if err != nil && f.loader != nil {
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

// take decides what becomes of a line.
func (f *file) take(ctx context.Context, l failed.Line) error {
	x := l.Failure
	d := Document{Index: x.Index, ID: x.ID, Shard: x.Shard, Ordinal: x.Ordinal}
	e := entry{key: d.key(), shard: x.Shard, ordinal: x.Ordinal}
	_, known := f.run.fates[e.key]
	switch {
	case l.Err != nil:
		e.fate = unreadable
		f.run.Log.WarnContext(ctx, "line kept", "error", l.Err)
	case known:
		e.fate = duplicate
	case f.run.Select != nil && !f.run.Select(x.Index):
		e.fate = kept
	case !sendable(x):
		e.fate = again
	}
	if e.fate != duplicate && e.fate != unreadable && len(f.run.fates) < maxKnown {
		f.run.fates[e.key] = e.fate
	}
	if e.fate == pending {
		return f.add(ctx, e, x)
	}
	f.append(e)
	if e.fate == duplicate {
		return nil
	}
	return f.stay(e.fate, l)
}

// stay writes a line to the draft that is not sent.
func (f *file) stay(why fate, l failed.Line) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch why {
	case unreadable:
		f.run.report.count("", Unreadable, l.Err.Error())
	case again:
		f.run.report.count(l.Failure.Index, l.Failure.Reason, l.Failure.Detail)
	}
	return f.put(l.Text)
}

// add passes a document on to the loader of its op.
func (f *file) add(ctx context.Context, e entry, x doc.Failure) error {
	create, err := f.run.createOnly(ctx, x.Index)
	if err != nil {
		return err
	}
	if f.loader == nil || create != f.create {
		if err := f.flush(ctx); err != nil {
			return err
		}
		opts := f.run.Bulk
		opts.Recorder, opts.From, opts.Index, opts.EmitType = f, int64(len(f.lines)), x.Index, true
		if opts.Existing = bulk.Overwrite; create {
			opts.Existing = bulk.Keep
		}
		f.loader, f.create, f.begin = bulk.New(opts), create, len(f.lines)
	}
	n := f.append(e)
	d := doc.Document{
		Ordinal: int64(n), Index: []byte(x.Index), ID: []byte(x.ID), Source: x.Source,
	}
	if x.Type != "" {
		d.Type = []byte(x.Type)
	}
	if x.Routing != "" {
		d.Routing = []byte(x.Routing)
	}
	if err := f.loader.Add(ctx, &d); err != nil {
		return err
	}
	f.run.Sent.Add(1)
	if len(x.Source) > alone {
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

// settle marks the documents that arrived: those below the watermark that did not fail.
func (f *file) settle() {
	watermark := f.loader.Watermark()
	f.mu.Lock()
	defer f.mu.Unlock()
	for n := f.begin; n < len(f.lines) && int64(n) < watermark; n++ {
		if e := &f.lines[n]; e.fate == pending {
			e.fate = arrived
		}
	}
}

// Record writes documents that failed again into the draft, with the reason of now.
func (f *file) Record(_ context.Context, failures []doc.Failure) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i := range failures {
		x := failures[i]
		if x.Ordinal < 0 || x.Ordinal >= int64(len(f.lines)) {
			return fmt.Errorf("failure of line %d of %d", x.Ordinal, len(f.lines))
		}
		e := &f.lines[x.Ordinal]
		x.Shard, x.Ordinal = e.shard, e.ordinal
		var err error
		if f.buf, err = failed.AppendLine(f.buf[:0], &x); err != nil {
			return err
		}
		if err := f.put(f.buf); err != nil {
			return err
		}
		e.fate, f.changed = again, true
		f.run.report.count(x.Index, x.Reason, x.Detail)
	}
	f.run.Failed.Add(int64(len(failures)))
	return nil
}

// Sync does nothing: the draft replaces the file when all of it is durable.
func (f *file) Sync(context.Context) error { return nil }

// write appends a line to the draft as it is.
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

// save replaces the file unless nothing in it changes, and counts what became of its documents. The draft is complete
// but for the lines whose fate is not known, which follow as they are.
func (f *file) save(ctx context.Context) error {
	if f.err != nil {
		return nil // the draft is not usable, which send has returned
	}
	changed, remaining := f.changed, int64(0)
	for _, e := range f.lines {
		changed = changed || e.fate == arrived || e.fate == duplicate
	}
	err := f.each(ctx, func(n int, l failed.Line) error {
		if n < len(f.lines) && f.lines[n].fate != pending {
			return nil
		}
		remaining++
		if !changed {
			return nil
		}
		return f.write(l.Text)
	})
	if err == nil && changed {
		err = f.commit(ctx)
	}
	if err != nil {
		return err
	}
	f.run.report.add(f.lines, remaining)
	return nil
}

// commit reports what arrived, then replaces the file: a process that dies between both does it again.
func (f *file) commit(ctx context.Context) error {
	if f.run.Arrived != nil {
		for _, e := range f.lines {
			if _, known := f.run.fates[e.key]; known && e.fate == arrived {
				f.run.fates[e.key] = arrived
			}
		}
		err := f.run.Arrived(ctx, func(d Document) bool { return f.run.fates[d.key()] == arrived })
		if err != nil {
			return err
		}
	}
	return f.edit.Commit(ctx)
}
