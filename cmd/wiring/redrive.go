package wiring

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"

	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

// Redrive sends the failed documents of one session again.
type Redrive struct {
	*redrive.Redrive
	State  *resend.State
	ledger *rollback.Ledger // of created objects; nil: the state of the session was removed
	opened
}

// OpenRedrive opens the failed documents of a session, its state and the target. again returns the command line with more options.
func OpenRedrive(ctx context.Context, o Options, again func(more ...string) string, log *slog.Logger) (*Redrive, error) {
	h := &Redrive{}
	give := func(err error) (*Redrive, error) { return nil, errors.Join(err, h.Close()) }
	in := NewResources(o)
	budget.LimitMemory(o.Memory().Budget(repo.IsBucket(o.FailedDir)), os.Getenv)
	o.Target.Memory, o.coordinator.Memory = in.Memory, in.Memory
	o.Target.Log = log
	client, err := target.New(ctx, o.Target)
	if err != nil {
		return give(err)
	}
	h.opened = append(h.opened, client.Close)
	if err := o.Target.ClusterOnly("rfsd redrive"); err != nil {
		return give(err)
	}
	if _, err := askTarget(ctx, client, o.Unavailable, log); err != nil {
		return give(err)
	}
	var first followedFrom
	kept, closeKept, err := openSession(ctx, o, client)
	switch {
	case errors.Is(err, state.ErrNone) && o.sinkNamed && o.named: // its state was removed
		kept = nil
	case err != nil:
		return give(err)
	default:
		h.opened = append(h.opened, closeKept)
		if first, err = openRoot(ctx, o, kept, client); err != nil {
			return give(err)
		}
		h.ledger, h.opened = rollback.NewLedger(client, first.root, first.session, log), append(h.opened, first.close)
	}
	targets := &resend.Targets{IncludeSystem: o.includeSystem, Ledger: h.ledger, Again: again}
	if o.named {
		targets.Named = o.indices.Match
	}
	if targets.Proven, err = resend.Proven(ctx, kept, o.coordinatorFile != ""); err != nil {
		return give(err)
	}
	if h.State, err = resend.Read(ctx, o.SessionOrDefault(), kept); err != nil {
		return give(err)
	}
	source, err := sourceOf(ctx, o, h.State, in, log)
	if err != nil {
		return give(err)
	}
	storage, err := failedStorage(ctx, o, h.State)
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
		Storage: storage, Source: source, Bulk: opts, Log: log, Select: o.indices.Match, Permit: targets.MayNot, MaxDocument: cmp.Or(o.maxDocument, shards.DefaultMaxDocument),
		Existing: h.State.Existing(client),
	}
	if kept == nil {
		return h, nil
	}
	h.Later, h.Arrived = h.State.Later(first.rounds, first.number, source, log), h.State.Forget
	if h.Account, err = newRedriveAccount(o, kept); err != nil {
		return give(err)
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
