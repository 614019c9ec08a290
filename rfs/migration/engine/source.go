package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Unknown is the end of a source that is found only by reading.
const Unknown = int64(-1)

// Source reads the items of one kind: the live documents of a shard, or a part of a file.
type Source interface {
	// Open opens what an item covers, to be read from opts.From on, and sets the options that depend on it.
	Open(ctx context.Context, id cms.ItemID, opts *bulk.Options) (Reading, error)
	// Bytes returns its size in the repository; 0: unknown.
	Bytes(id cms.ItemID) int64
}

// FailingSource is a Source that knows more of an item that is given up.
type FailingSource interface {
	Source
	// FailedChecks returns the checks that are kept with a failed item. checks cover the part that was read; nil: nothing was read.
	FailedChecks(ctx context.Context, id cms.ItemID, checks json.RawMessage) (json.RawMessage, error)
}

// Reading is an open source. It is used by one goroutine.
type Reading interface {
	// Wrap puts what this source needs around the sender and the recorder.
	Wrap(opts *bulk.Options)
	// Next passes the next records to the sink, between one and the given number; io.EOF after the last.
	Next(ctx context.Context, to *Sink, most int) error
	// End returns the ordinal behind the last record, or Unknown; after io.EOF it is known.
	End() int64
	// Checks returns the checks of the records below the durable watermark, which are kept with the item; nil: nothing. It is
	// called before the watermark is recorded.
	Checks(watermark int64, setup, copying time.Duration) (json.RawMessage, error)
	// Close gives everything back.
	Close() error
}
