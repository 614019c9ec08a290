package wiring

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Contact returns an error unless the target of a cluster that is followed answers and the state of the work opens. It creates the state,
// unless it has to exist; then the error of a missing one is state.ErrNone. It waits while the target is busy or not ready, and while another
// command has a new file of the state open.
func Contact(ctx context.Context, o Options, exists bool, log *slog.Logger) error {
	if err := o.canFollow(); err != nil {
		return err
	}
	client, err := target.New(ctx, o.Target)
	if err != nil {
		return err
	}
	_, err = askTarget(ctx, client, o.Unavailable, log)
	shut := func() error { return nil }
	switch {
	case err != nil:
	case exists:
		_, shut, err = openSession(ctx, o, client)
	case o.Shares():
		_, shut, err = OpenStore(ctx, o, false)
	default:
		_, shut, err = OpenWithRetry(ctx, o, false, log)
	}
	if err == nil {
		err = shut()
	}
	return errors.Join(err, client.Close())
}

// canFollow returns a fault.ErrConfig for a target that no round can change.
func (o Options) canFollow() error {
	return o.Target.ClusterOnly("following, which changes and deletes documents by their ids and needs index.gc_deletes,")
}

// Round returns the options of a round of the cluster that o follows.
func (o Options) Round(x follow.Round) (Options, error) {
	first := o
	if err := o.canFollow(); err != nil {
		return o, err
	}
	o.follow, o.Snapshot, o.round = x.Follow, x.Snapshot, x
	switch {
	case x.Snapshot != "":
		o.origin.derived = false
		o.phases = o.phases.Without(phase.PhaseSnapshot)
	case !o.origin.derived:
		return o, config.Usage("round %d, which has not ended, makes its snapshot on the source: give --source-host, and no --snapshot-name", x.Number)
	}
	if x.Number == 0 {
		return o, nil
	}
	o.first, o.Session = &first, x.Session
	suffix := strings.TrimPrefix(o.Session, first.SessionOrDefault()) // -round-1
	if o.coordinatorFile != "" {
		o.coordinatorFile = follow.NameOf(o.coordinatorFile, x.Number)
	}
	if o.FailedDir == defaultFailedDir(first.SessionOrDefault()) {
		o.FailedDir = defaultFailedDir(o.Session)
	} else if o.FailedDir = strings.TrimSuffix(o.FailedDir, "/") + "/" + suffix[1:]; !repo.IsBucket(o.FailedDir) {
		o.FailedDir = path.Clean(o.FailedDir)
	}
	return o, o.defaultPaths()
}

// whole returns the options of the session: for a round, the options of its round 0.
func (o Options) whole() Options {
	if o.first != nil {
		return *o.first
	}
	return o
}

// DeleteSnapshot deletes the snapshot that a round made. The record is input: only a snapshot with the derived name of the session is deleted.
func (o Options) DeleteSnapshot(ctx context.Context, x follow.Round, blobs repo.Repository) error {
	if !x.Made || !o.origin.derived {
		return nil
	}
	made := x
	made.Snapshot = ""
	of, err := o.Round(made)
	if err != nil {
		return err
	}
	if of.snapshotOptions(of.SessionSettings(blobs)).Names(x.Snapshot) {
		return of.LiveSource().Delete(ctx, x.Snapshot)
	}
	return nil
}

// OpenRound opens the records of a later round, and frees the leases that dead processes of this machine hold there if free is true. Its
// error wraps cms.ErrStoreGone if the round has no records.
func (o Options) OpenRound(ctx context.Context, x follow.Round, free bool, log *slog.Logger) (*cms.Coordinator, func() error, error) {
	x.Snapshot = cmp.Or(x.Snapshot, o.Snapshot) // it is not read
	of, err := o.Round(x)
	if err != nil {
		return nil, nil, err
	}
	store, shut, err := OpenWithRetry(ctx, of, true, log)
	if err != nil {
		return nil, nil, err
	}
	kept := of.StateIn(store)
	if free {
		if err := of.freeDead(ctx, kept); err != nil {
			return nil, nil, errors.Join(err, shut())
		}
	}
	return kept, shut, nil
}

// freeDead frees the leases that dead processes of this machine hold in a session, unless a living one works on it.
func (o Options) freeDead(ctx context.Context, kept *cms.Coordinator) error {
	owned, err := owner.Take(o.ownerFile, owner.Name())
	if errors.Is(err, owner.ErrLive) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, dead := range owned.Dead() {
		err = errors.Join(err, session.HeldOf(kept).ReleaseDead(ctx, dead, cms.CauseKilled))
	}
	if err == nil {
		err = owned.Forget()
	}
	return errors.Join(err, owned.Release())
}

// ForgetRound removes the records of a round that is over. Round 0 keeps its records: they hold the others.
func (o Options) ForgetRound(ctx context.Context, x follow.Round) error {
	of, err := o.Round(x)
	switch {
	case err != nil || x.Number == 0:
		return err
	case of.Shares():
		return of.place(false).Remove(ctx)
	}
	if err := os.Remove(of.coordinatorFile); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// openFirst opens the state of the session that migrated the first snapshot of a cluster that is followed.
func openFirst(ctx context.Context, first Options, writer string, log *slog.Logger, all *opened) (*cms.Coordinator, error) {
	store, closeStore, err := OpenWithRetry(ctx, first, true, log)
	if err != nil {
		return nil, fmt.Errorf("session %s, which is followed: %w", first.SessionOrDefault(), err)
	}
	*all = append(*all, closeStore)
	return cms.New(first.coordination(store, writer)), nil
}
