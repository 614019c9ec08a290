package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// planReaders is the number of indices whose metadata are read concurrently.
	planReaders = 8
	// maxNamed is the maximum number of a snapshot's indices that an error names.
	maxNamed = 50
	// manifestReaders is the number of manifests of one index that are read concurrently.
	manifestReaders = 4
)

// Request describes what to migrate.
type Request struct {
	SnapshotName  string
	Session       string
	Indices       pattern.Selection
	IncludeSystem bool
	AllowPartial  bool
	MultiType     MultiType
	EmitType      EmitType
	// Rename renames indices; Rules are applied afterwards.
	Rename metadata.Overrides
	// Rules are the user's rules; nil: none.
	Rules *rules.Set
	// DataStreams selects the treatment of backing indices; "" is StreamsToIndices.
	DataStreams DataStreams
	// ParentJoin is the name of the join field that replaces _parent; "": relations are left out.
	ParentJoin string
	// DuplicateKeys selects the treatment of documents with duplicate keys; "" is SendDuplicates.
	DuplicateKeys DuplicateKeys
	// RebuildSources requests that disabled or filtered sources are rebuilt from stored fields and doc values.
	RebuildSources bool
	// RebuildText requests that text is rebuilt from its terms if RebuildSources has no other source for it.
	RebuildText bool
	// Trial makes the session a trial run; nil: it is not.
	Trial *Trial
	// Follow is the position in a chain of snapshots; nil: the session belongs to no chain.
	Follow *Follow
	// SplitOver is the repository size in bytes above which shards are split.
	SplitOver int64
	// Sizes requests that every shard's manifest is read, for an estimate of the remaining time. Manifests caches them for the leases.
	Sizes     bool
	Manifests *Manifests
}

// RepositoryIdentity returns the repository in the settings of a session: its URI, but "" for a path, which is valid on one machine only.
func RepositoryIdentity(uri string) string {
	if strings.HasPrefix(uri, "file://") {
		return ""
	}
	return uri
}

// Settings returns the settings that decide which documents of a repository are sent where; all processes of a session must agree on them.
func (r Request) Settings(repository string) map[string]string {
	settings := map[string]string{
		"repository": RepositoryIdentity(repository), "snapshot": r.SnapshotName, "index-allowlist": strings.Join(r.Indices.Include.Strings(), " "),
		"include-system": strconv.FormatBool(r.IncludeSystem), "multi-type": string(r.MultiType), "emit-doc-type": string(r.EmitType),
	}
	if len(r.Indices.Exclude) > 0 {
		settings["index-exclude"] = strings.Join(r.Indices.Exclude.Strings(), " ")
	}
	if len(r.Rename.Rename) > 0 {
		var names []string
		for _, n := range r.Rename.Rename {
			names = append(names, n.Match.Regexp().String()+"="+n.To)
		}
		settings["index-rename"] = strings.Join(names, " ")
	}
	if r.Rules != nil {
		settings["rules"] = r.Rules.Digest()
	}
	if r.DataStreams == StreamsCreate {
		settings["data-streams"] = string(r.DataStreams)
	}
	if r.ParentJoin != "" {
		settings["parent-join"] = r.ParentJoin
	}
	if r.RebuildSources {
		settings["rebuild-sources"] = "true"
	}
	if r.RebuildText {
		settings["rebuild-text-from-terms"] = "true"
	}
	if r.DuplicateKeys == KeepLastDuplicate {
		settings["duplicate-keys"] = string(r.DuplicateKeys)
	}
	if r.SplitOver > 0 {
		settings["split-shards-over"] = strconv.FormatInt(r.SplitOver, 10)
	}
	if r.Follow != nil {
		settings[FollowKey] = cmp.Or(r.Follow.Since, "first")
	}
	if r.Trial != nil {
		settings[TrialKey], settings["trial-prefix"] = strconv.FormatInt(r.Trial.Documents, 10), r.Trial.Prefix
	}
	return settings
}

// rebuild returns how disabled or filtered sources are rebuilt; "" if that is not requested.
func (r Request) rebuild() Rebuild {
	switch {
	case !r.RebuildSources:
		return ""
	case r.RebuildText:
		return RebuildTerms
	}
	return RebuildFields
}

// targetName returns the name of an index on the target.
func (r Request) targetName(index string) string {
	name := r.Rules.IndexName(r.Rename.NewName(index))
	if r.Trial != nil {
		name = r.Trial.Prefix + name
	}
	return name
}

// Plan is the selection of a snapshot for a Request.
type Plan struct {
	Snapshot string
	UUID     string
	// Identity distinguishes the snapshot from others of the same name; "": unknown.
	Identity string
	Session  string
	State    string
	Indices  []Index
	LeftOut  []string // system indices that were not requested
	Vanished []Index  // selected indices of the former snapshot that this one lacks
	Missing  []string // shards that the snapshot reports as missing: index/shard: reason
	Warnings []string
	// Unread are indices whose metadata is damaged. Each fails individually.
	Unread []UnreadIndex
	// Source is the snapshot.
	Source *snapshot.Snapshot
}

// Index is one index with the data needed to create and read it.
type Index struct {
	Name   string
	Source *snapshot.Index
	Entry  Entry
	// Unchanged means that the index is the same as in the former snapshot of a chain, so nothing is sent.
	Unchanged bool
	// Mark is the mark of the target indices that are created for it; zero: none. Scratch means that they are scratch indices of a trial run.
	Mark    objects.Mark
	Scratch bool

	warnings []string
}

// UnreadIndex is an index whose metadata cannot be read.
type UnreadIndex struct {
	Name   string
	Target string // name that the index would have on the target
	Reason string // includes blob and offset
}

// ErrIncomplete means that the snapshot is PARTIAL or FAILED and --allow-partial was not given.
var ErrIncomplete = errors.New("the snapshot is not complete")

// New reads the catalog, the snapshot and the metadata of its indices. Indices with damaged metadata are in Unread. Errors: fault.ErrConfig
// for names that do not exist, ErrIncomplete, and errors of reading the repository.
func New(ctx context.Context, repo snapshot.Repository, req Request) (*Plan, error) {
	catalog, err := snapshot.OpenCatalog(ctx, repo)
	if err != nil {
		return nil, err
	}
	ahead := planEarly(ctx, repo, catalog, req)
	defer ahead.Stop()
	snap, err := catalog.Snapshot(ctx, req.SnapshotName)
	if err != nil {
		return nil, err
	}
	p := &Plan{Snapshot: snap.Name, UUID: snap.UUID, Identity: identityOf(snap), Session: req.Session, State: string(snap.State), Warnings: catalog.Warnings, Source: snap}
	if err := p.checkState(snap, req.AllowPartial); err != nil {
		return nil, err
	}
	names, err := p.selectIndices(snap, req)
	if err != nil {
		return nil, err
	}
	if _, err := req.Rename.Names(names); err != nil {
		return nil, err
	}
	indices := ahead.of(snap, names)
	if indices == nil {
		indices = planIndices(ctx, repo, snap, names, req)
	}
	if indices.err != nil {
		return nil, indices.err
	}
	p.take(names, indices, req)
	gen, err := p.follow(ctx, repo, catalog, req)
	if err != nil {
		return nil, err
	}
	for _, x := range p.Indices {
		p.Warnings = append(p.Warnings, x.warnings...)
	}
	if req.Trial != nil { // its indices belong to no stream and have no alias
		if err := p.checkTrial(snap, req); err != nil {
			return nil, err
		}
	} else if err := p.planStreams(ctx, snap, req); err != nil {
		return nil, err
	}
	former, err := gen.streams(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.vanishedStreams(former, req); err != nil {
		return nil, err
	}
	if err := p.findUnchanged(ctx, repo, gen, former); err != nil {
		return nil, err
	}
	return p, p.CheckTargets()
}

// take adds the plans of the named indices to p. Hundreds of thousands of them may have damaged metadata, so p keeps little of each of
// these.
func (p *Plan) take(names []string, of *indexPlans, req Request) {
	unread := 0
	for _, x := range of.plans {
		if x == nil {
			unread++
		}
	}
	p.Indices, p.Unread = make([]Index, 0, len(names)-unread), make([]UnreadIndex, 0, unread)
	for i, name := range names {
		if x := of.plans[i]; x != nil {
			p.Indices, of.plans[i] = append(p.Indices, *x), nil
		} else {
			p.Unread = append(p.Unread, UnreadIndex{Name: name, Target: req.targetName(name), Reason: of.damage[i]})
		}
	}
}

// UnreadEntry returns the entry of an index whose metadata cannot be read.
func (p *Plan) UnreadEntry(x UnreadIndex) Entry {
	e := Entry{Unread: true, Naming: Naming{Index: x.Target}}
	e.Locator.SnapshotName, e.Locator.SnapshotUUID, e.Locator.IndexName = p.Snapshot, p.UUID, x.Name
	return e
}

func (p *Plan) checkState(snap *snapshot.Snapshot, allowPartial bool) error {
	for _, f := range snap.Failures {
		p.Missing = append(p.Missing, fmt.Sprintf("%s/%d: %s", f.Index, f.Shard, f.Reason))
	}
	if snap.State == snapshot.Success && len(p.Missing) == 0 {
		return nil
	}
	if allowPartial && (snap.State == snapshot.Partial || snap.State == snapshot.Failed || snap.State == snapshot.Success) {
		return nil
	}
	what := ""
	if len(p.Missing) > 0 {
		what = "; it lacks " + strings.Join(p.Missing[:min(len(p.Missing), 20)], ", ")
	}
	return fmt.Errorf("snapshot %s is %s: %w%s; --allow-partial migrates what it holds", snap.Name, snap.State, ErrIncomplete, what)
}

func (p *Plan) selectIndices(snap *snapshot.Snapshot, req Request) ([]string, error) {
	var all, names []string
	for _, x := range snap.Indices {
		all = append(all, x.Name)
		switch {
		case req.Follow.leavesOut(x.Name):
		case req.Selects(x.Name):
			names = append(names, x.Name)
		case req.Indices.Match(x.Name):
			p.LeftOut = append(p.LeftOut, x.Name)
		}
	}
	if req.Follow != nil && req.Follow.Since != "" {
		return names, nil // all may have vanished since the former snapshot
	}
	if missing := req.Indices.Missing(all); len(missing) > 0 {
		return nil, fmt.Errorf("snapshot %s has no index %s; it has: %s: %w", snap.Name,
			fault.Names(missing, maxNamed), fault.Names(all, maxNamed), fault.ErrConfig)
	}
	if len(names) == 0 && len(req.Indices.Include)+len(req.Indices.Exclude) > 0 {
		selection := ""
		if names := req.Indices.Include.Strings(); len(names) > 0 {
			selection = "--index-allowlist " + strings.Join(names, " ")
		}
		if names := req.Indices.Exclude.Strings(); len(names) > 0 {
			selection += " --index-exclude " + strings.Join(names, " ")
		}
		return nil, fmt.Errorf("%s selects none of the indices of snapshot %s: %s: %w", strings.TrimSpace(selection), snap.Name, fault.Names(all, maxNamed), fault.ErrConfig)
	}
	return names, nil
}

// Selects reports whether an index of the snapshot is migrated.
func (r Request) Selects(index string) bool {
	return !r.Follow.leavesOut(index) && r.Indices.Match(index) && (!isSystem(index) || r.IncludeSystem || r.Indices.Include.Exact(index))
}

func planIndex(ctx context.Context, repo snapshot.Repository, snap *snapshot.Snapshot, name string, req Request) (Index, error) {
	lists := listEarly(ctx, repo, snap, name, req)
	defer lists.Stop()
	x, err := snap.Index(ctx, name)
	if err != nil {
		return Index{}, fmt.Errorf("index %s: %w", name, err)
	}
	e := Entry{Locator: x.Locator, Shards: x.NumShards, Reduced: ReducedSource(x), Rebuild: rebuilds(x, req.rebuild()), Lacking: lacking(x), KeepLast: req.DuplicateKeys == KeepLastDuplicate}
	if e.Rebuild != "" {
		e.Reduced = SourcesOf(x, req.rebuild()).String()
	}
	if e.Rebuild.UsesFields() {
		_, e.Originals = FilteredSource(x)
		e.Lacking.Rebuilt = true
	}
	join, err := joinOf(x, req)
	if err != nil {
		return Index{}, fmt.Errorf("index %s: %w", name, err)
	}
	types, ids := x.Types(), newCollisions(join)
	if (len(types) > 1 || join != nil) && req.EmitType != EmitOn {
		if types, err = typesWithDocuments(ctx, repo, x, ids); err != nil {
			return Index{}, fmt.Errorf("index %s: which types have documents: %w", name, err)
		}
	}
	e.Trial = req.Trial
	e.Naming = newNaming(req.targetName(name), types, req.MultiType, req.EmitType, join)
	if req.Sizes {
		if m := lists.of(x); m != nil {
			e.Bytes, e.Locator.ShardSums = m.sizes, m.sums
		} else {
			e.Bytes, e.Locator.ShardSums = measureShards(ctx, repo, x.Locator, x.NumShards, req.Manifests)
		}
	}
	return Index{Name: name, Source: x, Entry: e, warnings: ids.warnings(name)}, nil
}

// typesWithDocuments returns the mapping types that have documents. It reads ids until documents of two types are found, and then all ids,
// because a split needs the names of all target indices in advance. It ignores a shard that cannot be read; the item of the shard fails.
func typesWithDocuments(ctx context.Context, repo snapshot.Repository, x *snapshot.Index, ids *collisions) ([]string, error) {
	seen := map[string]bool{}
	for shard := range x.NumShards {
		err := readTypes(ctx, repo, x.Locator, shard, seen, ids)
		if err != nil && (errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil) {
			return nil, err
		}
	}
	types := make([]string, 0, len(seen))
	for t := range seen {
		types = append(types, t)
	}
	slices.Sort(types)
	return types, nil
}

func readTypes(ctx context.Context, repo snapshot.Repository, loc snapshot.Locator, shard int, seen map[string]bool, ids *collisions) error {
	s, err := snapshot.OpenShard(ctx, repo, loc, shard)
	if err != nil {
		return err
	}
	commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{})
	if err != nil {
		return err
	}
	r := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal})
	defer r.Close()
	decoder := doc.NewDecoder(loc.IndexName, shard)
	for {
		rec, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		t := decoder.Type(rec)
		if t != nil && !seen[string(t)] {
			seen[string(t)] = true
		}
		ids.add(t, rec)
	}
}

// measureShards returns the repository size of each shard in bytes and the hash of its manifest. A shard that cannot be opened has size 0;
// its item fails with the reason.
func measureShards(ctx context.Context, repo snapshot.Repository, loc snapshot.Locator, shards int, kept *Manifests) (sizes []int64, sums []string) {
	sizes, sums = make([]int64, shards), make([]string, shards)
	var g errgroup.Group
	g.SetLimit(manifestReaders)
	for i := range sizes {
		g.Go(func() error {
			if s, err := snapshot.OpenShard(ctx, repo, loc, i); err == nil {
				sizes[i], sums[i] = s.TotalBytes, s.Sum
				kept.keep(loc, s)
			}
			return nil
		})
	}
	_ = g.Wait() // errors of shards do not fail the plan
	return sizes, sums
}

// Shards returns the number of shards of all indices in the plan.
func (p *Plan) Shards() (n int) {
	for _, x := range p.Indices {
		n += x.Entry.Shards
	}
	return n
}

// CheckTargets returns an error if two indices have the same target name. Backing indices of one data stream may share its name.
func (p *Plan) CheckTargets() error {
	from, streams := map[string]string{}, map[string]string{}
	for _, x := range p.Indices {
		for _, t := range x.Entry.Naming.Targets() {
			if x.Entry.Create && streams[t] == x.Entry.Stream.Stream {
				continue
			}
			if x.Entry.Create {
				streams[t] = x.Entry.Stream.Stream
			}
			if other, taken := from[t]; taken {
				return fmt.Errorf("indices %s and %s would both become %s; choose --multi-type union or migrate them in two sessions: %w",
					other, x.Name, t, fault.ErrConfig)
			}
			from[t] = x.Name
		}
	}
	return nil
}

// MetadataOf returns name, settings, mappings and aliases of an index of the snapshot.
func MetadataOf(x *snapshot.Index) metadata.Index {
	mappings := make([]metadata.Mapping, 0, len(x.Mappings))
	for _, m := range x.Mappings {
		mappings = append(mappings, metadata.Mapping{Type: m.Type, Body: m.Body})
	}
	return metadata.Index{Name: x.Name, Settings: x.Settings, Mappings: mappings, Aliases: x.Aliases}
}

// MarkKind returns the kind of object that carries the session's mark for x.
func (x Index) MarkKind() string {
	if x.Scratch {
		return objects.ScratchMark
	}
	return objects.IndexMark
}
