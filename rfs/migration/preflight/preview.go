package preflight

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Preview returns a function that logs the expected differences between snapshot and target, before the first write. It determines
// them by a dry run of the creation of indices and global objects. Errors: fault.ErrUnavailable, and errors of the plan.
func Preview(on objects.DryRunTarget, indices *creation.Indices, globals *creation.Globals) func(context.Context, *plan.Plan, phase.Phases) error {
	said := creation.NewReported()
	indices.Reported, globals.Reported = said, said
	return func(ctx context.Context, p *plan.Plan, phases phase.Phases) error {
		dry := objects.DryRunCluster{Target: on}
		var probe sync.WaitGroup
		var refusal error
		probe.Go(func() { refusal = dry.Permitted(ctx) })
		e := &Evaluator{Target: on, Version: indices.Version}
		var err error
		if phases.Has(phase.PhaseIndices) {
			e.Indices, err = indices.DryRun(ctx, dry)
		}
		if probe.Wait(); err == nil && (errors.Is(refusal, fault.ErrUnavailable) || ctx.Err() != nil) {
			err = refusal
		}
		if err != nil {
			return err
		}
		if refusal != nil {
			indices.Log.WarnContext(ctx, "template simulation is not permitted on the target: unsupported field types will be reported while indices are created", "reason", fault.Text(refusal))
			dry.Blind = true
		}
		if e.Indices != nil {
			e.Indices.Cluster = dry
		}
		if phases.Has(phase.PhaseMetadata) {
			e.Globals = &creation.Globals{Cluster: dry, Version: globals.Version, Wanted: globals.Wanted, Log: slog.New(slog.DiscardHandler)}
		}
		r := &Report{}
		if err := e.preview(ctx, p, r); err != nil {
			return err
		}
		logPreview(ctx, indices.Log, r, said)
		return nil
	}
}

// Limits of the log: objects in a list, and examples of a rule. rfsd plan lists all of them.
const (
	maxPreviewed = 20
	maxExamples  = 5
)

// logPreview logs one line for each rule, and the objects that the target will lack.
func logPreview(ctx context.Context, log *slog.Logger, r *Report, said *creation.Reported) {
	var rules []string
	byRule := map[string]*ruleEffect{}
	counts := map[string]int{}
	objects := slices.Clone(r.Globals)
	for _, x := range r.Indices {
		objects = append(objects, x.Targets...)
	}
	var left, refused []Object
	for _, o := range objects {
		counts[o.Action]++
		switch o.Action {
		case WouldLeave:
			left = append(left, o)
			said.Add(o.Name, "", "", o.Reason)
		case WouldRefuse:
			refused = append(refused, o)
		}
		for _, c := range o.Changes {
			f := byRule[c.Rule]
			if f == nil {
				f, rules = &ruleEffect{objects: map[string]bool{}}, append(rules, c.Rule)
				byRule[c.Rule] = f
			}
			f.add(o.Name, c)
			said.Add(o.Name, c.Rule, c.Path, c.Detail)
		}
	}
	log.InfoContext(ctx, "nothing is written yet", "will_be_created", counts[WouldCreate], "exist_and_stay", counts[WouldKeep], "will_be_refused", counts[WouldRefuse],
		"not_migrated", counts[WouldLeave], "details", "rfsd plan")
	for _, rule := range rules {
		f := byRule[rule]
		level := slog.LevelInfo
		if f.loses {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "will differ from the snapshot", "rule", rule, "changes", f.changes, "objects", len(f.objects), "examples", strings.Join(f.some, "; "))
	}
	logSome(ctx, log, "will not be migrated", left)
	logSome(ctx, log, "will be refused by the target", refused)
}

// ruleEffect is the effect of one rule.
type ruleEffect struct {
	changes int
	objects map[string]bool
	some    []string
	loses   bool
}

func (f *ruleEffect) add(object string, c Differs) {
	f.changes++
	f.objects[object] = true
	f.loses = f.loses || c.Loses
	if len(f.some) < maxExamples {
		f.some = append(f.some, object+" "+c.Path+": "+c.Detail)
	}
}

func logSome(ctx context.Context, log *slog.Logger, what string, all []Object) {
	for _, o := range all[:min(len(all), maxPreviewed)] {
		log.WarnContext(ctx, what, "object", o.Name, "reason", o.Reason)
	}
	if more := len(all) - maxPreviewed; more > 0 {
		log.WarnContext(ctx, what, "more", more, "details", "rfsd plan")
	}
}
