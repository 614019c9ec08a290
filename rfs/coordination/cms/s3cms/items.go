package s3cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// storedItem is the content of an item's object. The name of the object may contain only a part of the id.
type storedItem struct {
	ID string `json:"id"`
	cms.Item
}

func decodeItem(name string, body []byte) (cms.Item, error) {
	var s storedItem
	if err := json.Unmarshal(body, &s); err != nil {
		return cms.Item{}, fmt.Errorf("object %s in the coordination store: %w: %w", name, err, fault.ErrCorrupt)
	}
	s.Item.ID = s.ID
	return s.Item, nil
}

// load reads the item of an object and caches it.
func (s *Store) load(ctx context.Context, name, what string) (cached, error) {
	body, version, err := s.read(ctx, name, what)
	if err != nil {
		if errors.Is(err, cms.ErrNotFound) {
			s.seen.drop(name)
		}
		return cached{}, err
	}
	it, err := decodeItem(name, body)
	if err != nil {
		return cached{}, err
	}
	if s.itemName(it.ID) != name {
		return cached{}, fmt.Errorf("object %s in the coordination store holds the item %q: %w", name, it.ID, fault.ErrCorrupt)
	}
	o := cached{version: version, size: len(body), item: it}
	s.seen.put(name, o)
	return o, nil
}

func (s *Store) store(ctx context.Context, it cms.Item, version string) error {
	name := s.itemName(it.ID)
	is, err := s.write(ctx, name, cms.ItemName(it.ID), storedItem{it.ID, it}, version)
	if err != nil {
		s.seen.drop(name)
		return err
	}
	s.seen.put(name, cached{version: is, size: itemSize + len(it.Checks) + len(it.Task), item: it})
	return nil
}

// itemSize is the approximate size of an item without its longest fields, in bytes.
const itemSize = 1 << 10

// each calls f for 0 ≤ i < n, up to readAhead at the same time, and waits for all.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	slots := make(chan struct{}, readAhead)
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	wg.Wait()
}

// Create adds the items that do not exist yet, by one conditional write each.
func (s *Store) Create(ctx context.Context, items []cms.Item) (created int, err error) {
	errs := make([]error, len(items))
	each(len(items), func(i int) { errs[i] = s.store(ctx, items[i], "") })
	for _, e := range errs {
		switch {
		case e == nil:
			created++
		case !errors.Is(e, cms.ErrConflict) && err == nil: // an existing item is fine
			err = e
		}
	}
	return created, err
}

// Get reads an item.
func (s *Store) Get(ctx context.Context, id string) (cms.Item, error) {
	o, err := s.load(ctx, s.itemName(id), fmt.Sprintf("%s (item %s)", cms.ItemName(id), id))
	return o.item, err
}

// Apply runs the transition on the cached item, or on the stored one if none is cached, and writes the result on the condition that the
// item is unchanged. A result other than Applied is returned only for an item that was read during the call.
func (s *Store) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	now, maxErr, err := s.Now(ctx)
	if err != nil {
		return cms.Item{}, 0, err
	}
	t, name := careful(t, maxErr), s.itemName(id)
	o, known := s.seen.get(name)
	for {
		if !known {
			if o, err = s.load(ctx, name, fmt.Sprintf("%s (item %s)", cms.ItemName(id), id)); err != nil {
				return cms.Item{}, 0, err
			}
		}
		it, v := t.Apply(o.item, now.UnixMilli())
		if v == cms.Applied {
			err = s.store(ctx, it, o.version)
		}
		if known && (v != cms.Applied || errors.Is(err, cms.ErrConflict)) {
			known = false
			continue
		}
		return it, v, err
	}
}

// ApplyAll applies each change by requests of its own.
func (s *Store) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	outcomes := make([]cms.Outcome, len(changes))
	each(len(changes), func(i int) {
		o := &outcomes[i]
		o.Item, o.Result, o.Err = s.Apply(ctx, changes[i].ID, changes[i].Transition)
	})
	return outcomes, nil
}

// page lists a page of items after a name. It returns cms.ErrStoreGone when the session was deleted. Items that are cached in the listed
// version are in known, the others have no version there.
func (s *Store) page(ctx context.Context, after string) (names []string, known []cached, more bool, err error) {
	names, versions, more, err := s.cfg.Bucket.List(ctx, s.items(), after)
	if err == nil && len(names) == 0 { // all items may be done, or deleted
		_, err = s.Incarnation(ctx)
	}
	if err != nil {
		return nil, nil, false, s.failed(err)
	}
	known = make([]cached, len(names))
	for i, name := range names {
		if o, ok := s.seen.get(name); ok && o.version == versions[i] {
			known[i] = o
		}
	}
	return names, known, more, nil
}

// fill reads the items that are not in known. A deleted item remains without a version.
func (s *Store) fill(ctx context.Context, names []string, known []cached) error {
	errs := make([]error, len(names))
	each(len(names), func(i int) {
		if known[i].version == "" {
			known[i], errs[i] = s.load(ctx, names[i], "object "+names[i])
		}
	})
	for _, err := range errs {
		if err != nil && !errors.Is(err, cms.ErrNotFound) {
			return err
		}
	}
	return nil
}

// Candidates searches from a random position for open items whose lease ended more than grace ago: page by page, in random order within a
// page, until it has found n, at most readAhead, or has seen all. It reads only items that are not cached, so that a starting process reads
// a few items and not the whole session.
func (s *Store) Candidates(ctx context.Context, grace time.Duration, n int) (found []cms.Item, err error) {
	now, maxErr, err := s.Now(ctx)
	if err != nil || n <= 0 {
		return nil, err
	}
	n = min(n, readAhead)
	latest := now.Add(-grace - 2*maxErr).UnixMilli()
	start := s.items() + fmt.Sprintf("%08x", rand.Uint32())
	for after, wrapped := start, false; ; {
		names, known, more, err := s.page(ctx, after)
		if err != nil {
			return nil, err
		}
		last := ""
		if len(names) > 0 {
			last = names[len(names)-1]
		}
		over := wrapped && (!more || last > start)
		rand.Shuffle(len(names), func(i, j int) {
			names[i], names[j], known[i], known[j] = names[j], names[i], known[j], known[i]
		})
		for len(names) > 0 && len(found) < n {
			part := min(len(names), readAhead)
			if err := s.fill(ctx, names[:part], known[:part]); err != nil {
				return nil, err
			}
			for i, o := range known[:part] {
				again := wrapped && names[i] > start // seen before the search wrapped around
				if o.version != "" && !again && o.item.Open() && o.item.ID != s.setup && o.item.Expiration*1000 < latest && len(found) < n {
					found = append(found, o.item)
				}
			}
			names, known = names[part:], known[part:]
		}
		switch {
		case len(found) == n || over:
			return found, nil
		case more:
			after = last
		default:
			after, wrapped = "", true
		}
	}
}

// Open counts the open items.
func (s *Store) Open(ctx context.Context) (o cms.Open, err error) {
	for it, err := range s.Scan(ctx) {
		switch {
		case err != nil:
			return cms.Open{}, err
		case it.ID == s.setup || !it.Open():
			continue
		case o.Items == 0 || it.Expiration < o.NextExpiry:
			o.NextExpiry, o.Holder = it.Expiration, it.Holder
		}
		o.Items++
	}
	return o, nil
}

// Scan yields all items, page by page, and reads those that changed since this process last saw them.
func (s *Store) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return func(yield func(cms.Item, error) bool) {
		for after, more := "", true; more; {
			var names []string
			var known []cached
			var err error
			names, known, more, err = s.page(ctx, after)
			if err == nil {
				err = s.fill(ctx, names, known)
			}
			if err != nil {
				yield(cms.Item{}, err)
				return
			}
			for i, o := range known {
				after = names[i]
				if o.version != "" && !yield(o.item, nil) {
					return
				}
			}
		}
	}
}
