package bulk

import (
	"context"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Defaults of Options.
const (
	DefaultMaxBytes     = 5 << 20
	DefaultMaxInFlight  = 10
	DefaultStallTimeout = 10 * time.Minute
	DefaultMaxAge       = 10 * time.Second
)

// UnsentBytes is the maximum bytes of a body that is not sent anywhere: it stays in the caches of a processor core. Bodies of
// DefaultMaxBytes cost a dry run a quarter of its CPU time.
const UnsentBytes = 1 << 20

// Recorder stores failed documents. It is safe for concurrent use.
type Recorder interface {
	// Record appends failures, which are durable after the next Sync.
	Record(ctx context.Context, failures []doc.Failure) error
	Sync(ctx context.Context) error
}

// Options configures a Loader. Sender and Recorder are required; zero values of the others mean
// their defaults.
type Options struct {
	Sender   Sender
	Recorder Recorder
	From     int64  // initial watermark
	Index    string // target index of most documents; used in errors only
	Shard    int    // shard of the documents, for the record of failures
	EmitType bool   // write the mapping type into action lines
	// Existing is the policy for documents whose id the target already has.
	Existing Existing
	// SentBelow is the ordinal below which documents may have been sent before. With Keep, an existing document
	// is compared with the sent one, also after a request whose response was lost; our own copy counts as
	// indexed.
	SentBelow int64
	// Finder reads the existing documents for this comparison; if it is nil, they count as kept. With Own it also detects
	// documents with the same id but another routing.
	Finder Finder
	// Ordered makes documents of the same index and id take effect in the order of their ordinals: concurrent requests never
	// contain the same id. Leave it unset if each id occurs once, or if the order does not matter.
	Ordered bool
	Targets []string // all target indices of the documents, except indices named by rules
	// Own states that only this session writes to the target indices, so that the versions of their documents count its own earlier
	// requests. Without it an existing document counts once.
	Own bool
	// Made reports the same of an index that is created, or found empty, when its first document arrives; nil: false.
	Made func(index string) bool
	// First states, with Own or Made, that no other Loader has sent documents of the range. A document that replaces another in
	// these indices is then a collision. It is recorded as failed, since one of the two is missing on the target.
	First bool
	// Distinct states that no two documents of this session have the same id, so that a collision is with a document of another client.
	Distinct bool
	MaxID    int // maximum length of an id in bytes; a document with a longer id is recorded as failed without being sent; 0: no limit

	MaxBytes    int    // maximum bytes of a body, DefaultMaxBytes; a larger document is sent alone
	MaxDocs     int    // maximum documents of a body; 0: no limit
	MaxInFlight int    // maximum concurrent requests, DefaultMaxInFlight
	Bounds      Bounds // lower limits, which may change while documents are sent; nil: none
	// MaxAge is the time that a body waits for more documents. The first Add, Fail or Filter after it sends the
	// body, or one of the next 255 if documents arrive fast. It limits the work that is repeated after a stop.
	// DefaultMaxAge.
	MaxAge time.Duration

	// MayStart is called before each request; after an error no further request starts. nil: always allowed.
	MayStart func() error
	Breaker  *Breaker  // nil: none
	Pool     *Pool     // buffers that the Loaders of a process share; nil: a new one
	Recovery *Recovery // ends pauses of the Loaders of a process; nil: a new one
	// StallTimeout is the time without an accepted document of a body after which the Loader stops with
	// fault.ErrUnavailable; DefaultStallTimeout.
	StallTimeout time.Duration

	Now    func() time.Time                                 // time.Now
	Pause  func(ctx context.Context, d time.Duration) error // blocks for d, or until ctx is done; wait.For
	Jitter func() float64                                   // random, in [0,1); rand.Float64
}

// Counts counts documents by their results, and the requests that sent them.
type Counts struct {
	Live     int64 // Indexed + Kept + Failed + Filtered
	Indexed  int64 // accepted by the target
	Failed   int64 // recorded as failed
	Filtered int64 // left out by choice
	Reduced  int64 // of Indexed: doc.Document.Reduced
	Kept     int64 // the target keeps its document of this id: Options.Existing
	Bytes    int64 // bytes of the sources of documents indexed, kept or failed
	Requests int64 // requests started
	Retries  int64 // of Requests: retries of a whole request or a part of it
	Resent   int64 // documents sent again by retries, counted each time
	Copies   int64 // of Indexed: earlier copies on the target, except for copies that a retry may have written; see DESIGN.md
	Rebuilt  int64 // of Live, without documents that were never sent: the source was rebuilt from other fields
	KeptLast int64 // likewise: of duplicate JSON keys the last was kept
	Deleted  int64 // of Live: deletions
	// Rewrites counts the sequence numbers that the target used beyond one per indexed document, by the versions in its responses.
	Rewrites int64
	Moved    int64 // of Indexed: an ingest pipeline gave them another index or id
}

func (c *Counts) add(d Counts) {
	c.Live += d.Live
	c.Indexed += d.Indexed
	c.Failed += d.Failed
	c.Filtered += d.Filtered
	c.Reduced += d.Reduced
	c.Bytes += d.Bytes
	c.Requests += d.Requests
	c.Retries += d.Retries
	c.Resent += d.Resent
	c.Copies += d.Copies
	c.Rebuilt += d.Rebuilt
	c.KeptLast += d.KeptLast
	c.Deleted += d.Deleted
	c.Rewrites += d.Rewrites
	c.Moved += d.Moved
	c.Kept += d.Kept
}
