package export

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rfsd/rfsd/rfs/base/conditional"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

// Store is the part of an object store's client that an export needs, below the prefix of the export. Each call is one request.
type Store interface {
	// Get returns an object and its version, or fs.ErrNotExist.
	Get(ctx context.Context, name string) (body []byte, version string, err error)
	// Put writes an object if its version is still the given one, or with "" if it does not exist, and returns the new version. fs.ErrExist
	// means that the condition did not hold, fault.ErrUnavailable that the outcome is unknown.
	Put(ctx context.Context, name string, body []byte, version string) (is string, err error)
	// List returns a page of the names with the prefix after a name, in order, and their versions.
	List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error)
	// Delete removes an object. A missing object is not an error.
	Delete(ctx context.Context, name string) error
}

const (
	// objectSize is the number of bytes that an attempt buffers. The last body may exceed it.
	objectSize = 16 << 20
	// MemoryOfAttempt is the memory of the buffers of an attempt to export an item into a bucket, in bytes: while a buffer grows, it is
	// there twice.
	MemoryOfAttempt = 2 * objectSize
	// conditions is an object with which the conditional writes of the store are tested.
	conditions = private + "/conditions"
	// maxConflicts limits the repetitions of a change because other writers made changes at the same time.
	maxConflicts = 50
)

// bucket is an export in an object store, which any number of processes may write to.
type bucket struct {
	store  Store
	format format
	policy retry.Policy
	size   int64 // see objectSize
}

// OpenBucket opens the export in a store, or creates it. Errors: fault.ErrConfig, also for a store without conditional writes, and
// fault.ErrUnavailable.
func OpenBucket(ctx context.Context, s Store, c Compression) (*Export, error) {
	aMinute := retry.Policy{Tries: 12, First: 100 * time.Millisecond, Max: 10 * time.Second, Jitter: retry.Half}
	return openBucket(ctx, s, c, aMinute, objectSize)
}

func openBucket(ctx context.Context, s Store, c Compression, policy retry.Policy, size int64) (*Export, error) {
	f, err := c.parse()
	if err != nil {
		return nil, err
	}
	b := &bucket{store: s, format: f, policy: policy, size: size}
	if err := b.prepare(ctx); err != nil {
		return nil, err
	}
	return newExport(ctx, b, false)
}

// prepare writes the first manifest, once the store has proved to keep conditions.
func (b *bucket) prepare(ctx context.Context) error {
	if err := b.probe(ctx); err != nil {
		return err
	}
	m := newManifest(rand.Text())
	body, err := m.encode()
	if err != nil {
		return err
	}
	if _, err := b.swap(ctx, ManifestName, body, ""); !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}

// probe creates a small object, and verifies that the store refuses to create it again and to replace a version that it does not have.
func (b *bucket) probe(ctx context.Context) error {
	kept := false
	err := b.policy.Do(ctx, func(ctx context.Context) (err error) {
		kept, err = conditional.Kept(ctx, b.store.Put, conditions, []byte("{}\n"))
		return err
	})
	if err == nil && !kept {
		err = fmt.Errorf("the store ignores the conditions of writes (If-None-Match, If-Match), so that two processes could both export an item: "+
			"name a bucket of AWS S3, Google Cloud Storage or Azure, or of a server that has conditional writes, or export to a directory: %w", fault.ErrConfig)
	}
	return err
}

// Close does nothing: a bucket has no locks.
func (b *bucket) Close() error { return nil }

// get returns an object and its version, or fs.ErrNotExist.
func (b *bucket) get(ctx context.Context, name string) (body []byte, version string, err error) {
	err = b.policy.Do(ctx, func(ctx context.Context) error {
		body, version, err = b.store.Get(ctx, name)
		return err
	})
	return body, version, err
}

// delete removes an object.
func (b *bucket) delete(ctx context.Context, name string) error {
	return b.policy.Do(ctx, func(ctx context.Context) error { return b.store.Delete(ctx, name) })
}

// swap is Put of the store with retries. If the response to a try is lost, a later one finds the object with the content, and succeeds.
func (b *bucket) swap(ctx context.Context, name string, body []byte, version string) (is string, err error) {
	err = b.policy.Do(ctx, func(ctx context.Context) error {
		is, err = b.store.Put(ctx, name, body, version)
		if !errors.Is(err, fs.ErrExist) {
			return err
		}
		there, at, gerr := b.store.Get(ctx, name)
		switch {
		case errors.Is(gerr, fs.ErrNotExist):
			return err
		case gerr != nil:
			return gerr
		case !bytes.Equal(there, body):
			return err
		}
		is = at
		return nil
	})
	return is, err
}

// change edits the manifest. It repeats edit if another writer has changed the manifest meanwhile.
func (b *bucket) change(ctx context.Context, edit func(m *Manifest) (bool, error)) error {
	for range maxConflicts {
		body, version, err := b.get(ctx, ManifestName)
		if err != nil {
			return err
		}
		m, err := ParseManifest(body)
		if err != nil {
			return err
		}
		changed, err := edit(&m)
		if err != nil || !changed {
			return err
		}
		if body, err = m.encode(); err != nil {
			return err
		}
		if _, err = b.swap(ctx, ManifestName, body, version); !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	return fmt.Errorf("other writers keep changing %s: %w", ManifestName, fault.ErrUnavailable)
}

// start records the attempt in the note of the item, so that earlier attempts no longer publish.
func (b *bucket) start(ctx context.Context, it item, may func() error) (output, error) {
	id := make([]byte, 8)
	rand.Read(id) //nolint:errcheck // it never returns an error
	o := &objects{bucket: b, item: it, may: may, id: hex.EncodeToString(id), open: map[string]*object{}}
	for range maxConflicts {
		if may != nil { // a process that lost the item would stop the attempt of its successor
			if err := may(); err != nil {
				return nil, err
			}
		}
		n, version, err := b.note(ctx, noteName(it))
		if err != nil {
			return nil, err
		}
		if n.Attempt != "" {
			n.Superseded = append(n.Superseded, n.Attempt)
		}
		n.Attempt, o.superseded = o.id, n.Superseded
		if o.version, err = b.putNote(ctx, it, n, version); err == nil {
			return o, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("other attempts keep starting: %w", fault.ErrUnavailable)
}

// note returns a note and its version; an empty one if it does not exist.
func (b *bucket) note(ctx context.Context, name string) (note, string, error) {
	body, version, err := b.get(ctx, name)
	if errors.Is(err, fs.ErrNotExist) {
		return note{Files: []noted{}}, "", nil
	}
	if err != nil {
		return note{}, "", err
	}
	n, err := parseNote(name, body)
	return n, version, err
}

// putNote replaces a version of an item's note.
func (b *bucket) putNote(ctx context.Context, it item, n note, version string) (is string, err error) {
	body, err := json.Marshal(n)
	if err != nil {
		return "", err
	}
	return b.swap(ctx, noteName(it), body, version)
}
