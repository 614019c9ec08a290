package metrics

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Store returns next with its requests measured. Listings are not measured, because their duration depends on the consumer of the sequence.
func (c *Counters) Store(next cms.Store) cms.Store { return &store{next, c} }

type store struct {
	next cms.Store
	c    *Counters
}

// took records one request. Errors that are decisions do not count as errors.
func (s *store) took(begin time.Time, err error) {
	s.c.store.add(time.Since(begin))
	if err != nil && !errors.Is(err, cms.ErrNotFound) && !errors.Is(err, cms.ErrConflict) && !errors.Is(err, context.Canceled) {
		s.c.storeErrors.Add(1)
	}
}

func (s *store) Create(ctx context.Context, items []cms.Item) (created int, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Create(ctx, items)
}

func (s *store) Apply(ctx context.Context, id string, t cms.Transition) (it cms.Item, v cms.Result, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Apply(ctx, id, t)
}

func (s *store) ApplyAll(ctx context.Context, changes []cms.Change) (outcomes []cms.Outcome, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.ApplyAll(ctx, changes)
}

func (s *store) PutAll(ctx context.Context, records []cms.Record) (errs []error, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.PutAll(ctx, records)
}

func (s *store) Get(ctx context.Context, id string) (it cms.Item, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Get(ctx, id)
}

func (s *store) Now(ctx context.Context) (now time.Time, maxErr time.Duration, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Now(ctx)
}

func (s *store) Candidates(ctx context.Context, grace time.Duration, n int) (items []cms.Item, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Candidates(ctx, grace, n)
}

func (s *store) Open(ctx context.Context) (o cms.Open, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Open(ctx)
}

func (s *store) Scan(ctx context.Context) iter.Seq2[cms.Item, error] { return s.next.Scan(ctx) }

func (s *store) Record(ctx context.Context, id string) (r cms.Record, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Record(ctx, id)
}

func (s *store) Put(ctx context.Context, r cms.Record) (rev cms.Revision, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Put(ctx, r)
}

func (s *store) Delete(ctx context.Context, r cms.Record) (err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Delete(ctx, r)
}

func (s *store) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := s.next.OfKind(ctx, kind)
	return &store{of, s.c}, err
}

func (s *store) Incarnation(ctx context.Context) (is string, err error) {
	defer func(begin time.Time) { s.took(begin, err) }(time.Now())
	return s.next.Incarnation(ctx)
}

func (s *store) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return s.next.List(ctx, kind)
}
