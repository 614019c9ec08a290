package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/load"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// request returns what is read of the snapshot.
func (o options) request() plan.Request {
	return plan.Request{
		SnapshotName: o.snapshot, Session: o.session, Indices: o.indices, IncludeSystem: o.includeSystem,
		AllowPartial: o.allowPartial, MultiType: o.multiType, EmitType: o.emitType, Rename: o.overrides, Rules: o.rules, DataStreams: o.dataStreams,
		RebuildSources: o.rebuildSources, RebuildText: o.rebuildText, ParentJoin: o.parentJoin, DuplicateKeys: o.duplicateKeys, Trial: o.trial, SplitOver: o.splitOver, Follow: o.follow,
	}
}

// repositoryIdentity names a repository for the settings of a session; a path means
// something on one machine only.
func repositoryIdentity(uri string) string {
	if strings.HasPrefix(uri, "file://") {
		return ""
	}
	return uri
}

// planError returns an error of plan.New with its exit code: wrong names are the user's, the rest is the snapshot's.
func planError(err error) error {
	if err == nil || errors.Is(err, fault.ErrConfig) || errors.Is(err, context.Canceled) {
		return err
	}
	return exit.With(exit.Snapshot, err)
}

// announce says before the run what will not arrive as it was, or not at all.
func announce(log *slog.Logger, plan *plan.Plan) {
	for _, w := range plan.Warnings {
		log.Warn(w)
	}
	for _, x := range plan.Vanished {
		log.Warn("the snapshot lacks an index that the former one has: it stays on the target, except with --delete-indices", "index", x.Name)
	}
	for _, m := range plan.Missing {
		log.Warn("the snapshot lacks a shard", "shard", m)
	}
	for _, x := range plan.Indices {
		if x.Entry.Reduced != "" {
			log.Warn("stored sources differ from the indexed documents", "index", x.Name, "reason", x.Entry.Reduced)
		}
	}
	if len(plan.LeftOut) > 0 {
		log.Info("system indices are left out; --include-system migrates them", "indices", strings.Join(plan.LeftOut, ", "))
	}
}

// announceTrial prints what a trial run reads and sends, before it starts.
func announceTrial(o options, p *plan.Plan, out *output.Writer) {
	if o.trial == nil || o.log.Quiet {
		return
	}
	text := progress.Sprintf("trial run: reads and sends at most %d documents of each of %s to indices named %s…", o.trial.Documents, progress.Plural(int64(p.Shards()), "shard"), o.trial.Prefix)
	if o.measure > 0 {
		text += fmt.Sprintf("; then, for at most %s, at most %s of sources to indices that it deletes again", o.measure, progress.Bytes(load.MostSource(p)))
	}
	fmt.Fprintln(out, text)
}
