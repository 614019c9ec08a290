package creation

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Globals creates on a target the objects of a snapshot that belong to no index.
type Globals struct {
	Cluster rest.API
	Version target.Version
	Wanted  metadata.Selection
	Log     *slog.Logger

	// Reported are the changes that this process has logged before the first write; nil: none.
	Reported *Reported
}

// Migrate creates missing objects and never changes existing ones. For a snapshot that was taken without the cluster's state it creates
// nothing and returns a warning. l records each creation; nil: nothing is recorded.
func (t *Globals) Migrate(ctx context.Context, plan *plan.Plan, l objects.Ledger) (GlobalsResult, error) {
	wanted, warning, err := t.Plan(ctx, plan)
	if err != nil || warning != "" {
		return GlobalsResult{Warning: warning}, err
	}
	done, err := objects.EnsureGlobals(ctx, t.Cluster, wanted, l)
	t.report(ctx, done)
	r := GlobalsResult{Created: done.Created, Existed: done.Existed}
	for _, left := range done.Left {
		r.LeftOut = append(r.LeftOut, GlobalLeftOut{Kind: string(left.Kind), Name: left.Name, Reason: left.Reason})
	}
	return r, err
}

// Plan converts the objects of the snapshot for the target. warning is the reason why the plan is empty.
func (t *Globals) Plan(ctx context.Context, plan *plan.Plan) (wanted metadata.GlobalPlan, warning string, err error) {
	if !plan.Source.IncludeGlobalState {
		return wanted, fmt.Sprintf("the snapshot %s was taken without the cluster's state: it holds no templates, pipelines, scripts or policies", plan.Snapshot), nil
	}
	all, err := t.read(ctx, plan)
	if err != nil {
		return metadata.GlobalPlan{}, "", err
	}
	sel := t.Wanted
	for _, x := range plan.Indices {
		if x.Entry.Create {
			sel.Streams = append(sel.Streams, x.Entry.Stream.Stream)
			continue
		}
		sel.Ordinary = append(sel.Ordinary, x.Entry.Naming.Targets()...)
	}
	wanted, err = metadata.ConvertGlobals(t.Version, all, sel)
	return wanted, "", err
}

// read returns the objects of the snapshot.
func (t *Globals) read(ctx context.Context, plan *plan.Plan) (metadata.Globals, error) {
	var sections map[string]json.RawMessage
	var err error
	if plan.Source.IncludeGlobalState {
		if sections, err = plan.Source.Global(ctx); err != nil {
			return metadata.Globals{}, err
		}
	}
	all, err := metadata.ParseGlobals(sections)
	if err != nil {
		return metadata.Globals{}, err
	}
	for _, x := range plan.Source.Indices {
		all.Indices = append(all.Indices, x.Name)
	}
	return all, t.addStored(ctx, plan.Source, &all)
}

// report logs the outcome, object by object.
func (t *Globals) report(ctx context.Context, done objects.GlobalResult) {
	for _, name := range done.Created {
		t.Log.InfoContext(ctx, "created", "object", name)
	}
	for _, name := range done.Existed {
		t.Log.InfoContext(ctx, "exists on the target and is left as it is", "object", name)
	}
	for _, left := range done.Left {
		if t.Reported.Has(string(left.Kind)+" "+left.Name, "", "", left.Reason) {
			continue
		}
		t.Log.WarnContext(ctx, "not migrated", "kind", string(left.Kind), "name", left.Name, "reason", left.Reason)
	}
	logChanges(ctx, t.Log, t.Reported.New(done.Changes))
}
