package load

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Scratch keeps the record of the indices that a Load fills, and deletes them. *rollback.Scratch is one.
type Scratch interface {
	// Intend records that an index is going to be created, Confirm that it was, Withdraw that it was not.
	Intend(ctx context.Context, index string) error
	Confirm(ctx context.Context, index string) error
	Withdraw(ctx context.Context, index string) error
	// Discard deletes the recorded indices that are on the target, and forgets them. Their names have a prefix; by are those of
	// this process.
	Discard(ctx context.Context, prefix string, by rollback.Filled) error
}

// scratchName follows the prefix of a trial run in the names of scratch indices.
const scratchName = "measure-"

// scratchPrefix returns a prefix for the names of scratch indices that no target index of the plan has.
func scratchPrefix(p *plan.Plan) string {
	prefix := ""
	for _, x := range p.Indices {
		prefix = x.Entry.Trial.Prefix
	}
	for scratch := prefix + scratchName; ; scratch += scratchName {
		if !slices.ContainsFunc(p.Indices, func(x plan.Index) bool { return strings.HasPrefix(x.Entry.Naming.Index, scratch) }) {
			return scratch
		}
	}
}

// scratches are the scratch indices of one Load.
type scratches struct {
	*phase.Session
	records Scratch
	prefix  string            // of their names
	uuids   map[string]string // by name
	sent    atomic.Int64      // documents of all requests to those that are there
}

// create creates the scratch indices of an index of a trial run, as the trial run has created its own, and returns the entry by
// which they are filled. fault.ErrConfig when the target has something of these names.
func (s *scratches) create(ctx context.Context, e plan.Entry) (plan.Entry, error) {
	prefix := s.prefix
	e.Naming.Index, e.Ours = prefix+strings.TrimPrefix(e.Naming.Index, e.Trial.Prefix), nil
	names := e.Naming.Targets()
	absent, err := s.Indices.Absent(ctx, names)
	if err != nil {
		return e, err
	}
	if err := e.Foreign(absent); err != nil {
		return e, err
	}
	source, err := s.SourceIndex(ctx, e.Locator)
	if err != nil {
		return e, err
	}
	for _, name := range names {
		if err := s.records.Intend(ctx, name); err != nil {
			return e, err
		}
	}
	mark, err := s.Mark(ctx)
	if err != nil {
		return e, err
	}
	e.Trial, e.Ours = &plan.Trial{Documents: e.Trial.Documents, Prefix: prefix}, names
	made, err := s.Indices.Make(ctx, plan.Index{Name: e.Locator.IndexName, Source: source, Entry: e, Mark: mark, Scratch: true})
	for _, name := range made.Created {
		err = errors.Join(err, s.records.Confirm(ctx, name))
	}
	if err != nil {
		return e, err
	}
	for _, name := range names {
		if !slices.Contains(made.Created, name) {
			return e, errors.Join(fmt.Errorf("another client created the index %s at the same time: %w", name, fault.ErrConfig), s.records.Withdraw(ctx, name))
		}
		if s.uuids[name], err = s.Targets.IndexUUID(ctx, name); err != nil {
			return e, fmt.Errorf("target index %s: %w", name, err)
		}
	}
	e.Originals = made.Originals
	return e, s.TuneIndices(ctx, e)
}

// present returns ErrTargetReplaced when a scratch index was replaced since it was created.
func (s *scratches) present(ctx context.Context) error {
	for name, uuid := range s.uuids {
		is, err := s.Targets.IndexUUID(ctx, name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("target index %s does not exist: %w", name, engine.ErrTargetReplaced)
		case err != nil:
			return fmt.Errorf("target index %s: %w", name, err)
		case is != uuid:
			return fmt.Errorf("target index %s has the UUID %s, it was created with %s: %w", name, is, uuid, engine.ErrTargetReplaced)
		}
	}
	return nil
}

// refresh makes everything that was sent searchable, as the end of a migration does.
func (s *scratches) refresh(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(s.uuids)) {
		if err := s.Counts.Refresh(ctx, name); err != nil {
			return fmt.Errorf("refresh %s: %w", name, err)
		}
	}
	return nil
}

// discard deletes the scratch indices of the session, also the indices of an earlier process.
func (s *scratches) discard(ctx context.Context) error {
	if s.Tuner != nil {
		if _, err := s.Tuner.Restore(ctx); err != nil {
			return err
		}
	}
	err := s.records.Discard(ctx, s.prefix, rollback.Filled{Indices: slices.Sorted(maps.Keys(s.uuids)), Sent: s.sent.Load()})
	if err == nil {
		clear(s.uuids)
		s.sent.Store(0)
	}
	return err
}
