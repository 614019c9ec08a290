package plan

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Since is the index of a former snapshot, whose documents are on the target. Only what changed since then is sent.
type Since struct {
	Locator snapshot.Locator `json:"locator"`
	Shards  int              `json:"shards"`
	// Another states that the index was recreated since, or has another number of shards: its documents are sent as a whole, and those
	// of the former index are deleted.
	Another bool `json:"another,omitempty"`
	// Mapped states that the index has the same mappings as then.
	Mapped bool `json:"mapped,omitempty"`
	// Aliased states that the index has the same aliases as then.
	Aliased bool `json:"aliased,omitempty"`
	// Set states that the settings that follow the source have the same values as then.
	Set bool `json:"set,omitempty"`
}

// followed are the settings whose later changes on the source reach the target, without "index.": an open index takes them, and they
// depend neither on nodes nor on other objects of the source. The load changes none of them, except for those that it restores.
var followed = map[string]bool{
	"refresh_interval": true, "number_of_replicas": true, "auto_expand_replicas": true, "priority": true, "hidden": true, "query.default_field": true,
	"max_result_window": true, "max_inner_result_window": true, "max_rescore_window": true, "max_docvalue_fields_search": true, "max_script_fields": true,
	"max_ngram_diff": true, "max_shingle_diff": true, "max_terms_count": true, "max_regex_length": true, "analyze.max_token_count": true, "highlight.max_analyzed_offset": true,
	"mapping.total_fields.limit": true, "mapping.depth.limit": true, "mapping.nested_fields.limit": true, "mapping.nested_objects.limit": true, "mapping.field_name_length.limit": true,
}

// Follows reports whether changes of a setting on the source reach the target ("index.refresh_interval").
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

// Follow is the place of a session in a chain of snapshots of a cluster that is followed.
type Follow struct {
	Since    string // name of the former snapshot; "": the session migrates the first one
	Identity string // distinguishes the former snapshot from another of the same name; "": unknown
	// Parts are later snapshots of some indices, the last one first. For these they take the place of the former snapshot.
	Parts []Part `json:",omitempty"`
	// Ended are indices that are not followed any more, sorted by name: applications write to them on the target.
	Ended []string
	// Group selects the indices of the session; none: all that are followed.
	Group pattern.List `json:",omitempty"`
}

// Part is a former snapshot of some indices.
type Part struct {
	Since, Identity string // as of Follow
	Group           pattern.List
}

// leavesOut reports whether an index is not followed any more, or belongs to another group.
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

// Generation compares the snapshot of a session with the one before it in a chain of snapshots.
type Generation struct {
	// Version orders the documents of all snapshots of a chain: it is higher than the version of each former snapshot.
	Version int64
	bases   []base // the last one first; none: the first of the chain
}

// base is a former snapshot.
type base struct {
	*snapshot.Snapshot
	group pattern.List // of the indices that it has; none: all
}

// baseOf returns the former snapshot that an index is compared with; nil: none.
func (g *Generation) baseOf(index string) *snapshot.Snapshot {
	for _, b := range g.bases {
		if len(b.group) == 0 || b.group.Match(index) {
			return b.Snapshot
		}
	}
	return nil
}

// Read reads the snapshots before snap in its chain. Errors: fault.ErrConfig when one is gone, or not older.
func (f Follow) Read(ctx context.Context, catalog *snapshot.Catalog, snap *snapshot.Snapshot) (*Generation, error) {
	g := &Generation{Version: snap.StartMillis}
	if snap.StartMillis <= 0 {
		return nil, fmt.Errorf("snapshot %s does not state its start, which orders the snapshots of a cluster that is followed: %w", snap.Name, fault.ErrUnsupported)
	}
	if f.Since == "" {
		return g, nil
	}
	for _, p := range slices.Concat(f.Parts, []Part{{Since: f.Since, Identity: f.Identity}}) {
		former, err := p.read(ctx, catalog, snap)
		if err != nil {
			return nil, err
		}
		g.bases = append(g.bases, base{former, p.Group})
	}
	return g, nil
}

// read reads a snapshot before snap. Errors: fault.ErrConfig when it is gone, or not older.
func (p Part) read(ctx context.Context, catalog *snapshot.Catalog, snap *snapshot.Snapshot) (*snapshot.Snapshot, error) {
	base, err := catalog.Snapshot(ctx, p.Since)
	switch {
	case errors.Is(err, fault.ErrConfig), err == nil && p.Identity != "" && identityOf(base) != p.Identity:
		return nil, fmt.Errorf("the former snapshot %s, whose documents are on the target, is gone from the repository, so that nothing shows what changed since: "+
			"start a new session (--session-name) with --existing-documents overwrite, and let the policy that deletes snapshots keep the last snapshot in the target: %w", p.Since, fault.ErrConfig)
	case err != nil:
		return nil, fmt.Errorf("former snapshot: %w", err)
	case base.StartMillis >= snap.StartMillis:
		return nil, fmt.Errorf("snapshot %s was not made after %s, whose documents are on the target: choose a later snapshot: %w", snap.Name, p.Since, fault.ErrConfig)
	}
	var of [2]string
	for i, s := range []*snapshot.Snapshot{base, snap} {
		if of[i], err = clusterOf(ctx, s); err != nil {
			return nil, err
		}
	}
	if of[0] != "" && of[1] != "" && of[0] != of[1] {
		return nil, fmt.Errorf("snapshot %s was made by the cluster %s, and %s, whose documents are on the target, by the cluster %s: choose a snapshot of that cluster, or start a new session (--session-name): %w",
			snap.Name, of[1], p.Since, of[0], fault.ErrConfig)
	}
	return base, nil
}

// clusterOf returns the UUID of the cluster that made a snapshot, as its global metadata has it; "" where it has none, or cannot be read.
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

// Since returns the former index of one of the snapshot, and nil if the former snapshot has none of its name.
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

// vanished returns the indices that the former snapshot has and the snapshot lacks, of those that are selected, with the snapshots that have them.
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

// vanishedIndex is an index that the source has no more.
type vanishedIndex struct {
	name string
	base *snapshot.Snapshot
}

// follow adds to the entries of a plan what their indices were in the former snapshot. It returns nil for a session without a chain.
func (p *Plan) follow(ctx context.Context, repo snapshot.Repository, catalog *snapshot.Catalog, req Request) (*Generation, error) {
	if req.Follow == nil {
		return nil, nil
	}
	gen, err := req.Follow.Read(ctx, catalog, p.Source)
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

// Differs compares the former index of an entry with the one in the repository.
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

// decides returns what of s decides which documents are read, without what other snapshots of the repository change.
func (s *Since) decides() string {
	if s == nil {
		return "none"
	}
	is := *s
	is.Locator.Generations, is.Locator.MetaSum = nil, ""
	return JSON(is)
}
