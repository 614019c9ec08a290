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

// Foretell gives what tells, before anything is written, how the target will differ from the snapshot: it
// previews what indices and globals would do. Errors: fault.ErrUnavailable, and what plans give.
func Foretell(on Asker, indices *TargetIndices, globals *TargetGlobals) func(context.Context, *Plan, Phases) error {
	said := &told{seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
	indices.told, globals.told = said, said
	return func(ctx context.Context, plan *Plan, phases Phases) error {
		dry := DryRunCluster{Target: on}
		if err := dry.simulate(ctx, "POST /_index_template/_simulate", nil); errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return err
		} else if err != nil {
			indices.Log.WarnContext(ctx, "template simulation is not permitted on the target: unsupported field types will be reported while indices are created", "reason", fault.Text(err))
			dry.blind = true
		}
		quiet := slog.New(slog.DiscardHandler)
		e := &Evaluator{Target: on, Version: indices.Version, Log: quiet}
		if phases.Has(PhaseIndices) {
			e.Indices = &TargetIndices{
				Cluster: dry, Version: indices.Version, Rules: indices.Rules, Overrides: indices.Overrides, Requester: indices.Requester, Log: quiet,
			}
		}
		if phases.Has(PhaseMetadata) {
			e.Globals = &TargetGlobals{Cluster: dry, Version: globals.Version, Wanted: globals.Wanted, Log: quiet}
		}
		r := &Evaluation{}
		if err := e.preview(ctx, plan, r); err != nil {
			return err
		}
		logForetold(ctx, indices.Log, r, said)
		return nil
	}
}

// told remembers by hash what this process has told, so that it tells it once. A nil told knows nothing.
type told struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]bool
}

func (t *told) note(object, rule, path, detail string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seen[maphash.Comparable(t.seed, [4]string{object, rule, path, detail})] = true
}

func (t *told) has(object, rule, path, detail string) bool {
	if t == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.seen[maphash.Comparable(t.seed, [4]string{object, rule, path, detail})]
}

// news are those changes that this process has not told yet.
func (t *told) news(changes []metadata.Change) []metadata.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c metadata.Change) bool { return t.has(c.Index, c.Rule, c.Path, c.Detail) })
}

// Foretold lists are cut after so many lines, and examples after so many words; rfsd evaluate has all.
const (
	mostForetold = 20
	examples     = 5
)

// logForetold tells one line for each rule, and names what will not be there at all.
func logForetold(ctx context.Context, log *slog.Logger, r *Evaluation, said *told) {
	var rules []string
	byRule := map[string]*foretold{}
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
				f, rules = &foretold{objects: map[string]bool{}}, append(rules, c.Rule)
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
		log.Log(ctx, level, "will differ from the snapshot", "rule", rule, "changes", f.changes, "objects", len(f.objects), "such as", strings.Join(f.some, "; "))
	}
	logSome(ctx, log, "will not be migrated", left)
	logSome(ctx, log, "will be refused by the target", refused)
}

// foretold is what one rule will do.
type foretold struct {
	changes int
	objects map[string]bool
	some    []string
	loses   bool
}

func (f *foretold) add(object string, c Differs) {
	f.changes++
	f.objects[object] = true
	f.loses = f.loses || c.Loses
	if len(f.some) < examples {
		f.some = append(f.some, object+" "+c.Path+": "+c.Detail)
	}
}

func logSome(ctx context.Context, log *slog.Logger, what string, all []EvaluatedObject) {
	for _, o := range all[:min(len(all), mostForetold)] {
		log.WarnContext(ctx, what, "object", o.Name, "reason", o.Reason)
	}
	if more := len(all) - mostForetold; more > 0 {
		log.WarnContext(ctx, what, "more", more, "details", "rfsd evaluate")
	}
}

// foretell tells what is coming, once per process, before the first phase that writes to the target.
func (s *Session) foretell(ctx context.Context, plan *Plan) error {
	if err := s.checkForeign(ctx, plan); err != nil {
		return err
	}
	if err := s.checkHeld(ctx, plan); err != nil {
		return err
	}
	if s.Foretell == nil || s.foretold {
		return nil
	}
	if err := s.Foretell(ctx, plan, s.Phases); err != nil {
		return err
	}
	s.foretold = true
	return nil
}
