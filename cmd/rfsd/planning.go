package main

import (
	"context"
	"errors"
	"strings"

	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/estimate"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// request returns what is read of the snapshot.
func (o options) request() plan.Request {
	return plan.Request{
		SnapshotName: o.snapshot, Session: o.session, Indices: o.indices, IncludeSystem: o.includeSystem,
		AllowPartial: o.allowPartial, MultiType: o.multiType, EmitType: o.emitType, Rename: o.overrides, Rules: o.rules, DataStreams: o.dataStreams,
		RebuildSources: o.rebuildSources, RebuildText: o.rebuildText, ParentJoin: o.parentJoin, DuplicateKeys: o.duplicateKeys, Trial: o.trial, SplitOver: o.splitOver, Follow: o.follow,
	}
}

// sessionSettings returns the settings that all processes of a session have in common, for a repository.
func (o options) sessionSettings(blobs repo.Repository) map[string]string {
	return o.request().Settings(repositoryIdentity(blobs.URI()))
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

// estimate returns what estimates a migration by its trial run.
func (o options) estimate(p *plan.Plan, blobs *repo.Counting, memory *budget.Budget) *estimate.Run {
	return &estimate.Run{Plan: p, Blobs: blobs, Memory: memory, Edit: o.editor, MaxDocument: o.maxDocument, Slots: o.slots, Price: o.price}
}
