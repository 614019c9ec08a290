package bulk

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Existing is the policy for a document whose id the target already has.
type Existing string

// The policies. The zero value is Overwrite.
const (
	Overwrite Existing = "overwrite" // op index: the document is replaced
	Keep      Existing = "keep"      // op create, the only op that data streams accept: the target keeps its document
	// Newer replaces the document unless its version on the target is higher (external_gte). Version numbers are compared, not times.
	Newer Existing = "newer"
	// Follow replaces and deletes documents like Newer, with versions that rise from one snapshot to the next. If the target has a
	// higher version, the session did not write it: the document fails, and a deletion counts as kept.
	Follow Existing = "follow"
)

// versioned reports whether action lines contain the versions of documents.
func (e Existing) versioned() bool { return e == Newer || e == Follow }

// op returns the operation in the action lines.
func (e Existing) op() string {
	if e == Keep {
		return "create"
	}
	return "index"
}

// keeps reports whether a rejection means that the target keeps its document.
func (e Existing) keeps(r Refusal) bool {
	return (e == Keep || e == Newer) && r.conflict()
}

// conflict reports whether the target rejected the document because of the version, or the existence, of its own.
func (r Refusal) conflict() bool {
	return r.Status == http.StatusConflict && r.Type == "version_conflict_engine_exception"
}

// Key names a document of the target.
type Key struct {
	Index   string `json:"_index"`
	Type    string `json:"_type,omitempty"`
	ID      string `json:"_id"`
	Routing string `json:"routing,omitempty"`
}

// Found is a document of the target.
type Found struct {
	There   bool   // the document exists
	Source  []byte // nil if the document does not exist, or the target does not return its source
	Routing string // "" for none
	Version int64  // 0: unknown
}

// Finder reads documents of the target by their ids. *target.Client is one.
type Finder interface {
	// Find returns the documents in the order of the keys. It returns fault.ErrUnavailable, or fault.ErrConfig or
	// fault.ErrRejected without the permission to read.
	Find(ctx context.Context, keys []Key) ([]Found, error)
}

// findBytes limits the sources that one request compares, in bytes as they were sent.
const findBytes = 1 << 20

// findOwn compares existing documents with the sent ones. An equal document is our own copy, written by an earlier request;
// before is the number of earlier requests of this batch. A document with another routing in an index of this session is
// a collision. Any other document is kept. findOwn returns the positions of documents to be sent again because the target did
// not answer.
func (l *Loader) findOwn(b *batch, items []item, there []Refusal, before int64) (unknown []int, err error) {
	for len(there) > 0 {
		n, size := 0, 0
		var keys []Key
		for ; n < len(there) && (n == 0 || size < findBytes); n++ {
			it := items[there[n].Pos]
			a, err := parseAction(b.body[it.start:it.source])
			if err != nil {
				return nil, err
			}
			k := Key{Index: a.Index, Type: a.Type, ID: a.ID, Routing: a.Routing}
			if there[n].Index != "" {
				k.Index = there[n].Index
			}
			keys, size = append(keys, k), size+int(it.end-it.source)
		}
		found, err := l.opts.Finder.Find(l.ctx, keys)
		switch {
		case err != nil && l.ctx.Err() != nil:
			return nil, errStopped
		case errors.Is(err, fault.ErrUnavailable):
			for _, r := range there {
				unknown = append(unknown, r.Pos)
			}
			return unknown, nil
		case errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected):
			found = make([]Found, n) // without read permission all count as documents of other clients
		case err != nil:
			return nil, err
		}
		for i, r := range there[:n] {
			it, is := items[r.Pos], Found{}
			if i < len(found) {
				is = found[i]
			}
			switch {
			case is.Source != nil && is.Routing != keys[i].Routing && l.ours(b, it):
				if err := b.fail(it, l.opts.Shard, 0, doc.Collision, fmt.Sprintf("the target has a document of this id and %s on the same shard, which stays", routingText(is.Routing))); err != nil {
					return nil, err
				}
			case l.mayBeOwn(it, before) && sameSource(it.sent(b.body), is.Source):
				b.counts.Copies += max(1-before, 0)
			default:
				b.keep(it)
			}
		}
		there = there[n:]
	}
	return unknown, nil
}

// mayBeOwn reports whether the existing document of the same id may be a copy that an earlier request wrote.
func (l *Loader) mayBeOwn(it item, before int64) bool {
	return l.opts.Existing == Keep && (before > 0 || it.ordinal < l.opts.SentBelow)
}

// ours reports whether this session created the index of an item, so that other clients can have written to it only since then.
func (l *Loader) ours(b *batch, it item) bool {
	name := string(b.indices[it.indexOf()].name)
	return !l.opts.Ordered && (l.opts.Own && slices.Contains(l.opts.Targets, name) || l.opts.Made != nil && l.opts.Made(name))
}

func routingText(routing string) string {
	if routing == "" {
		return "no routing"
	}
	return fmt.Sprintf("the routing %q", routing)
}

// sameSource reports whether the target's source equals the sent one, ignoring white space between its values.
func sameSource(sent, found []byte) bool {
	if bytes.Equal(sent, found) {
		return true
	}
	var a, b bytes.Buffer
	return len(found) > 0 && json.Compact(&a, sent) == nil && json.Compact(&b, found) == nil && bytes.Equal(a.Bytes(), b.Bytes())
}
