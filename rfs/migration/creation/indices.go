package creation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Cluster is the part of the target that Indices needs.
type Cluster interface {
	objects.Cluster
	// CreateTypedIndex creates an index whose documents have a mapping type, where the target knows types.
	CreateTypedIndex(ctx context.Context, name, typ string, body []byte) error
	// FinalPipelines returns the final ingest pipeline of those indices that have one.
	FinalPipelines(ctx context.Context, indices []string) (map[string]string, error)
	// PipelineEffects describes what an ingest pipeline does with documents besides changing their fields.
	PipelineEffects(ctx context.Context, name string) ([]string, error)
	// UnfitAliases returns the names that are aliases to which documents cannot be sent, with the reasons.
	UnfitAliases(ctx context.Context, names []string) (map[string]string, error)
	// SetAliases adds aliases to an index.
	SetAliases(ctx context.Context, index string, aliases json.RawMessage) error
}

// Indices creates indices on a target from the metadata in the snapshot. It logs differences from the snapshot and warns of final
// pipelines, which would change documents.
type Indices struct {
	Cluster Cluster
	Version target.Version
	Rules   *rules.Set // the user's rules; nil: none
	// Overrides are the user's options for all indices; the plan has already applied their renaming.
	Overrides metadata.Overrides
	Requester rest.API // reads the target's requirements for replicas and its data streams; nil: not read
	// UUIDs determines whether the target is the source, which only AllowSource permits; nil: not checked.
	UUIDs       IndexUUIDs
	AllowSource bool
	// Globals are the other migrated objects, such as templates of data streams; nil: none.
	Globals *Globals

	// Reported are the changes that this process has logged before the first write; nil: none.
	Reported *Reported
	Log      *slog.Logger

	mu    sync.Mutex
	asked bool
}

// Absent returns the names that no index and no alias of the target has.
func (t *Indices) Absent(ctx context.Context, names []string) ([]string, error) {
	var absent []string
	for _, name := range names {
		there, err := t.Cluster.IndexExists(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", name, err)
		}
		if !there {
			absent = append(absent, name)
		}
	}
	return absent, nil
}

// Make creates the missing target indices of an index and does not change existing ones. It may be repeated, and run by several processes
// concurrently. Errors name the index and contain the target's reason: fault.ErrRejected, fault.ErrConfig, fault.ErrUnavailable.
func (t *Indices) Make(ctx context.Context, x plan.Index) (Made, error) {
	if x.Entry.Create {
		return t.makeStream(ctx, x)
	}
	all, err := t.Wanted(ctx, x)
	if err != nil {
		return Made{}, err
	}
	asked := Recorded{creator(t.Cluster, x), map[string][]byte{}}
	done, err := objects.Ensure(ctx, marked{asked, x.Mark, x.MarkKind()}, t.Version, all)
	logPrepared(ctx, t.Log, done, t.Reported)
	if err != nil {
		return Made{}, refusedIndex(x, err)
	}
	if x.Entry.Since != nil && !x.Entry.Since.Mapped {
		if err := t.extend(ctx, all, done.Existed); err != nil {
			return Made{}, err
		}
	}
	late := maps.Clone(done.Late)
	maps.DeleteFunc(late, func(name string, _ json.RawMessage) bool { return !slices.Contains(x.Entry.Ours, name) })
	made := Made{Created: done.Created, Late: late}
	for _, ch := range t.readBack(ctx, asked.Bodies, late) {
		made.Differs = append(made.Differs, ch.Index+" "+ch.Path+": "+ch.Detail)
	}
	if err := t.withhold(ctx, late); err != nil {
		return made, err
	}
	if made.Originals, err = t.sendsOriginals(ctx, x); err != nil {
		return made, err
	}
	return made, t.warnOfPipelines(ctx, x.Entry.Naming.Targets())
}

// extend adds the fields that the mapping of an index has got since the former snapshot to those target indices that exist. What mappings
// cannot change later, and the _meta in which the session's mark is, stays as it was created.
func (t *Indices) extend(ctx context.Context, all []metadata.Wanted, existed []string) error {
	for _, w := range all {
		if !slices.Contains(existed, w.Name) {
			continue
		}
		done, err := metadata.ConvertIndex(t.Version, w)
		if err != nil {
			return fmt.Errorf("index %s: %w", w.Name, err)
		}
		var body struct {
			Mappings map[string]json.RawMessage `json:"mappings"`
		}
		if err := json.Unmarshal(done.Body, &body); err != nil {
			return fmt.Errorf("index %s: %w: %w", w.Name, err, fault.ErrCorrupt)
		}
		maps.DeleteFunc(body.Mappings, func(key string, _ json.RawMessage) bool { return strings.HasPrefix(key, "_") })
		if len(body.Mappings) == 0 {
			continue
		}
		mapping, err := json.Marshal(body.Mappings)
		if err != nil {
			return fmt.Errorf("index %s: %w", w.Name, err)
		}
		if err := rest.Call(ctx, t.Requester, http.MethodPut, "/"+url.PathEscape(w.Name)+"/_mapping", nil, mapping, nil); err != nil {
			return fmt.Errorf("new fields of index %s (add them by hand as the target takes them, then run the same command again): %w", w.Name, err)
		}
		t.Log.InfoContext(ctx, "fields added to the mapping", "index", w.Name)
	}
	return nil
}

// Wanted returns the target indices of an index of the snapshot. Errors: fault.ErrUnavailable, and fault.ErrCorrupt of its metadata.
func (t *Indices) Wanted(ctx context.Context, x plan.Index) ([]metadata.Wanted, error) {
	o, err := t.overrides(ctx)
	if err != nil {
		return nil, err
	}
	return wanted(x, o, t.Rules)
}

// Try creates one of the wanted indices as Make does, but without the mark of a session. On an objects.DryRunCluster it returns the result
// and the error that Make would return.
func (t *Indices) Try(ctx context.Context, x plan.Index, w metadata.Wanted) (objects.Result, error) {
	done, err := objects.Ensure(ctx, creator(t.Cluster, x), t.Version, []metadata.Wanted{w})
	return done, refusedIndex(x, err)
}

// DryRun returns a copy of t for another cluster that does not log. It reads the target's requirements for replicas, at most once.
func (t *Indices) DryRun(ctx context.Context, c objects.DryRunCluster) (*Indices, error) {
	o, err := t.overrides(ctx)
	if err != nil {
		return nil, err
	}
	return &Indices{Cluster: c, Version: t.Version, Rules: t.Rules, Overrides: o, asked: true, Requester: t.Requester, Log: slog.New(slog.DiscardHandler)}, nil
}

// overrides returns the user's options with the target's requirements for replicas, which are read once.
func (t *Indices) overrides(ctx context.Context) (metadata.Overrides, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.asked || t.Requester == nil {
		return t.Overrides, nil
	}
	zones, err := objects.Zones(ctx, t.Requester)
	switch {
	case errors.Is(err, fault.ErrConfig): // the permission is optional
		t.Log.WarnContext(ctx, "the target does not let see whether it demands balanced replicas", "reason", err.Error())
	case err != nil:
		return t.Overrides, err
	}
	t.Overrides.Zones, t.asked = zones, true
	return t.Overrides, nil
}

// Aliases returns all aliases that the target indices of an index of the snapshot may get, by target index.
func (t *Indices) Aliases(ctx context.Context, x plan.Index) (map[string]json.RawMessage, error) {
	o, err := t.overrides(ctx)
	if err != nil || x.Entry.Create {
		return nil, err
	}
	o.Aliases = metadata.AliasesLate
	all, err := wanted(x, o, t.Rules)
	if err != nil {
		return nil, err
	}
	aliases := map[string]json.RawMessage{}
	for _, w := range all {
		done, err := metadata.ConvertIndex(t.Version, w)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", w.Name, err)
		}
		aliases[w.Name] = done.Late
	}
	return aliases, nil
}

// RemoveAliases removes aliases from an index and ignores missing ones.
func (t *Indices) RemoveAliases(ctx context.Context, index string, names []string) error {
	for _, name := range names {
		if err := t.removeAliases(ctx, index, name); err != nil && !fault.HasStatus(err, http.StatusNotFound) {
			return fmt.Errorf("remove alias %s of %s: %w", name, index, err)
		}
	}
	return nil
}

// removeAliases removes aliases from an index in one request, which the target rejects if one is missing.
func (t *Indices) removeAliases(ctx context.Context, index string, names ...string) error {
	actions := make([]any, len(names))
	for i, name := range names {
		actions[i] = map[string]any{"remove": map[string]string{"index": index, "alias": name}}
	}
	body, err := json.Marshal(map[string]any{"actions": actions})
	if err != nil {
		return err
	}
	return rest.Call(ctx, t.Requester, http.MethodPost, "/_aliases", nil, body, nil)
}

// SetAliases adds aliases to an index.
func (t *Indices) SetAliases(ctx context.Context, index string, aliases json.RawMessage) error {
	return t.Cluster.SetAliases(ctx, index, aliases)
}

// SetEach adds aliases to an index together or, if the target rejects that, one by one. It returns the reasons of those that are rejected
// individually, by alias.
func SetEach(ctx context.Context, on interface {
	SetAliases(ctx context.Context, index string, aliases json.RawMessage) error
}, index string, aliases json.RawMessage) (refused map[string]string, err error) {
	err = on.SetAliases(ctx, index, aliases)
	if !errors.Is(err, fault.ErrRejected) {
		return nil, err
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(aliases, &all) != nil {
		return nil, err
	}
	refused = map[string]string{}
	for _, alias := range slices.Sorted(maps.Keys(all)) {
		if len(all) > 1 {
			one, merr := json.Marshal(map[string]json.RawMessage{alias: all[alias]})
			if merr != nil {
				return nil, merr
			}
			err = on.SetAliases(ctx, index, one)
		}
		switch {
		case errors.Is(err, fault.ErrRejected):
			refused[alias] = fault.Text(err)
		case err != nil:
			return nil, err
		}
	}
	return refused, nil
}

// warnOfPipelines logs a warning for final pipelines, which may change documents and cannot be disabled by a request.
func (t *Indices) warnOfPipelines(ctx context.Context, names []string) error {
	final, err := t.Cluster.FinalPipelines(ctx, names)
	switch {
	case errors.Is(err, fault.ErrConfig): // only a warning, and the permission is optional
		t.Log.WarnContext(ctx, "the target does not let see whether indices have a final pipeline, which would change documents", "reason", err.Error())
		return nil
	case err != nil:
		return fmt.Errorf("final pipelines of the target's indices: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(final)) {
		effects, err := t.Cluster.PipelineEffects(ctx, final[name])
		if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if err != nil { // the permission is optional
			effects = []string{fault.Text(err)}
		}
		t.Log.WarnContext(ctx, "the index has a final pipeline, which may change or drop documents and cannot be switched off by requests",
			"index", name, "pipeline", final[name], "effects", strings.Join(effects, "; "))
	}
	return nil
}

// Check returns an error for a plan that the target cannot accept: mapping types that it does not support, missing streams or indices that
// may not be created, a target that is the source, or aliases that would change the plan's documents. It chooses the names of data streams.
// owns recognizes the indices of former rounds of a followed cluster; nil: there were none.
func (t *Indices) Check(ctx context.Context, plan *plan.Plan, owns Owns) error {
	for _, x := range plan.Indices {
		if x.Entry.Naming.Emit && !t.Version.MappingTypes() {
			return fmt.Errorf("--emit-doc-type ON: %s %s takes no mapping types: %w", t.Version.Distribution, t.Version.Number, fault.ErrConfig)
		}
		if x.Entry.Create && t.Version.Serverless() {
			return fmt.Errorf("--data-streams create: a collection of OpenSearch Serverless has no data streams; leave it out, for indices behind aliases: %w", fault.ErrConfig)
		}
	}
	if t.UUIDs != nil {
		warning, err := CheckSource(ctx, plan, t.Version.ClusterUUID, t.UUIDs, t.AllowSource)
		if err != nil {
			return err
		}
		if warning != "" {
			t.Log.WarnContext(ctx, warning)
		}
	}
	if err := t.checkAliases(ctx, plan); err != nil {
		return err
	}
	return t.placeStreams(ctx, plan, owns)
}

// checkAliases rejects target names that are aliases of several indices, or that have a routing or a filter.
func (t *Indices) checkAliases(ctx context.Context, plan *plan.Plan) error {
	var names []string
	for _, x := range plan.Indices {
		if !x.Entry.Create {
			names = append(names, x.Entry.Naming.Targets()...)
		}
	}
	if len(names) == 0 {
		return nil
	}
	found, err := t.Cluster.UnfitAliases(ctx, names)
	switch {
	case errors.Is(err, fault.ErrConfig): // checked again before the documents of each index
		t.Log.WarnContext(ctx, "the target does not let see whether names of indices are aliases", "reason", fault.Text(err))
		return nil
	case err != nil:
		return fmt.Errorf("aliases of the target: %w", err)
	case len(found) == 0:
		return nil
	}
	return fmt.Errorf("%s: %w", strings.Join(slices.Sorted(maps.Values(found)), "; "), fault.ErrConfig)
}

// wanted returns the target indices of an index of the snapshot.
func wanted(x plan.Index, o metadata.Overrides, own *rules.Set) ([]metadata.Wanted, error) {
	n, source := x.Entry.Naming, plan.MetadataOf(x.Source)
	if x.Entry.Stream != nil {
		var err error
		if source, err = x.Entry.Stream.With(source); err != nil {
			return nil, err
		}
	}
	targets := n.Targets()
	all := make([]metadata.Wanted, 0, len(targets))
	for _, name := range targets {
		w := metadata.Wanted{Name: name, Index: source, Type: n.TypeOf(name), Overrides: o, Rules: own, Join: n.Join}
		if w.Type == "" && len(n.Types) == 1 {
			w.Type = n.Types[0] // the other types have no documents
		}
		if w.Type != "" && !slices.ContainsFunc(source.Mappings, func(m metadata.Mapping) bool { return m.Type == w.Type }) {
			w.Type, w.Index.Mappings = "", nil
		}
		if len(targets) > 1 {
			w.Index.Aliases = nil // an alias of one index must not become an alias of several
		}
		all = append(all, w)
	}
	return all, nil
}

// marked is a Cluster that adds the mark of the session to the indices that it creates.
type marked struct {
	objects.Cluster
	mark objects.Mark
	kind string
}

// CreateIndex creates an index.
func (m marked) CreateIndex(ctx context.Context, name string, body []byte) error {
	body, err := m.mark.Put(m.kind, name, body)
	if err != nil {
		return err
	}
	return m.Cluster.CreateIndex(ctx, name, body)
}

// creator returns a Cluster that creates indices with their mapping type if action lines contain it.
func creator(c Cluster, x plan.Index) objects.Cluster {
	if n := x.Entry.Naming; n.Emit && len(n.Types) == 1 {
		return typed{c, n.Types[0]}
	}
	return c
}

type typed struct {
	Cluster
	typ string
}

func (t typed) CreateIndex(ctx context.Context, name string, body []byte) error {
	return t.CreateTypedIndex(ctx, name, t.typ, body)
}

// refusedIndex adds the remedy to a rejection.
func refusedIndex(x plan.Index, err error) error {
	if errors.Is(err, fault.ErrRejected) && x.Entry.Naming.Multi == plan.SplitTypes {
		return fmt.Errorf("%w (index %s is split by type; --multi-type union keeps one index)", err, x.Name)
	}
	return err
}

// logPrepared logs the created indices and, rule by rule, their differences from the source that were not logged before.
func logPrepared(ctx context.Context, log *slog.Logger, done objects.Result, said *Reported) {
	for _, name := range done.Created {
		log.InfoContext(ctx, "index created", "index", name)
	}
	for _, name := range done.Existed {
		log.InfoContext(ctx, "index exists on the target and is left as it is", "index", name)
	}
	logChanges(ctx, log, said.New(done.Changes))
}

// maxExamples is the maximum number of examples of a rule in one log line. rfsd plan lists all.
const maxExamples = 5

// logChanges logs differences from the snapshot, one line for each rule.
func logChanges(ctx context.Context, log *slog.Logger, changes []metadata.Change) {
	type key struct{ index, rule string }
	var order []key
	byRule := map[key][]metadata.Change{}
	for _, ch := range changes {
		k := key{ch.Index, ch.Rule}
		if byRule[k] == nil {
			order = append(order, k)
		}
		byRule[k] = append(byRule[k], ch)
		log.DebugContext(ctx, "index differs from the snapshot", "index", ch.Index, "rule", ch.Rule, "path", ch.Path, "detail", ch.Detail)
	}
	for _, k := range order {
		changes := byRule[k]
		var some []string
		for _, ch := range changes[:min(len(changes), maxExamples)] {
			some = append(some, ch.Path+": "+ch.Detail)
		}
		level := slog.LevelInfo
		if changes[0].Loses() {
			level = slog.LevelWarn
		}
		log.Log(ctx, level, "index differs from the snapshot", "index", k.index, "rule", k.rule, "changes", len(changes), "examples", strings.Join(some, "; "))
	}
}
