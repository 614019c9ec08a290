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

// objectSize is the number of buffered bytes at which lines are stored as an object. The last line may exceed it.
const objectSize = 4 << 20

// Store stores whole objects.
type Store interface {
	// Put stores an object under a name with slashes, and replaces an existing one. The object is durable
	// when Put returns.
	Put(ctx context.Context, name string, body []byte) error
}

// Objects writes failures to a Store, in the lines of a Writer. The documents recorded between two calls of Sync are stored as objects
// <session>/<index>/<shard>/<writer>/<number>.ndjson; with an Owner the writer is followed by ~<mark>. It is safe for concurrent use.
type Objects struct {
	// Owner is set before the first failure; nil: names have no mark.
	Owner Owner

	store           Store
	session, writer string
	content         Content

	mu     sync.Mutex
	place  string // <index>/<shard> of the lines in buf
	buf    []byte // whole lines that are not yet stored
	number int    // of the next object
}

// NewObjects returns an Objects. The id writer must be unique among all writers that the session ever had.
func NewObjects(s Store, session, writer string, content Content) (*Objects, error) {
	for _, name := range []string{session, writer} {
		if !isName(name) {
			return nil, fmt.Errorf("%q is not a name of session or writer: %w", name, fault.ErrConfig)
		}
	}
	return &Objects{store: s, session: session, writer: writer, content: content}, nil
}

// Record buffers failures, which are durable after the next Sync, or earlier if they fill an object.
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

// part returns the name of an index as one component of an object's name.
func part(index string) string {
	s := url.PathEscape(index)
	if strings.Trim(s, ".") == "" {
		return "_" + s // not the name of an index: these do not start with _
	}
	return s
}

// Sync makes everything recorded so far durable. After an error the next Sync retries.
func (o *Objects) Sync(ctx context.Context) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.put(ctx)
}

// Close stores the remaining lines.
func (o *Objects) Close() error { return o.Sync(context.Background()) }

// put stores the buffered lines as one object. A retry uses the same name, so that a lost answer leaves no second
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
