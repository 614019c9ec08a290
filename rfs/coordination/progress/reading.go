package progress

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Reading is the state of a session in the coordination store at one time. Its Sum is a Migration.
type Reading struct {
	At                   time.Time // in whole milliseconds, by the store's clock
	Kind                 string    // of the items; "" for shards. Sum and Compact support only shards
	Session              string    // owner of the items, as named by the reader
	Seeded               bool      // for other kinds: every item exists
	Intent               Intent
	Followed             bool         // the session belongs to a cluster that is followed
	Undone               bool         // what it created was removed
	Repository, Snapshot string       // "" before the migration has started
	Indices, Phases      []cms.Record // their records; for other kinds, Phases has the records of the kind
	Redriven             []cms.Record // of each place with re-driven documents
	Rounds               session.Followed
	Cutover              session.Cutover
	Items                []cms.Item // all documents among the items, including foreign ones
}

// ReadHead reads the store's clock, the identity and the intent of a session, and the records of re-driven documents.
func ReadHead(ctx context.Context, c *cms.Coordinator) (*Reading, error) {
	now, _, err := c.Leases().Now(ctx)
	if err != nil {
		return nil, err
	}
	i, err := session.OrdersOf(c).Intent(ctx)
	if err != nil {
		return nil, err
	}
	again, err := records(ctx, c, "redriven")
	if err != nil {
		return nil, err
	}
	s, undone, err := session.IdentityOf(c).Head(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) { // without settings the session has not started
		return nil, err
	}
	return &Reading{
		At: now.Truncate(time.Millisecond), Intent: NewIntent(i), Redriven: again,
		Repository: s["repository"], Snapshot: s["snapshot"], Followed: s["follow"] != "", Undone: undone,
	}, nil
}

// ReadStore reads every item and every record of phases and indices once. Missing records are not an error.
func ReadStore(ctx context.Context, c *cms.Coordinator) (*Reading, error) {
	r, err := ReadHead(ctx, c)
	if err != nil {
		return nil, err
	}
	if r.Indices, err = records(ctx, c, "index"); err != nil {
		return nil, err
	}
	for it, err := range c.Store().Scan(ctx) {
		if err != nil {
			return nil, fmt.Errorf("progress: items: %w", err)
		}
		r.Items = append(r.Items, it)
	}
	if r.Phases, err = records(ctx, c, "phase"); err != nil {
		return nil, err
	}
	return r, r.readRounds(ctx, c)
}

// ReadRounds reads the rounds of a followed cluster, its cut-over and the orders from root, the session that migrated the first snapshot:
// sessions of later rounds have no such records.
func (r *Reading) ReadRounds(ctx context.Context, root *cms.Coordinator) error {
	i, err := session.OrdersOf(root).Intent(ctx)
	if err != nil {
		return err
	}
	r.Intent = NewIntent(i)
	return r.readRounds(ctx, root)
}

func (r *Reading) readRounds(ctx context.Context, root *cms.Coordinator) (err error) {
	if r.Rounds, err = session.RoundsOf(root).Read(ctx); err != nil || len(r.Rounds.Rounds) == 0 {
		return err
	}
	r.Cutover, _, err = session.CutoversOf(root).Read(ctx)
	return err
}

func records(ctx context.Context, c *cms.Coordinator, kind string) (all []cms.Record, err error) {
	for rec, err := range session.List(ctx, c, kind) {
		if err != nil {
			return nil, fmt.Errorf("progress: records of kind %s: %w", kind, err)
		}
		all = append(all, rec)
	}
	return all, nil
}

// Compact returns a reading with the same sum, without the parts of records that Sum does not read.
func (r *Reading) Compact() *Reading {
	if r.Kind != "" {
		return r
	}
	is := *r
	is.Indices, is.Phases = nil, nil
	for _, rec := range r.Indices {
		var b entryBody
		if json.Unmarshal(rec.Body, &b) != nil || b.Name == "" {
			continue // Sum ignores it
		}
		if body, err := json.Marshal(b); err == nil {
			is.Indices = append(is.Indices, cms.Record{ID: rec.ID, State: rec.State, Error: rec.Error, Body: body})
		}
	}
	for _, rec := range r.Phases {
		var b phaseBody
		_ = json.Unmarshal(rec.Body, &b)
		rec.Kind, rec.Revision, rec.Body = "", cms.Revision{}, nil
		if body, err := json.Marshal(b); err == nil && b != (phaseBody{}) {
			rec.Body = body
		}
		is.Phases = append(is.Phases, rec)
	}
	return &is
}

// Shards returns the number of shards in the sum of r, which determines its size.
func (r *Reading) Shards() (n int64) {
	most := map[string]int64{}
	for _, rec := range r.Indices {
		var b entryBody
		if json.Unmarshal(rec.Body, &b) == nil {
			most[b.Name] = max(most[b.Name], int64(b.Shards))
		}
	}
	for _, it := range r.Items {
		if id, err := it.Range(); err == nil {
			most[id.Index] = max(most[id.Index], int64(id.Shard)+1)
		}
	}
	for _, shards := range most {
		n += shards
	}
	return n
}
