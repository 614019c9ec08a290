// Package preflight determines what a migration will do before it does anything: what it creates, changes and leaves out, what the target
// rejects, and how much it reads and writes. Its requests change nothing on a target, except for the throw-away indices of Access.
package preflight

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Evaluator determines what a migration would do. It writes no documents and creates nothing except for the throw-away indices of Access.
type Evaluator struct {
	Target  objects.DryRunTarget
	Version target.Version
	Indices *creation.Indices // as in the migration, but with a DryRunCluster as its Cluster; nil if the phase is off
	Globals *creation.Globals // as in the migration, but with a dry run; nil if the phase is off
	Repo    snapshot.Repository
	// Existing is the chosen treatment of documents whose ids exist on the target; "": none chosen.
	Existing bulk.Existing
	// Own holds the target indices that the session has recorded already, with their UUIDs: their documents may be its own. nil: it is new.
	Own  map[string]string
	Only Sections
	// Documents requests that documents are counted, which costs some more requests for each shard.
	Documents bool
	// Needs holds the needs that do not depend on the plan: BulkBytes, Tolerance, Session and Now.
	Needs Needs
}

// maxUnread is the maximum number of indices with damaged metadata that a report names.
const maxUnread = 1000

// Evaluate returns what a migration of the plan would do.
func (e *Evaluator) Evaluate(ctx context.Context, p *plan.Plan) (*Report, error) {
	r := &Report{Snapshot: p.Snapshot, State: p.State, Sections: e.Only, LeftOut: p.LeftOut, Missing: p.Missing, Warnings: p.Warnings, Indices: []Index{}}
	for _, x := range p.Unread[:min(len(p.Unread), maxUnread)] {
		r.refuse("index %s fails: its metadata is damaged: %s", x.Name, x.Reason)
	}
	if n := len(p.Unread) - maxUnread; n > 0 {
		r.refuse("%d more indices fail: their metadata is damaged, too; `rfsctl snapshot check` names them", n)
	}
	if e.Version.Number != "" {
		r.Target = e.Version.Distribution + " " + e.Version.Number
	}
	over, err := e.limits(ctx, p) // before the changes, so that only one list of wanted indices is in memory
	if err != nil {
		return nil, err
	}
	if e.Only.Has(Changes) {
		if err := e.changes(ctx, p, r); err != nil {
			return nil, err
		}
	}
	if len(r.Indices) == 0 {
		for _, x := range p.Indices {
			r.Indices = append(r.Indices, newIndex(x))
		}
	}
	if e.Only.Has(Sizes) || e.Only.Has(Disks) {
		if err := e.measure(ctx, p, r); err != nil {
			return nil, err
		}
	}
	needs := e.needs(p, r)
	needs.Over = over
	r.Checks = Check(ctx, e.Target, e.Version, needs, e.Only)
	return r, ctx.Err()
}

// changes determines what would be created, changed, left out and rejected.
func (e *Evaluator) changes(ctx context.Context, p *plan.Plan, r *Report) error {
	if e.Indices != nil {
		if err := e.Indices.Check(ctx, p, nil); errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return err
		} else if err != nil {
			r.refuse("%s", fault.Text(err))
		}
	}
	if err := e.preview(ctx, p, r); err != nil || e.Indices == nil {
		return err
	}
	return e.compareTargets(ctx, p, r)
}

// needs returns e.Needs completed from the plan and the report.
func (e *Evaluator) needs(p *plan.Plan, r *Report) Needs {
	n := e.Needs
	for _, x := range p.Indices {
		targets := x.Entry.Naming.Targets()
		n.Names = append(n.Names, targets...)
		n.Shards += int64(len(targets) * x.Entry.Shards * (1 + replicas(x.Source.Settings)))
	}
	if e.Globals != nil {
		wanted := e.Globals.Wanted
		n.Pipelines, n.Scripts, n.Policies, n.Attach = wanted.Pipelines, wanted.Scripts, wanted.Policies, wanted.Attach
	}
	if e.Only.Has(Changes) {
		n.Shards = r.toCreate
	}
	if r.Size != nil {
		n.Bytes = r.Size.Target
	}
	return n
}

// limits returns, by index of the snapshot, the limits that its mappings exceed on the target.
func (e *Evaluator) limits(ctx context.Context, p *plan.Plan) (map[string][]MappingLimit, error) {
	all := map[string][]MappingLimit{}
	for _, x := range p.Indices {
		var wanted []metadata.Wanted
		if e.Indices != nil && !x.Entry.Create {
			var err error
			if wanted, err = e.Indices.Wanted(ctx, x); err != nil {
				return nil, err
			}
		}
		if over := e.overOf(x, wanted); len(over) > 0 {
			all[x.Name] = over
		}
	}
	return all, nil
}

// preview determines the effects on the objects of the cluster and on the indices.
func (e *Evaluator) preview(ctx context.Context, p *plan.Plan, r *Report) error {
	if e.Globals != nil {
		if err := e.globals(ctx, p, r); err != nil {
			return err
		}
	}
	if e.Indices == nil {
		return nil
	}
	// Concurrently, because each index waits for three responses of the target.
	indices, stops := make([]Index, len(p.Indices)), make([][]string, len(p.Indices))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(targetReaders)
	for i, x := range p.Indices {
		g.Go(func() (err error) {
			indices[i], stops[i], err = e.index(gctx, x)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	r.Indices, r.Stops = append(r.Indices, indices...), append(r.Stops, slices.Concat(stops...)...)
	return nil
}

// Limits of concurrency: target indices, and indices whose shard manifests are read.
const targetReaders, shardReaders = 8, 8

// index determines the effects on an index, and the errors that would stop its migration.
func (e *Evaluator) index(ctx context.Context, x plan.Index) (done Index, stops []string, err error) {
	done = newIndex(x)
	if x.Unchanged {
		return done, nil, nil
	}
	if x.Entry.Create {
		object := Object{Name: x.Entry.Naming.Index, Action: WouldCreate, Reason: "data stream"}
		there, err := e.Target.IndexExists(ctx, object.Name)
		if there {
			object.Action = WouldKeep
		}
		done.Targets = append(done.Targets, object)
		return done, nil, err
	}
	all, err := e.Indices.Wanted(ctx, x)
	if err != nil {
		return done, nil, err
	}
	for _, w := range all {
		object := Object{Name: w.Name}
		result, err := e.Indices.Try(ctx, x, w)
		switch {
		case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
			return done, nil, err
		case err != nil:
			object.Action, object.Reason = WouldRefuse, fault.Text(err)
			stops = append(stops, object.Reason)
		case len(result.Existed) > 0:
			object.Action = WouldKeep
		default:
			object.Action, object.Changes = WouldCreate, differs(result.Changes)
		}
		done.Targets = append(done.Targets, object)
	}
	err = e.pipelines(ctx, x, &done)
	return done, stops, err
}

func (e *Evaluator) pipelines(ctx context.Context, x plan.Index, done *Index) error {
	final, err := e.Target.FinalPipelines(ctx, x.Entry.Naming.Targets())
	if errors.Is(err, fault.ErrConfig) {
		return nil // the permission is optional
	}
	for i := range done.Targets {
		o := &done.Targets[i]
		if o.FinalPipeline = final[o.Name]; o.FinalPipeline == "" {
			continue
		}
		effects, eerr := e.Target.PipelineEffects(ctx, o.FinalPipeline)
		if errors.Is(eerr, fault.ErrUnavailable) || ctx.Err() != nil {
			return eerr
		}
		o.PipelineEffects = effects // empty without the permission, which is optional
	}
	return err
}

func (e *Evaluator) globals(ctx context.Context, p *plan.Plan, r *Report) error {
	wanted, warning, err := e.Globals.Plan(ctx, p)
	if err != nil {
		return err
	}
	if r.GlobalsWarning = warning; warning != "" {
		return nil
	}
	done, err := objects.EnsureGlobals(ctx, e.Globals.Cluster, wanted, nil)
	switch {
	case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
		return err
	case err != nil:
		for line := range strings.SplitSeq(fault.Text(err), "\n") {
			r.Stops = append(r.Stops, line)
		}
	}
	for _, name := range done.Created {
		object := Object{Name: name, Action: WouldCreate}
		object.Changes = differs(slices.DeleteFunc(slices.Clone(done.Changes), func(c metadata.Change) bool { return c.Index != name }))
		r.Globals = append(r.Globals, object)
	}
	for _, name := range done.Existed {
		r.Globals = append(r.Globals, Object{Name: name, Action: WouldKeep})
	}
	for _, left := range done.Left {
		r.Globals = append(r.Globals, Object{Name: string(left.Kind) + " " + left.Name, Action: WouldLeave, Reason: left.Reason})
	}
	return nil
}

// measure adds up sizes from the shards' manifests and, if documents are counted, from their commits.
func (e *Evaluator) measure(ctx context.Context, p *plan.Plan, r *Report) error {
	sizes, problems := make([][]Size, len(p.Indices)), make([][]error, len(p.Indices))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(shardReaders)
	for i, x := range p.Indices {
		sizes[i], problems[i] = make([]Size, x.Entry.Shards), make([]error, x.Entry.Shards)
		for n := range x.Entry.Shards {
			g.Go(func() error {
				sizes[i][n], problems[i][n] = e.shardSize(gctx, x, n)
				if err := problems[i][n]; errors.Is(err, fault.ErrUnavailable) || gctx.Err() != nil {
					return err
				}
				return nil
			})
		}
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("sizes: %w", err)
	}
	r.Size = e.noSize()
	for i, x := range p.Indices {
		of := e.noSize()
		for n, s := range sizes[i] {
			of.add(s)
			name := fmt.Sprintf("%s/%d", x.Name, n)
			if problems[i][n] != nil && !slices.ContainsFunc(r.Missing, func(m string) bool { return strings.HasPrefix(m, name+":") }) {
				r.refuse("shard %s cannot be read: %s", name, fault.Text(problems[i][n]))
			}
		}
		r.Indices[i].Size = of
		r.Size.add(*of)
	}
	return nil
}

func (e *Evaluator) noSize() *Size {
	if e.Documents {
		return &Size{Documents: new(int64)}
	}
	return &Size{}
}

// shardSize reads the manifest of a shard and, if documents are counted, its commit.
func (e *Evaluator) shardSize(ctx context.Context, x plan.Index, n int) (Size, error) {
	s := Size{Shards: 1, Requests: 1}
	shard, err := snapshot.OpenShard(ctx, e.Repo, x.Entry.Locator, n)
	if err != nil {
		return s, err
	}
	s.Repository = shard.TotalBytes
	s.Target = shard.TotalBytes * int64(1+replicas(x.Source.Settings))
	s.Read, s.Requests = shards.Cost(shard)
	if !e.Documents {
		return s, nil
	}
	commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
	if err != nil {
		return s, err
	}
	s.Documents = &commit.LiveDocs
	return s, commit.Close()
}

func replicas(settings map[string]string) int {
	n := 0
	if _, err := fmt.Sscan(settings["index.number_of_replicas"], &n); err != nil {
		return 0
	}
	return max(0, n)
}
