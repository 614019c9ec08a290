package export

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// readers is the number of objects that are read at the same time.
const readers = 16

// list returns the versions of the objects with a prefix by their names.
func (b *bucket) list(ctx context.Context, prefix string) (map[string]string, error) {
	all := map[string]string{}
	for after, more := "", true; more; {
		var names, versions []string
		err := b.policy.Do(ctx, func(ctx context.Context) (err error) {
			names, versions, more, err = b.store.List(ctx, prefix, after)
			return err
		})
		if err != nil {
			return nil, err
		}
		for i, name := range names {
			all[name], after = versions[i], name
		}
	}
	return all, nil
}

// published returns the objects in the notes of all items. Objects that are missing or are not as they were written are an error if strict;
// otherwise missing ones are left out, and others are listed without a digest. If strict, it removes the objects of superseded attempts.
func (b *bucket) published(ctx context.Context, strict bool) ([]Entry, error) {
	listed, err := b.list(ctx, "")
	if err != nil {
		return nil, err
	}
	// An attempt that stored one of these objects has a note that is listed now.
	records, err := b.list(ctx, notes)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	files := []Entry{}
	known := map[string]bool{} // objects and attempts in notes; false: superseded attempts
	err = each(ctx, slices.Collect(maps.Keys(records)), func(ctx context.Context, name string) error {
		n, _, err := b.note(ctx, name)
		if err != nil {
			return err
		}
		mu.Lock()
		known[n.Attempt] = true
		for _, attempt := range n.Superseded {
			known[attempt] = false
		}
		mu.Unlock()
		for _, f := range n.Files {
			e, err := b.check(ctx, f, listed[f.Name])
			if err != nil && strict {
				return err
			}
			mu.Lock()
			if known[f.Name] = true; e.Name != "" {
				files = append(files, e)
			}
			mu.Unlock()
			if err != nil && !errors.Is(err, fault.ErrCorrupt) {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b Entry) int { return cmp.Compare(a.Name, b.Name) })
	if strict {
		err = b.tidy(ctx, listed, known)
	}
	return files, err
}

// check compares an object with its entry in a note; version is the listed one. An object of another version is read. The error is
// fault.ErrCorrupt if the object is missing (the entry is then empty) or has other content.
func (b *bucket) check(ctx context.Context, f noted, version string) (Entry, error) {
	if version != "" && version == f.Version {
		return f.Entry, nil
	}
	body, _, err := b.get(ctx, f.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return Entry{}, fmt.Errorf("%s is missing; export under another prefix: %w", f.Name, fault.ErrCorrupt)
	case err != nil:
		return Entry{}, err
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != f.SHA256 {
		return Entry{Name: f.Name, Bytes: int64(len(body))}, fmt.Errorf("%s was replaced by another object; export under another prefix: %w", f.Name, fault.ErrCorrupt)
	}
	return f.Entry, nil
}

// tidy removes the listed objects of superseded attempts, which publish nothing any more. It returns fault.ErrCorrupt for an object of an
// attempt that no note knows: notes were removed, and with them the published objects of items.
func (b *bucket) tidy(ctx context.Context, listed map[string]string, known map[string]bool) error {
	var superseded []string
	for name := range listed {
		of := attemptOf(name)
		if of == "" || !finished(name) || known[name] || known[of] {
			continue
		}
		if _, is := known[of]; !is {
			return fmt.Errorf("%s is in no record of an item (%s): records were removed, or it is of another export; export under another prefix: %w", name, notes, fault.ErrCorrupt)
		}
		superseded = append(superseded, name)
	}
	return each(ctx, superseded, b.delete)
}

// each calls f for all names, some at the same time.
func each(ctx context.Context, names []string, f func(ctx context.Context, name string) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(readers)
	for _, name := range names {
		g.Go(func() error { return f(ctx, name) })
	}
	return g.Wait()
}
