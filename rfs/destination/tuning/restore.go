package tuning

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Restored is the result for one index.
type Restored struct {
	Target string   `json:"index"`
	Keys   []string `json:"restored,omitempty"`
	Left   []string `json:"left,omitempty"`   // not restored, since another client changed them
	Reason string   `json:"reason,omitempty"` // why nothing was restored, such as a deleted or replaced index
}

// Restore restores the settings of every tuned index, unless another client has changed them since. It is
// idempotent and safe for concurrent use by several processes. It tries all indices and joins their errors.
func (t *Tuner) Restore(ctx context.Context) ([]Restored, error) {
	var records []session.Tuned
	var listed error
	for x, err := range t.Records.All(ctx) {
		if err != nil {
			listed = fmt.Errorf("tuned indices: %w", err)
			break
		}
		if _, remembers := x.Set[gcDeletes]; t.Follows && remembers && len(x.Set) == 1 {
			continue
		}
		records = append(records, x)
	}
	var all []Restored
	var errs []error
	for part := range slices.Chunk(records, restoresAtOnce) {
		done, err := t.restore(ctx, part)
		all, errs = append(all, done...), append(errs, err)
	}
	return all, errors.Join(append(errs, listed)...)
}

const (
	// restoresAtOnce limits the indices between whose check and whose change no other work is done.
	restoresAtOnce = 64
	// requestsAtOnce limits the concurrent requests for single indices.
	requestsAtOnce = 8
)

// restoring is the restoration of one index.
type restoring struct {
	record session.Tuned
	done   Restored
	back   map[string]*string // settings to set
	kept   bool               // the record stays
	err    error
}

// restore restores the settings of some indices. Indices with the same former settings are changed by one request: each request is a change
// of the cluster's state, which large clusters take long for.
func (t *Tuner) restore(ctx context.Context, records []session.Tuned) (done []Restored, err error) {
	all := make([]*restoring, len(records))
	for i, x := range records {
		all[i] = &restoring{record: x, done: Restored{Target: x.Target}}
	}
	each(all, func(r *restoring) error { return t.check(ctx, r) })
	alike := map[string][]*restoring{}
	for _, r := range all {
		if r.err != nil || len(r.back) == 0 {
			continue
		}
		key, err := json.Marshal(r.back)
		if err != nil {
			return nil, err
		}
		alike[string(key)] = append(alike[string(key)], r)
	}
	for _, some := range alike {
		t.putAll(ctx, some)
	}
	each(all, func(r *restoring) error {
		if r.kept {
			return nil
		}
		return t.Records.Forget(ctx, r.record.Target)
	})
	var failed []error
	for _, r := range all {
		if r.err != nil {
			failed = append(failed, fmt.Errorf("restore settings of %s: %w", r.record.Target, r.err))
			continue
		}
		done = append(done, r.done)
		t.Log.InfoContext(ctx, "settings restored", "index", r.record.Target, "settings", r.done.Keys, "left", r.done.Left, "reason", r.done.Reason)
	}
	return done, errors.Join(failed...)
}

// each calls f concurrently for the indices that have no error yet.
func each(all []*restoring, f func(*restoring) error) {
	var g errgroup.Group
	g.SetLimit(requestsAtOnce)
	for _, r := range all {
		if r.err == nil {
			g.Go(func() error {
				r.err = f(r)
				return nil
			})
		}
	}
	_ = g.Wait() // the errors are in all
}

// check compares an index with the record of its settings and decides which of them are set back.
func (t *Tuner) check(ctx context.Context, r *restoring) error {
	x := r.record
	uuid, now, ours, err := t.settings(ctx, x.Target)
	switch {
	case errors.Is(err, errGone):
		r.done.Reason = "the index is gone"
		return nil
	case err != nil:
		return err
	case uuid != x.UUID:
		r.done.Reason = "another index of that name"
		return nil
	case !ours && now[durability] != hardened:
		r.done.Left = slices.Sorted(maps.Keys(x.Set))
		r.done.Reason = fmt.Sprintf("the index does not carry the mark of this session, so that the record proves nothing: compare %s with what they should be, and set them by hand", strings.Join(r.done.Left, ", "))
		r.kept = true
		return nil
	}
	r.back = map[string]*string{}
	for _, key := range slices.Sorted(maps.Keys(x.Set)) {
		if key == gcDeletes && t.Follows {
			r.kept = true
			continue
		}
		// Records are untrusted: they restore only tuned settings, to values of the expected form.
		value, known := tuned[key]
		if is, set := now[key]; !ours && key != durability || !set || is != x.Set[key] || !known || is != value || !former(key, x.Was[key]) {
			r.done.Left = append(r.done.Left, key)
			continue
		}
		r.back[key] = x.Was[key]
		r.done.Keys = append(r.done.Keys, key)
	}
	return nil
}

// putAll sets the same settings on indices, and on each by itself if the target rejects that, as when one of them was deleted.
func (t *Tuner) putAll(ctx context.Context, some []*restoring) {
	names := make([]string, len(some))
	for i, r := range some {
		names[i] = r.record.Target
	}
	for part, path := range rest.InParts(names) {
		err := t.put(ctx, path, some[0].back)
		for _, r := range some[:len(part)] {
			if r.err = err; len(part) > 1 && err != nil && !errors.Is(err, fault.ErrUnavailable) {
				r.err = t.put(ctx, "/"+url.PathEscape(r.record.Target), r.back)
			}
		}
		some = some[len(part):]
	}
}
