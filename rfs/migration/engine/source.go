package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Unknown is the end of a source that is only found by reading.
const Unknown = int64(-1)

// Source opens items of one kind: the live documents of a shard, or a range of a file.
type Source interface {
	// Open opens the range of an item, to be read from opts.From on, and sets the options that depend on it.
	Open(ctx context.Context, id cms.ItemID, opts *bulk.Options) (Reading, error)
	// Bytes returns the size of the item's shard or file in bytes; 0: unknown.
	Bytes(id cms.ItemID) int64
}

// FailingSource is a Source that adds details to the checks of a failed item.
type FailingSource interface {
	Source
	// FailedChecks returns the checks to store with a failed item. checks cover the documents that were read; nil: none.
	FailedChecks(ctx context.Context, id cms.ItemID, checks json.RawMessage) (json.RawMessage, error)
}

// Reading is an open source. It is used by one goroutine.
type Reading interface {
	// Wrap wraps the sender and the recorder in opts as this source requires.
	Wrap(opts *bulk.Options)
	// Next passes between one and most records to the sink. It returns io.EOF after the last record.
	Next(ctx context.Context, to *Sink, most int) error
	// End returns the ordinal after the last record, or Unknown. After io.EOF it is known.
	End() int64
	// Checks returns the checks of the records below the durable watermark, to be stored with the item; nil: none. It is called before the
	// watermark is recorded.
	Checks(watermark int64, setup, copying time.Duration) (json.RawMessage, error)
	// Close releases the resources of the source.
	Close() error
}
