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

// Scratch records the indices that a Load fills, and deletes them. *rollback.Scratch implements it.
type Scratch interface {
	// Intend records that an index is about to be created; Confirm records that it was, Withdraw that it was not.
	Intend(ctx context.Context, index string) error
	Confirm(ctx context.Context, index string) error
	Withdraw(ctx context.Context, index string) error
	// Discard deletes the recorded indices with the prefix from the target and from the record. by names the indices of this process.
	Discard(ctx context.Context, prefix string, by rollback.Filled) error
}

// scratchName follows the prefix of a trial run in the names of scratch indices.
const scratchName = "measure-"

// scratchPrefix returns a prefix for scratch indices that no target index of the plan has.
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
	sent    atomic.Int64      // documents sent to the existing indices
}

// create creates the scratch indices of an index of a trial run, in the same way as the trial run created its own, and returns the entry
// that sends documents to them. It returns a fault.ErrConfig if the target already uses one of the names.
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

// present returns ErrTargetReplaced if a scratch index was deleted or replaced.
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

// refresh refreshes all scratch indices, as the end of a migration does.
func (s *scratches) refresh(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(s.uuids)) {
		if err := s.Counts.Refresh(ctx, name); err != nil {
			return fmt.Errorf("refresh %s: %w", name, err)
		}
	}
	return nil
}

// discard deletes the scratch indices of the session, including those left by an earlier process.
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
