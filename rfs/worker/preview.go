package worker

import (
	"context"
	"errors"
	"hash/maphash"
	"log/slog"
	"slices"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/metadata"
)

// Preview returns a function that logs the expected differences between snapshot and target, before the first write. It finds
// them by a dry run of what creates indices and global objects. Errors: fault.ErrUnavailable, and those of a plan.
func Preview(on Requester, indices *TargetIndices, globals *TargetGlobals) func(context.Context, *Plan, Phases) error {
	said := &reported{seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	indices.reported, globals.reported = said, said
	return func(ctx context.Context, plan *Plan, phases Phases) error {
		dry := DryRunCluster{Target: on}
		probed := beginEarly(ctx, func(ctx context.Context) error { return dry.simulate(ctx, "POST /_index_template/_simulate", nil) })
		defer probed.stop()
		quiet := slog.New(slog.DiscardHandler)
		e := &Evaluator{Target: on, Version: indices.Version, Log: quiet}
		if phases.Has(PhaseIndices) {
			o, err := indices.overrides(ctx)
			if err != nil {
				return err
			}
			e.Indices = &TargetIndices{Version: indices.Version, Rules: indices.Rules, Overrides: o, asked: true, Requester: indices.Requester, Log: quiet}
		}
		if err := probed.wait(); errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return err
		} else if err != nil {
			indices.Log.WarnContext(ctx, "template simulation is not permitted on the target: unsupported field types will be reported while indices are created", "reason", fault.Text(err))
			dry.blind = true
		}
		if e.Indices != nil {
			e.Indices.Cluster = dry
		}
		if phases.Has(PhaseMetadata) {
			e.Globals = &TargetGlobals{Cluster: dry, Version: globals.Version, Wanted: globals.Wanted, Log: quiet}
		}
		r := &Evaluation{}
		if err := e.preview(ctx, plan, r); err != nil {
			return err
		}
		logPreview(ctx, indices.Log, r, said)
		return nil
	}
}

// reported is the set of changes that this process has logged already, by hash. The nil set is empty.
type reported struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]bool
}

func (t *reported) note(object, rule, path, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[maphash.Comparable(t.seed, [4]string{object, rule, path, detail})] = true
}

func (t *reported) has(object, rule, path, detail string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[maphash.Comparable(t.seed, [4]string{object, rule, path, detail})]
}

// unreported returns those changes that this process has not logged yet.
func (t *reported) unreported(changes []metadata.Change) []metadata.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c metadata.Change) bool { return t.has(c.Index, c.Rule, c.Path, c.Detail) })
}

// Bounds of what is logged: objects of a list, and examples of a rule. rfsd evaluate has all.
const (
	maxPreviewed = 20
	maxExamples  = 5
)

// logPreview logs one line for each rule, and names what will not be there at all.
func logPreview(ctx context.Context, log *slog.Logger, r *Evaluation, said *reported) {
	var rules []string
	byRule := map[string]*ruleEffect{}
	counts := map[string]int{}
	objects := slices.Clone(r.Globals)
	for _, x := range r.Indices {
		objects = append(objects, x.Targets...)
	}
	var left, refused []EvaluatedObject
	for _, o := range objects {
		counts[o.Action]++
		switch o.Action {
		case WouldLeave:
			left = append(left, o)
			said.note(o.Name, "", "", o.Reason)
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
			said.note(o.Name, c.Rule, c.Path, c.Detail)
		}
	}
	log.InfoContext(ctx, "nothing is written yet", "will_be_created", counts[WouldCreate], "exist_and_stay", counts[WouldKeep], "will_be_refused", counts[WouldRefuse],
		"not_migrated", counts[WouldLeave], "details", "rfsd evaluate")
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

// ruleEffect is what one rule will do.
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

func logSome(ctx context.Context, log *slog.Logger, what string, all []EvaluatedObject) {
	for _, o := range all[:min(len(all), maxPreviewed)] {
		log.WarnContext(ctx, what, "object", o.Name, "reason", o.Reason)
	}
	if more := len(all) - maxPreviewed; more > 0 {
		log.WarnContext(ctx, what, "more", more, "details", "rfsd evaluate")
	}
}

// preview logs what will differ, once per process, before the first phase that writes to the target.
func (s *Session) preview(ctx context.Context, plan *Plan) error {
	if err := s.checkForeign(ctx, plan); err != nil {
		return err
	}
	if err := s.checkHeld(ctx, plan); err != nil {
		return err
	}
	if s.Preview == nil || s.previewed {
		return nil
	}
	if err := s.Preview(ctx, plan, s.Phases); err != nil {
		return err
	}
	s.previewed = true
	return nil
}
