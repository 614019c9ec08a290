package failed

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// objectSize is the number of bytes of lines kept in memory before they become an object. One line more may be
// longer than that.
const objectSize = 4 << 20

// Store takes whole objects.
type Store interface {
	// Put stores an object under a name of parts separated by slashes, in place of an existing one. It is durable
	// when Put returns.
	Put(ctx context.Context, name string, body []byte) error
}

// Objects writes failures to a Store, as the lines that a Writer writes: each Sync makes objects
// <session>/<index>/<shard>/<writer>/<number>.ndjson of the documents recorded since the one before; with an Owner the writer is
// followed by ~<mark>. It is safe for concurrent use.
type Objects struct {
	// Owner is set before the first failure; nil: names have no mark.
	Owner Owner

	store           Store
	session, writer string
	content         Content

	mu     sync.Mutex
	place  string // <index>/<shard> of the lines in buf
	buf    []byte // whole lines that are in no object
	number int    // of the next object
}

// NewObjects makes a writer, whose id is unique among all that there ever were in the session.
func NewObjects(s Store, session, writer string, content Content) (*Objects, error) {
	for _, name := range []string{session, writer} {
		if !isName(name) {
			return nil, fmt.Errorf("%q is not a name of session or writer: %w", name, fault.ErrConfig)
		}
	}
	return &Objects{store: s, session: session, writer: writer, content: content}, nil
}

// Record takes failures; they are durable after the next Sync, or earlier when there are many.
func (o *Objects) Record(ctx context.Context, failures []doc.Failure) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range failures {
		place := path.Join(part(failures[i].Index), fmt.Sprint(failures[i].Shard))
		if place != o.place || len(o.buf) >= objectSize {
			if err := o.put(ctx); err != nil {
				return err
			}
			o.place = place
		}
		o.buf = AppendLine(o.buf, &failures[i], o.content)
	}
	return nil
}

// part makes one part of a name out of the name of an index.
func part(index string) string {
	s := url.PathEscape(index)
	if strings.Trim(s, ".") == "" {
		return "_" + s // no index is called so
	}
	return s
}

// Sync makes everything recorded so far durable. What could not be stored is tried again by the next Sync.
func (o *Objects) Sync(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(ctx)
}

// Close stores what no Sync has stored.
func (o *Objects) Close() error { return o.Sync(context.Background()) }

// put makes an object of the lines. Its name stays the same until it is stored: an answer that was lost leaves one
// object.
func (o *Objects) put(ctx context.Context) error {
	if len(o.buf) == 0 {
		return nil
	}
	owner, err := o.Owner.suffix(ctx)
	if err != nil {
		return err
	}
	o.writer, o.Owner = o.writer+owner, nil
	name := path.Join(o.session, o.place, o.writer, fmt.Sprintf("%06d%s", o.number, extension))
	if err := o.store.Put(ctx, name, o.buf); err != nil {
		return fmt.Errorf("store failed documents: %w", err)
	}
	o.number++
	o.buf = nil
	return nil
}
