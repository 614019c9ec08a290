package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Since is the index in a former snapshot, whose documents are on the target. Only changes since then are sent.
type Since struct {
	Locator snapshot.Locator `json:"locator"`
	Shards  int              `json:"shards"`
	// Another states that the index was recreated since, or has another number of shards: all of its documents are sent, and the documents of
	// the former index are deleted.
	Another bool `json:"another,omitempty"`
	// Mapped states that the mappings have not changed since.
	Mapped bool `json:"mapped,omitempty"`
	// Aliased states that the aliases have not changed since.
	Aliased bool `json:"aliased,omitempty"`
	// Set states that the settings that follow the source have not changed since.
	Set bool `json:"set,omitempty"`
}

// followed are the settings, without "index.", whose later changes on the source are applied to the target. An open index accepts them, and
// they depend neither on nodes nor on other objects of the source. The migration itself changes none of them permanently.
var followed = map[string]bool{
	"refresh_interval": true, "number_of_replicas": true, "auto_expand_replicas": true, "priority": true, "hidden": true, "query.default_field": true,
	"max_result_window": true, "max_inner_result_window": true, "max_rescore_window": true, "max_docvalue_fields_search": true, "max_script_fields": true,
	"max_ngram_diff": true, "max_shingle_diff": true, "max_terms_count": true, "max_regex_length": true, "analyze.max_token_count": true, "highlight.max_analyzed_offset": true,
	"mapping.total_fields.limit": true, "mapping.depth.limit": true, "mapping.nested_fields.limit": true, "mapping.nested_objects.limit": true, "mapping.field_name_length.limit": true,
}

// Follows reports whether changes of a setting, such as "index.refresh_interval", on the source are applied to the target.
func Follows(setting string) bool { return followed[strings.TrimPrefix(setting, "index.")] }

// sameSettings reports whether the settings that follow the source are the same.
func sameSettings(a, b map[string]string) bool {
	for setting := range followed {
		if a["index."+setting] != b["index."+setting] {
			return false
		}
	}
	return true
}

// FollowKey is the setting of a session that belongs to a chain of snapshots.
const FollowKey = "follow"

// Follow is the position of a session in the chain of snapshots of a followed cluster.
type Follow struct {
	Since    string // name of the former snapshot; "": the session migrates the first one
	Identity string // distinguishes the former snapshot from others of the same name; "": unknown
	// Parts are later snapshots of some indices, the latest first. They replace the former snapshot for these indices.
	Parts []Part `json:",omitempty"`
	// Whole states that the former snapshots are gone: the whole snapshot is sent to new target indices.
	Whole bool `json:",omitempty"`
	// Ended are indices whose following has ended, sorted by name, because applications write to them on the target.
	Ended []string
	// Moved are the indices of Ended that were cut over.
	Moved []string `json:",omitempty"`
	// Group selects the indices of the session; empty: all that are followed.
	Group pattern.List `json:",omitempty"`
}

// Part is a former snapshot of some indices.
type Part struct {
	Since, Identity string // as in Follow
	Group           pattern.List
}

// leavesOut reports whether the following of an index has ended, or it belongs to another group.
func (f *Follow) leavesOut(index string) bool {
	if f == nil {
		return false
	}
	if len(f.Group) > 0 && !f.Group.Match(index) {
		return true
	}
	_, ended := slices.BinarySearch(f.Ended, index)
	return ended
}

// Generation compares the snapshot of a session with the former ones in its chain.
type Generation struct {
	// Version is the position of the snapshot in its chain. It is higher than the version of each former snapshot.
	Version int64
	bases   []base // latest first; empty: the first snapshot of the chain
}

// base is a former snapshot.
type base struct {
	*snapshot.Snapshot
	group pattern.List // its indices; empty: all
}

// baseOf returns the former snapshot with which an index is compared; nil: none.
func (g *Generation) baseOf(index string) *snapshot.Snapshot {
	for _, b := range g.bases {
		if len(b.group) == 0 || b.group.Match(index) {
			return b.Snapshot
		}
	}
	return nil
}

// Read reads the snapshots before snap in its chain. It returns an ErrFormerGone if one is missing, and a fault.ErrConfig if one is not older.
func (f Follow) Read(ctx context.Context, catalog *snapshot.Catalog, snap *snapshot.Snapshot) (*Generation, error) {
	g := &Generation{Version: snap.StartMillis}
	if snap.StartMillis <= 0 {
		return nil, fmt.Errorf("snapshot %s does not state its start, which orders the snapshots of a cluster that is followed: %w", snap.Name, fault.ErrUnsupported)
	}
	for _, p := range f.former() {
		b, err := p.open(ctx, catalog)
		if err == nil {
			err = b.isBefore(ctx, snap)
		}
		if err != nil {
			return nil, err
		}
		g.bases = append(g.bases, b)
	}
	return g, nil
}

// ErrFormerGone means that the repository has lost a former snapshot, so that nothing shows what changed since.
var ErrFormerGone = fmt.Errorf("nothing shows what the source has changed and deleted since: %w", fault.ErrConfig)

// StartOver is the remedy for an ErrFormerGone.
const StartOver = "run rfsd follow with --start-over, which removes the indices that this session created from the target and sends the next snapshot whole; " +
	"and let the policy that deletes snapshots keep the snapshot of the last round"

// Check returns an ErrFormerGone if a former snapshot is gone from the repository. It reads nothing, so that it does not recognize another
// snapshot of the same name in a repository of Elasticsearch 1.x or 2.x, where snapshots have no UUIDs.
func (f Follow) Check(catalog *snapshot.Catalog) error {
	for _, p := range f.former() {
		ref, err := catalog.Find(p.Since)
		if err != nil {
			return p.gone()
		}
		if is := identityOf(&snapshot.Snapshot{Ref: ref}); is != "" && p.Identity != "" && is != p.Identity {
			return p.gone()
		}
	}
	return nil
}

// former returns the former snapshots, the latest first; none for a whole snapshot.
func (f Follow) former() []Part {
	if f.Since == "" || f.Whole {
		return nil
	}
	return slices.Concat(f.Parts, []Part{{Since: f.Since, Identity: f.Identity}})
}

func (p Part) gone() error {
	return fmt.Errorf("the former snapshot %s, whose documents are on the target, is gone from the repository: %w", p.Since, ErrFormerGone)
}

// open opens a former snapshot. It returns an ErrFormerGone if it is gone from the repository.
func (p Part) open(ctx context.Context, catalog *snapshot.Catalog) (base, error) {
	is, err := catalog.Snapshot(ctx, p.Since)
	switch {
	case errors.Is(err, fault.ErrConfig), err == nil && p.Identity != "" && identityOf(is) != p.Identity:
		return base{}, p.gone()
	case err != nil:
		return base{}, fmt.Errorf("former snapshot: %w", err)
	}
	return base{is, p.Group}, nil
}

// isBefore returns a fault.ErrConfig if a former snapshot is not older than snap, or another cluster made it.
func (b base) isBefore(ctx context.Context, snap *snapshot.Snapshot) error {
	if b.StartMillis >= snap.StartMillis {
		return fmt.Errorf("snapshot %s was not made after %s, whose documents are on the target: choose a later snapshot: %w", snap.Name, b.Name, fault.ErrConfig)
	}
	was, err := clusterOf(ctx, b.Snapshot)
	if err != nil {
		return err
	}
	is, err := clusterOf(ctx, snap)
	if err == nil && was != "" && is != "" && was != is {
		err = fmt.Errorf("snapshot %s was made by the cluster %s, and %s, whose documents are on the target, by the cluster %s: choose a snapshot of that cluster, or start a new session (--session-name): %w",
			snap.Name, is, b.Name, was, fault.ErrConfig)
	}
	return err
}

// clusterOf returns the UUID of the cluster that created a snapshot, from its global metadata; "" if it is missing or cannot be read.
func clusterOf(ctx context.Context, s *snapshot.Snapshot) (uuid string, err error) {
	global, err := s.Global(ctx)
	if errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
		return "", err
	}
	if json.Unmarshal(global["cluster_uuid"], &uuid) != nil || uuid == "_na_" {
		return "", nil
	}
	return uuid, nil
}

// Since returns an index of the former snapshot with the same name as x; nil if it has none.
func (g *Generation) Since(ctx context.Context, x *snapshot.Index) (*Since, error) {
	base := g.baseOf(x.Name)
	if base == nil || !base.Has(x.Name) {
		return nil, nil
	}
	was, err := base.Index(ctx, x.Name)
	if err != nil {
		return nil, fmt.Errorf("index %s of the former snapshot: %w", x.Name, err)
	}
	another := was.Settings["index.uuid"] != x.Settings["index.uuid"] || was.NumShards != x.NumShards
	return &Since{Locator: was.Locator, Shards: was.NumShards, Another: another, Mapped: reflect.DeepEqual(was.Mappings, x.Mappings),
		Aliased: bytes.Equal(was.Aliases, x.Aliases), Set: sameSettings(was.Settings, x.Settings)}, nil
}

// vanished returns the selected indices that a former snapshot has and snap lacks, with the snapshots that have them.
func (g *Generation) vanished(snap *snapshot.Snapshot, selected func(name string) bool) (all []vanishedIndex) {
	for _, b := range g.bases {
		for _, x := range b.Indices {
			if !snap.Has(x.Name) && selected(x.Name) && g.baseOf(x.Name) == b.Snapshot {
				all = append(all, vanishedIndex{x.Name, b.Snapshot})
			}
		}
	}
	return all
}

// vanishedIndex is an index that no longer exists on the source.
type vanishedIndex struct {
	name string
	base *snapshot.Snapshot
}

// follow adds to the entries of a plan their indices in the former snapshot. It returns nil for a session that belongs to no chain.
func (p *Plan) follow(ctx context.Context, repo snapshot.Repository, catalog *snapshot.Catalog, req Request) (*Generation, error) {
	if req.Follow == nil {
		return nil, nil
	}
	gen, err := req.Follow.Read(ctx, catalog, p.Source)
	if errors.Is(err, ErrFormerGone) {
		err = fmt.Errorf("%w: %s", err, StartOver)
	}
	if err != nil {
		return nil, err
	}
	req.Sizes = false
	for _, v := range gen.vanished(p.Source, req.Selects) {
		x, err := planIndex(ctx, repo, v.base, v.name, req)
		if err != nil {
			return nil, fmt.Errorf("former snapshot: %w", err)
		}
		p.Vanished = append(p.Vanished, x)
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(planReaders)
	for i := range p.Indices {
		x := &p.Indices[i]
		g.Go(func() (err error) {
			x.Entry.Version = gen.Version
			x.Entry.Since, err = gen.Since(gctx, x.Source)
			return err
		})
	}
	return gen, g.Wait()
}

// Differs compares the former index of an entry with the repository.
func (g *Generation) Differs(ctx context.Context, x *snapshot.Index, e Entry) (Difference, error) {
	want, err := g.Since(ctx, x)
	if err != nil {
		return Difference{}, err
	}
	return differsSince(e, g.Version, want), nil
}

func differsSince(e Entry, version int64, want *Since) Difference {
	switch {
	case e.Version != version:
		return Difference{"version of its documents", e.Version, version}
	case e.Since.decides() != want.decides():
		return Difference{"former index", e.Since.decides(), want.decides()}
	}
	return Difference{}
}

// decides returns the parts of s that decide which documents are read, without the parts that other snapshots of the repository change.
func (s *Since) decides() string {
	if s == nil {
		return "none"
	}
	is := *s
	is.Locator.Generations, is.Locator.MetaSum = nil, ""
	return JSON(is)
}

// Left returns the sorted names of the target indices among filled, by name, that p does not fill.
func (p *Plan) Left(filled map[string]string) []string {
	left := maps.Clone(filled)
	for _, x := range p.Indices {
		for _, name := range x.Entry.Naming.Targets() {
			delete(left, name)
		}
	}
	return slices.Sorted(maps.Keys(left))
}
