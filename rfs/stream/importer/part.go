package importer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// part is the source of the items of a part of a file: the documents that start there.
type part struct {
	*Import
	window Task
}

// Bytes returns 0: a file is not in the repository of a snapshot.
func (*part) Bytes(cms.ItemID) int64 { return 0 }

// run is an open part of a file.
type run struct {
	*part
	ctx  context.Context // of the reading
	open *window
	at   int64 // offset after the last document read
	back int64 // maximum window of frames in bytes; 0: the window of the first one
	end  int64
	id   idMaker
}

// Open opens the part at the offset opts.From.
func (s *part) Open(ctx context.Context, _ cms.ItemID, opts *bulk.Options) (engine.Reading, error) {
	if s.Indices != nil {
		opts.Made = s.Indices.Made
	}
	opts.Index, opts.Shard, opts.EmitType = s.window.File, s.window.Number, s.Types == EmitTypes
	r := &run{part: s, ctx: ctx, at: opts.From, end: s.window.To}
	if s.window.Compression != plain {
		r.end = engine.Unknown
	}
	return r, r.reopen()
}

// reopen opens the file after the last document read.
func (r *run) reopen() (err error) {
	r.open, err = openWindow(r.ctx, r.Source, r.window, r.at, lineLimit(r.MaxSource), room{r.Memory, r.Frames}, r.back)
	return err
}

// Wrap makes the records of failed documents name their positions.
func (r *run) Wrap(opts *bulk.Options) {
	opts.Recorder = &recorder{Recorder: opts.Recorder, window: r.window, failed: &r.seen.failed}
}

// Next passes the next document to the sink. If a later frame has a larger window than the first, it opens the file once more,
// while it holds no line.
func (r *run) Next(ctx context.Context, to *engine.Sink, _ int) error {
	p, err := r.open.next()
	if errors.Is(err, errFurther) && r.back == 0 {
		r.back = MaxBack
		r.open.close()
		r.open = nil
		if err := r.reopen(); err != nil {
			return err
		}
		p, err = r.open.next()
	}
	if errors.Is(err, io.EOF) && r.end == engine.Unknown {
		r.end = max(r.open.lines.at, r.at)
	}
	if err != nil {
		return err
	}
	to.Read(p.at)
	r.seen.documents.Add(1)
	r.seen.bytes.Add(int64(len(p.source)))
	decided, err := r.decide(ctx, p)
	switch {
	case err != nil:
	case decided == filtered:
		err = to.Filter(ctx, p.at)
	case decided == failing:
		err = to.Fail(ctx, r.failure(p))
	default:
		if p.action.ID == nil {
			p.action.ID = r.id.make(r.window.File, p.at)
		}
		err = to.Add(ctx, &doc.Document{Ordinal: p.at, Index: p.action.Index, Type: p.action.Type, ID: p.action.ID, Routing: p.action.Routing, Source: p.source})
	}
	if err == nil {
		err = r.calm(ctx, to, len(p.source))
	}
	r.at = p.at + 1
	return err
}

// End returns the end of the part, for a compressed file of its decompressed content, in bytes.
func (r *run) End() int64 { return r.end }

// Checks returns nothing: the files were compared with the manifest before the import started.
func (*run) Checks(int64, time.Duration, time.Duration) (json.RawMessage, error) { return nil, nil }

// Close closes the file.
func (r *run) Close() error {
	if r.open != nil {
		r.open.close()
	}
	return nil
}

// lineLimit returns the maximum length of a source in bytes; most is the target's limit, 0 if unknown.
func lineLimit(most int64) int {
	if 0 < most && most < maxLine {
		return int(most)
	}
	return maxLine
}

// calm blocks until a long document is delivered before the next one is read, and ends the turn of this part.
func (r *run) calm(ctx context.Context, to *engine.Sink, size int) error {
	if !r.open.lines.turn.held() {
		return nil
	}
	if size > keepBuffer {
		if err := to.Flush(ctx); err != nil {
			return err
		}
	}
	r.open.lines.small()
	return nil
}
