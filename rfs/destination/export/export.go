// Package export writes documents to files or objects instead of a cluster: bulk bodies as they would be sent, in a folder per index
// of a directory or a bucket.
package export

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
)

// private is the folder of rfsd itself in an export: locks, coordination store, records of items.
const private = ".rfsd"

// StateFolder is the folder of an export in a bucket for the state of the work.
const StateFolder = private + "/state"

// place is the location of an export: a directory or a bucket. Export calls start, change and published one at a time.
type place interface {
	// start starts an attempt at an item. may returns an error if this process no longer holds the item.
	start(ctx context.Context, it item, may func() error) (output, error)
	// change calls edit with the manifest, and replaces the manifest if edit reports a change. No other writer changes it in between;
	// if one did, edit is called again.
	change(ctx context.Context, edit func(m *Manifest) (changed bool, err error)) error
	// published returns the published files in order of their names. strict requires that all of them are as they were published.
	published(ctx context.Context, strict bool) ([]Entry, error)
	Close() error
}

// output takes the documents of one attempt at an item.
type output interface {
	// write appends documents of one index.
	write(ctx context.Context, index string, b []byte, documents int64) error
	// finish makes everything written durable. A repeated call continues after the last completed step.
	finish(ctx context.Context) error
	// publish makes the files of this attempt the files of the item, in place of the files of earlier attempts. It may be repeated.
	publish(ctx context.Context) error
	// remove removes unpublished files.
	remove() error
}

// item identifies a work item: its index, and <shard>-<cursor>.
type item struct{ index, name string }

// Export is an export that this process writes to, alone or together with others. Create may be called concurrently.
type Export struct {
	place place
	alone bool // no other process writes to the export

	mu        sync.Mutex     // also held while an attempt publishes its files
	current   map[item]*File // the latest attempt of each item in progress
	id        string
	accounted *string // the manifest lists the current files; its reason
}

// newExport reads the id of an export, whose place already has a manifest.
func newExport(ctx context.Context, p place, alone bool) (*Export, error) {
	x := &Export{place: p, alone: alone, current: map[item]*File{}}
	err := p.change(ctx, func(m *Manifest) (bool, error) {
		x.id = m.ID
		return false, nil
	})
	return x, err
}

// ErrSuperseded means that a later attempt at the same item has started, which will publish its files.
var ErrSuperseded = errors.New("a later attempt at the item has started")

// Create starts an attempt to export an item; its first document creates the first file. After Create, an earlier File
// of the item no longer publishes. In a shared export, Commit calls may, which returns an error if this process no longer holds
// the item.
func (x *Export) Create(ctx context.Context, index string, shard int, cursor int64, may func() error) (*File, error) {
	if shard < 0 || cursor < 0 {
		return nil, fmt.Errorf("item of shard %d and cursor %d", shard, cursor)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.resume(ctx); err != nil {
		return nil, err
	}
	it := item{index, fmt.Sprintf("%d-%d", shard, cursor)}
	out, err := x.place.start(ctx, it, may)
	if err != nil {
		return nil, fmt.Errorf("export index %s, %s: %w", it.index, it.name, err)
	}
	f := &File{export: x, item: it, out: out}
	x.current[it] = f
	return f, nil
}

// forget removes an attempt that has ended from the attempts in progress.
func (x *Export) forget(f *File) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.current[f.item] == f {
		delete(x.current, f.item)
	}
}

// ID returns the id of the export, which was generated when it was first opened.
func (x *Export) ID() string { return x.id }

// Close releases the locks of the export.
func (x *Export) Close() error { return x.place.Close() }

// resume marks the export as incomplete before one of its files may change. x.mu is held.
func (x *Export) resume(ctx context.Context) error {
	x.accounted = nil
	err := x.place.change(ctx, func(m *Manifest) (bool, error) {
		if !m.Complete && m.Reason == "" {
			return false, nil
		}
		*m = newManifest(m.ID)
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("mark the export as incomplete: %w", err)
	}
	return nil
}

// Finish writes the manifest of all finished files. missing is the reason why the export is incomplete
// although no work is left. If it is empty, the export is complete, and Finish returns fault.ErrCorrupt for a committed file that is
// missing or is not as it was written. Finish may be repeated; it checks the files again if Create was called since.
func (x *Export) Finish(ctx context.Context, missing string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.alone && x.accounted != nil && *x.accounted == missing {
		return nil
	}
	err := x.place.change(ctx, func(m *Manifest) (bool, error) {
		was := *m
		*m = Manifest{Format: manifestFormat, ID: was.ID, Complete: missing == "", Reason: missing}
		var err error
		if m.Files, err = x.place.published(ctx, m.Complete); err != nil {
			return false, err
		}
		for _, e := range m.Files {
			m.Documents += e.Documents
			m.Bytes += e.Bytes
		}
		return m.Complete != was.Complete || m.Reason != was.Reason || !slices.Equal(m.Files, was.Files), nil
	})
	if err != nil {
		return fmt.Errorf("finish the export: %w", err)
	}
	x.accounted = &missing
	return nil
}
