package progress

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
)

// Reading is what the coordination store held of a session at one time. Its sum is a Migration.
type Reading struct {
	At                   time.Time // by the store's clock
	Intent               Intent
	Repository, Snapshot string       // "" before the migration has begun
	Indices, Phases      []cms.Record // their records
	Items                []cms.Item   // all documents among the items, also those that are none
}

// ReadStore reads every item and every record of phases and indices once. Missing records are not an error.
func ReadStore(ctx context.Context, c *cms.Coordinator) (*Reading, error) {
	now, _, err := c.Now(ctx)
	if err != nil {
		return nil, err
	}
	r := &Reading{At: now}
	i, err := c.Intent(ctx)
	if err != nil {
		return nil, err
	}
	r.Intent = Intent{State: strings.ToLower(string(i.State)), Workers: i.Workers}
	s, err := c.Settings(ctx)
	if err != nil && !isNotFound(err) { // without settings the migration has not begun
		return nil, err
	}
	r.Repository, r.Snapshot = s["repository"], s["snapshot"]
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
	return r, nil
}

func records(ctx context.Context, c *cms.Coordinator, kind string) (all []cms.Record, err error) {
	for rec, err := range c.Records(ctx, kind) {
		if err != nil {
			return nil, fmt.Errorf("progress: records of kind %s: %w", kind, err)
		}
		all = append(all, rec)
	}
	return all, nil
}
