package importer

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Aliases sets the aliases that an export describes on the indices that the session has created. Indices that were on the target before
// keep theirs.
type Aliases struct {
	Described func(ctx context.Context) (map[string]json.RawMessage, error) // by index
	Created   func(ctx context.Context) iter.Seq2[session.Creation, error]
	Target    interface {
		SetAliases(ctx context.Context, index string, aliases json.RawMessage) error
	}
	Ledger interface {
		IntendAliases(ctx context.Context, index string, aliases json.RawMessage) error
	}
	Events interface {
		Event(ctx context.Context, subject, code, detail string) (emitted bool, err error)
	}
	Log *slog.Logger
}

// Set sets the aliases. It logs and records those that the target refuses, and sets the others.
func (a *Aliases) Set(ctx context.Context) error {
	all, err := a.Described(ctx)
	if err != nil || len(all) == 0 {
		return err
	}
	for c, err := range a.Created(ctx) {
		if err != nil {
			return err
		}
		if c.Kind != rollback.Index || c.State != session.CreationDone || all[c.Name] == nil {
			continue
		}
		if err := a.set(ctx, c.Name, all[c.Name]); err != nil {
			return fmt.Errorf("aliases of %s: %w", c.Name, err)
		}
	}
	return nil
}

// set records the aliases of one index and sets them.
func (a *Aliases) set(ctx context.Context, index string, aliases json.RawMessage) error {
	if err := a.Ledger.IntendAliases(ctx, index, aliases); err != nil {
		return err
	}
	refused, err := creation.SetEach(ctx, a.Target, index, aliases)
	if err != nil {
		return err
	}
	for _, alias := range slices.Sorted(maps.Keys(refused)) {
		a.Log.ErrorContext(ctx, "alias refused: set it by hand", "index", index, "alias", alias, "reason", refused[alias])
		if _, err := a.Events.Event(ctx, fmt.Sprintf("alias %s of %s", alias, index), "refused", refused[alias]); err != nil {
			return err
		}
	}
	return nil
}
