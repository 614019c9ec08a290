package s3cms

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// storedRecord is the content of a record's object. The object of a deleted record stays, because a new record of the id must not repeat a
// revision, and because not every server has conditional deletes.
type storedRecord struct {
	ID      string `json:"id"`
	Rev     int64  `json:"rev"`
	Deleted bool   `json:"deleted,omitempty"`
	cms.Record
}

// loadRecord returns the current record of an object, deleted or not, and the version of the object.
func (s *session) loadRecord(ctx context.Context, name, what string) (storedRecord, string, error) {
	body, version, err := s.read(ctx, name, what)
	if err != nil {
		return storedRecord{}, "", err
	}
	var r storedRecord
	if err := json.Unmarshal(body, &r); err != nil {
		return r, "", fmt.Errorf("%s in the coordination store: %w: %w", what, err, fault.ErrCorrupt)
	}
	if s.recordName(r.ID) != name {
		return r, "", fmt.Errorf("object %s in the coordination store holds the record %q: %w", name, r.ID, fault.ErrCorrupt)
	}
	r.Record.ID, r.Revision = r.ID, cms.Revision{Seq: r.Rev, Term: 1}
	s.seen.put(name, cached{version: version, rev: r.Rev})
	return r, version, nil
}

// Record reads a record.
func (s *session) Record(ctx context.Context, id string) (cms.Record, error) {
	r, _, err := s.loadRecord(ctx, s.recordName(id), "record "+id)
	if err == nil && r.Deleted {
		err = fmt.Errorf("record %s: %w", id, cms.ErrNotFound)
	}
	if err != nil {
		return cms.Record{}, err
	}
	return r.Record, nil
}

// Put writes a record if its revision is still the stored one.
func (s *session) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	return s.change(ctx, r, false)
}

// PutAll writes each record by requests of its own.
func (s *session) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	errs := make([]error, len(records))
	each(len(records), func(i int) { _, errs[i] = s.Put(ctx, records[i]) })
	return errs, nil
}

// Delete removes a record if its revision is still the stored one.
func (s *session) Delete(ctx context.Context, r cms.Record) error {
	if r.Revision == (cms.Revision{}) {
		return fmt.Errorf("record %s: %w", r.ID, cms.ErrConflict)
	}
	_, err := s.change(ctx, cms.Record{ID: r.ID, Kind: r.Kind, Revision: r.Revision}, true)
	return err
}

// change writes the next revision of a record. It tries the cached version first.
func (s *session) change(ctx context.Context, r cms.Record, deleted bool) (cms.Revision, error) {
	name, what := s.recordName(r.ID), "record "+r.ID
	fresh := r.Revision == cms.Revision{}
	was, known := s.seen.get(name)
	if fresh {
		was = cached{}
	} else if !known || was.rev != r.Revision.Seq {
		is, version, err := s.loadRecord(ctx, name, what)
		switch {
		case errors.Is(err, cms.ErrNotFound):
			return cms.Revision{}, fmt.Errorf("%s: %w", what, cms.ErrConflict)
		case err != nil:
			return cms.Revision{}, err
		case is.Deleted || is.Revision != r.Revision:
			return cms.Revision{}, fmt.Errorf("%s: %w", what, cms.ErrConflict)
		}
		was = cached{version: version, rev: is.Rev}
	}
	rev, err := s.put(ctx, name, what, storedRecord{ID: r.ID, Rev: was.rev + 1, Deleted: deleted, Record: r}, was.version)
	if !fresh || !errors.Is(err, cms.ErrConflict) {
		return rev, err
	}
	// The object exists. It may belong to a deleted record.
	is, version, lerr := s.loadRecord(ctx, name, what)
	if lerr != nil || !is.Deleted {
		return cms.Revision{}, cmp.Or(lerr, err)
	}
	return s.put(ctx, name, what, storedRecord{ID: r.ID, Rev: is.Rev + 1, Record: r}, version)
}

func (s *session) put(ctx context.Context, name, what string, r storedRecord, version string) (cms.Revision, error) {
	is, err := s.write(ctx, name, what, r, version)
	if err != nil {
		s.seen.drop(name)
		return cms.Revision{}, err
	}
	s.seen.put(name, cached{version: is, rev: r.Rev})
	return cms.Revision{Seq: r.Rev, Term: 1}, nil
}

// List yields the records of a kind in order of ids.
func (s *session) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		all, err := s.list(ctx, kind)
		if err != nil {
			yield(cms.Record{}, err)
			return
		}
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *session) list(ctx context.Context, kind string) ([]cms.Record, error) {
	var all []cms.Record
	for after, more := "", true; more; {
		var names []string
		var err error
		names, _, more, err = s.cfg.Bucket.List(ctx, s.recordName(kind), after)
		if err != nil {
			return nil, s.failed(err)
		}
		records, errs := make([]storedRecord, len(names)), make([]error, len(names))
		each(len(names), func(i int) { records[i], _, errs[i] = s.loadRecord(ctx, names[i], "object "+names[i]) })
		for i, r := range records {
			after = names[i]
			switch {
			case errors.Is(errs[i], cms.ErrNotFound) || errs[i] == nil && (r.Deleted || r.Kind != kind):
				continue
			case errs[i] != nil:
				return nil, errs[i]
			}
			all = append(all, r.Record)
		}
	}
	slices.SortFunc(all, func(a, b cms.Record) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}
