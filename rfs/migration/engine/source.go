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

// Source is what the items of one kind are read from: the live documents of a shard, or a part of a file.
type Source interface {
	// Open opens what an item covers, to be read from opts.From on, and sets the options that depend on it.
	Open(ctx context.Context, id cms.ItemID, opts *bulk.Options) (Reading, error)
	// Bytes returns what the whole of it takes in the repository; 0: not known.
	Bytes(id cms.ItemID) int64
}

// FailingSource is a Source that knows more of an item that is given up.
type FailingSource interface {
	Source
	// FailedChecks returns what is kept with an item that failed. checks are those of what was read of it, nil: nothing was.
	FailedChecks(ctx context.Context, id cms.ItemID, checks json.RawMessage) (json.RawMessage, error)
}

// Reading is an open source. It is used by one goroutine.
type Reading interface {
	// Wrap puts what this source needs around the sender and the recorder.
	Wrap(opts *bulk.Options)
	// Next passes the next records to the sink, one or more, but at most so many; io.EOF after the last.
	Next(ctx context.Context, to *Sink, most int) error
	// End returns the ordinal behind the last record, or Unknown; after io.EOF it is known.
	End() int64
	// Checks returns what is kept with the item of what was read below the watermark, which is durable; nil: nothing. It is
	// called before the watermark is recorded.
	Checks(watermark int64, setup, copying time.Duration) (json.RawMessage, error)
	// Close gives everything back.
	Close() error
}
