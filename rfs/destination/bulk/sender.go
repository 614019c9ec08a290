package bulk

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Sender delivers a bulk body: NDJSON, n pairs of action line and source line.
// rfs/destination/target sends it to a cluster, rfs/destination/export appends it to a file.
type Sender interface {
	// Send delivers the body, which is borrowed until Send returns. A nil error means that every item not in
	// Result.Refused was accepted. An error concerns the whole request: fault.ErrUnavailable (repeat it after a
	// pause; it may have been applied), ErrTooLarge (split it), fault.ErrRejected or fault.ErrConfig (stop).
	Send(ctx context.Context, body []byte, n int) (Result, error)
}

// Result lists the rejected items of a body and the items that replaced a document, each in ascending order of Pos.
type Result struct {
	Refused  []Refusal
	Replaced []Replacement
	// Moved is the number of accepted items to which an ingest pipeline gave another index or id. They are not in Replaced.
	Moved int
	// NoneTaken states, with an error, that the target rejected the whole request and wrote none of its items.
	NoneTaken bool
	// RetryAfter is the pause that the target requested, at most a minute; 0 without one.
	RetryAfter time.Duration
}

// Replacement is the answer for an item that replaced a document of the target.
type Replacement struct {
	Pos    int   // position in the body, from 0
	Copies int64 // earlier writes of this id, by the version in the answer; at least 1
}

// Refusal is the answer for a rejected item.
type Refusal struct {
	Pos    int    // position in the body, from 0
	Status int    // HTTP status of the item
	Type   string // error type of the target, such as mapper_parsing_exception
	Reason string // the target's message
	Index  string // the concrete index that the error names, such as a backing index of a data stream; "" if it names none
}

// Retryable reports whether the same item may be accepted later.
func (r Refusal) Retryable() bool { return fault.Transient(r.Status, r.Type, r.Reason) }

// overload reports whether the target rejected the item because it is overloaded. OpenSearch Serverless collections answer 402.
func (r Refusal) overload() bool { return r.Status == 429 || r.Status == 503 || r.Status == 402 }

// Written reports whether the target used a sequence number for the rejected document, because its engine noticed only while
// writing that a value is too long for a term.
func (r Refusal) Written() bool {
	return r.Type == "illegal_argument_exception" && strings.Contains(r.Reason, "immense term")
}

// ErrTooLarge means that the request is too large for the target (HTTP 413).
var ErrTooLarge = errors.New("request too large for the target")

// FirstIndex returns the target index of the first document of a body, as written in the action line; nil if the line names none.
// The result aliases body.
func FirstIndex(body []byte) []byte {
	line, _, _ := bytes.Cut(body, []byte{'\n'})
	_, name, _ := bytes.Cut(line, []byte(`":{"_index":"`))
	if end := bytes.IndexByte(name, '"'); end > 0 {
		return name[:end]
	}
	return nil
}
