package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

// Redrive sends the failed documents of one session again.
type Redrive struct {
	*redrive.Redrive
	kept   *cms.Coordinator // the state of the session; nil: it was removed
	ledger *rollback.Ledger // of created objects; nil without kept
	opened
}

// OpenRedrive opens the failed documents of a session, its state and the target. again returns the command line with more options.
func OpenRedrive(ctx context.Context, o Options, again func(more ...string) string, log *slog.Logger) (*Redrive, error) {
	h := &Redrive{}
	give := func(err error) (*Redrive, error) { return nil, errors.Join(err, h.Close()) }
	in := NewResources(o)
	budget.LimitMemory(o.Memory().Budget(config.InBucket(o.FailedDir)), os.Getenv)
	o.Target.Memory, o.coordinator.Memory = in.Memory, in.Memory
	o.Target.Log = log
	client, err := target.New(ctx, o.Target)
	if err != nil {
		return give(err)
	}
	h.opened = append(h.opened, client.Close)
	if err := clusterOnly(o.Target, "rfsd redrive"); err != nil {
		return give(err)
	}
	if _, err := askTarget(ctx, client, log); err != nil {
		return give(err)
	}
	var first followedFrom
	kept, closeKept, err := openSession(ctx, o, client)
	switch {
	case errors.Is(err, state.ErrNone) && o.sinkNamed && o.named: // its state was removed
	case err != nil:
		return give(err)
	default:
		h.kept, h.opened = kept, append(h.opened, closeKept)
		if first, err = openRoot(ctx, o, kept, client); err != nil {
			return give(err)
		}
		h.ledger, h.opened = rollback.NewLedger(client, first.root, first.session, log), append(h.opened, first.close)
	}
	permit, err := newWritable(ctx, o, h.kept, h.ledger, again)
	if err != nil {
		return give(err)
	}
	if o.existing, err = existingOf(ctx, h.kept); err != nil {
		return give(err)
	}
	source, err := sourceOf(ctx, o, h.kept, in, log)
	if err != nil {
		return give(err)
	}
	place, err := failedPlace(ctx, o, h.kept)
	if err != nil {
		return give(err)
	}
	limits, stopLimits := in.sending(ctx, o, client, log)
	h.opened = append(h.opened, stopLimits)
	sender, err := engine.ToCluster(in.counters.Sender(client), limits).Open(ctx, cms.ItemID{}, func() error { return nil })
	if err != nil {
		return give(err)
	}
	opts := bulkOptions(o, in, client)
	opts.Sender = sender
	h.Redrive = &redrive.Redrive{
		Place: place, Source: source, Bulk: opts, Log: log, Select: o.indices.Match, Permit: permit.mayNot, MaxDocument: cmp.Or(o.maxDocument, shards.DefaultMaxDocument),
		Existing: func(ctx context.Context, index string) (bulk.Existing, error) {
			stream, err := objects.IsStream(ctx, client, index)
			if stream {
				return bulk.Keep, err
			}
			return o.existing, err
		},
	}
	if h.kept == nil {
		return h, nil
	}
	if h.Later, err = first.later(ctx, o, h.kept, source, log); err != nil {
		return give(err)
	}
	if h.Account, err = newRedriveAccount(o, h.kept); err != nil {
		return give(err)
	}
	h.Arrived = func(ctx context.Context, arrived func(redrive.Document) bool) error {
		return session.RefusalsOf(h.kept).Forget(ctx, func(d session.Refused) bool {
			return arrived(redrive.Document{Index: d.Index, ID: d.ID, Shard: d.Shard, Ordinal: d.Ordinal})
		})
	}
	return h, nil
}

// Run sends the documents. Indices without other writes since the migration ended are sealed again after it.
func (h *Redrive) Run(ctx context.Context) (done redrive.Report, err error) {
	if h.ledger == nil {
		return h.Redrive.Run(ctx)
	}
	err = h.ledger.Around(ctx, func() (err error) {
		done, err = h.Redrive.Run(ctx)
		return err
	})
	return done, err
}

// PoliciesWaiting returns the indices that the session gave no policy because documents were missing.
func (h *Redrive) PoliciesWaiting(ctx context.Context) ([]string, error) {
	if h.kept == nil {
		return nil, nil
	}
	return phase.PoliciesWaiting(ctx, h.kept)
}

// existingOf returns what the session does with documents that the target has.
func existingOf(ctx context.Context, kept *cms.Coordinator) (bulk.Existing, error) {
	if kept == nil {
		return bulk.Overwrite, nil
	}
	identity, err := session.IdentityOf(kept).Read(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return "", fmt.Errorf("state of the session: %w", err)
	}
	settings, err := session.IdentityOf(kept).Settings(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return "", fmt.Errorf("state of the session: %w", err)
	}
	if settings[plan.FollowKey] != "" { // by their versions, documents that a later round changed stay
		return bulk.Newer, nil
	}
	if f, err := session.RoundsOf(kept).Read(ctx); err != nil || len(f.Rounds) > 1 {
		return "", cmp.Or(err, session.ErrFollowed)
	}
	return bulk.Existing(cmp.Or(identity[phase.ExistingKey], string(bulk.Overwrite))), nil
}
