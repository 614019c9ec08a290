package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxShards bounds the number of shards of an index: 1024 is the default limit of every version, which operators may raise. Each shard
// costs at least one request.
const maxShards = 1 << 14

// Index is the metadata of one index of a snapshot.
type Index struct {
	Name      string
	ID        string // folder below indices/
	NumShards int
	State     string            // open or close
	Settings  map[string]string // flat, every key starts with "index."
	Mappings  []Mapping         // in a source-only snapshot, the original ones
	Aliases   json.RawMessage   // object by alias name
	Locator   Locator

	remote json.RawMessage // form of paths in the remote store
}

// Mapping is the mapping of one type; Body is the value below the type's name.
type Mapping struct {
	Type string
	Body json.RawMessage
}

// Locator locates the shards of an index without reading the catalog or any index metadata. It is stored with the work.
type Locator struct {
	SnapshotName string `json:"snapshot"`
	SnapshotUUID string `json:"snapshot_uuid"`
	IndexName    string `json:"index"`
	IndexID      string `json:"index_id"`
	MetaBlob     string `json:"meta_blob"`
	PathType     int    `json:"path_type,omitempty"`
	// Legacy: Elasticsearch 1.x, plain JSON by name.
	Legacy bool `json:"legacy,omitempty"`
	// Pinned is set for an index of a snapshot that pins a point in time of a remote store.
	Pinned *Pinned `json:"pinned,omitempty"`
	// Generations of the shards' own lists, which are used if a snapshot's list is missing.
	Generations []string `json:"generations,omitempty"`
	// MetaSum and ShardSums are content hashes (SHA-256, the first 16 bytes, base64url) of the index's metadata and of the shards'
	// manifests at the first read. Later readers reject a blob whose hash differs; "" and absent disable the check.
	MetaSum   string   `json:"meta_sum,omitempty"`
	ShardSums []string `json:"shard_sums,omitempty"`
	// Type is the only mapping type of the index, "" if it has several or they have no meaning.
	Type string `json:"type,omitempty"`
	// Created is the version that created the index (the setting index.version.created), 0 when it is unknown.
	Created int64 `json:"created,omitempty"`
}

// nestedWithoutTerms is the first version of Elasticsearch whose nested documents have no _primary_term. OpenSearch's
// versions are larger numbers. Source: SeqNoFieldMapper of Elasticsearch 6.0 and 6.1.
const nestedWithoutTerms = 6_01_00_99

// NestedTerms reports whether nested documents of the index carry _primary_term like root documents.
func (l Locator) NestedTerms() bool { return l.Created > 0 && l.Created < nestedWithoutTerms }

// Located returns the location of the lists of an index's shards and the number of shards, as far as the catalog alone states them; ok is
// false if it does not. Index returns a Locator that finds the same lists, unless the documents are in another snapshot.
func (s *Snapshot) Located(name string) (loc Locator, shards int, ok bool) {
	ref, ok := s.ref(name)
	generations := s.catalog.indices[name].generations
	if !ok || s.legacy || s.pinned > 0 || len(generations) == 0 || len(generations) > maxShards {
		return Locator{}, 0, false
	}
	blob, _ := s.metaBlob(ref)
	return s.locator(ref, blob), len(generations), true
}

// SameLists reports whether two locators find the same lists of shards.
func (l Locator) SameLists(o Locator) bool {
	return l.SnapshotName == o.SnapshotName && l.SnapshotUUID == o.SnapshotUUID && l.IndexID == o.IndexID && l.PathType == o.PathType && l.Legacy == o.Legacy &&
		l.Pinned == nil && o.Pinned == nil && slices.Equal(l.Generations, o.Generations)
}

func (s *Snapshot) locator(ref IndexRef, blob string) Locator {
	entry := s.catalog.indices[ref.Name]
	return Locator{
		SnapshotName: s.Name, SnapshotUUID: s.UUID, IndexName: ref.Name, IndexID: ref.ID, MetaBlob: blob,
		PathType: entry.pathType, Legacy: s.legacy, Generations: entry.generations,
	}
}

// Index reads the metadata of an index. Errors: fault.ErrConfig that lists the existing names if the snapshot has none of that name;
// fault.ErrCorrupt; fault.ErrUnsupported for an index whose data is in another repository (searchable-snapshot mounts).
func (s *Snapshot) Index(ctx context.Context, name string) (*Index, error) {
	ref, ok := s.ref(name)
	if !ok {
		return nil, fmt.Errorf("no index %q in snapshot %s; it has: %s: %w", name, s.Name, s.indexNames(), fault.ErrConfig)
	}
	blob, codec := s.metaBlob(ref)
	b, sum, done, err := readSummed(ctx, s.catalog.repo, blob, codec)
	defer done()
	if err != nil {
		return nil, fmt.Errorf("metadata of index %s: %w", name, referenced(blob, s.blob, err))
	}
	x := &Index{Name: name, ID: ref.ID}
	if err := x.parse(blob, b); err != nil {
		return nil, err
	}
	var pinned *Pinned
	if s.pinned > 0 {
		if pinned, err = s.pinnedAt(x, blob); err != nil {
			return nil, err
		}
	}
	if err := s.noFurtherShard(ctx, x, blob); err != nil {
		return nil, err
	}
	if x.Mounted() {
		if err := s.follow(x, blob); err != nil {
			return nil, err
		}
	} else {
		x.Locator = s.locator(ref, blob)
		x.Locator.Pinned = pinned
	}
	if types := x.Types(); len(types) == 1 {
		x.Locator.Type = types[0]
	}
	x.Locator.MetaSum = sum
	// A setting that is not a number leaves the version unknown: the index can still be read.
	x.Locator.Created, _ = strconv.ParseInt(x.Settings["index.version.created"], 10, 64)
	return x, nil
}

// Index reads only the metadata of the index; the planner has read catalog and snapshot. It returns fault.ErrCorrupt also if the blob
// has changed since then.
func (l Locator) Index(ctx context.Context, r Repository) (*Index, error) {
	codec := codecIndex
	if l.Legacy {
		codec = ""
	}
	b, sum, done, err := readSummed(ctx, r, l.MetaBlob, codec)
	defer done()
	if err != nil {
		gone := missing(err)
		if err = referenced(l.MetaBlob, "the plan", err); gone {
			err = l.origin(r).explain(ctx, err)
		}
		return nil, fmt.Errorf("metadata of index %s: %w", l.IndexName, err)
	}
	if err := known(l.MetaBlob, sum, l.MetaSum); err != nil {
		return nil, err
	}
	x := &Index{Name: l.IndexName, ID: l.IndexID, Locator: l}
	return x, x.parse(l.MetaBlob, b)
}

// Finds reports whether the locator leads to the shards of the index with metadata x (see Index): their folder has the name in the
// metadata, or the name in a mount of a searchable snapshot, and no part of a path is more than a name.
func (l Locator) Finds(x *Index) bool {
	for _, name := range append([]string{l.SnapshotName, l.SnapshotUUID, l.IndexID}, l.Generations...) {
		if strings.ContainsAny(name, `/\`) {
			return false
		}
	}
	if p := l.Pinned; p != nil && (p.IndexUUID != x.Settings["index.uuid"] || strings.ContainsAny(p.IndexUUID, `/\`)) {
		return false
	}
	if x.Mounted() {
		uuid, id := x.mountOf()
		return l.SnapshotUUID == uuid && l.IndexID == id
	}
	folder, _ := path.Split(l.MetaBlob)
	return folder == "indices/"+l.IndexID+"/"
}

// Mounted reports whether the index is a mount of a searchable snapshot.
func (x *Index) Mounted() bool {
	t := x.Settings["index.store.type"]
	return t == "snapshot" || t == "remote_snapshot"
}

// mountOf returns the UUID of the snapshot, and the id of the index in it, that hold the documents of a mount. The settings are from
// Elasticsearch 7.10 and later and OpenSearch 2.4 and later.
func (x *Index) mountOf() (snapshot, index string) {
	return x.firstOf("index.store.snapshot.snapshot_uuid", "index.searchable_snapshot.snapshot_id.uuid"),
		x.firstOf("index.store.snapshot.index_uuid", "index.searchable_snapshot.index.id")
}

// firstOf returns the value of the first of some settings that is set.
func (x *Index) firstOf(keys ...string) string {
	for _, k := range keys {
		if v := x.Settings[k]; v != "" {
			return v
		}
	}
	return ""
}

// noFurtherShard compares the number of shards with the folders if the metadata has no checksum (Elasticsearch 1.x): one changed digit must
// not drop a shard.
func (s *Snapshot) noFurtherShard(ctx context.Context, x *Index, blob string) error {
	if !s.legacy {
		return nil
	}
	further := fmt.Sprintf("indices/%s/%d/snapshot-%s", x.ID, x.NumShards, s.Name)
	rc, err := s.catalog.repo.Open(ctx, further, 0, 1)
	switch {
	case err == nil:
		rc.Close()
		return fault.Corrupt(blob, "", -1, "index %s is said to have %d shards, but %s exists", x.Name, x.NumShards, further)
	case missing(err):
		return nil
	}
	return err
}

// follow replaces a mount of a searchable snapshot by the index that holds its documents, if its snapshot is in the same repository.
// Otherwise it returns fault.ErrUnsupported with the location.
func (s *Snapshot) follow(x *Index, blob string) error {
	uuid, id := x.mountOf()
	for _, ref := range s.catalog.Snapshots {
		if ref.UUID != uuid || uuid == "" {
			continue
		}
		for _, entry := range s.catalog.indices {
			if entry.id == id && s.catalog.holds(entry, uuid) {
				x.Locator = Locator{
					SnapshotName: ref.Name, SnapshotUUID: uuid, IndexName: x.Name, IndexID: id,
					MetaBlob: blob, PathType: entry.pathType, Generations: entry.generations,
				}
				return nil
			}
		}
	}
	return fmt.Errorf("index %s is a mount of a searchable snapshot: its documents are in snapshot %q of repository %q, index %q; migrate that snapshot instead: %w",
		x.Name, x.firstOf("index.store.snapshot.snapshot_name", "index.searchable_snapshot.snapshot_id.name"),
		x.firstOf("index.store.snapshot.repository_name", "index.searchable_snapshot.repository"),
		x.firstOf("index.store.snapshot.index_name", "index.searchable_snapshot.index.id"), fault.ErrUnsupported)
}

// Has reports whether the snapshot holds an index.
func (s *Snapshot) Has(name string) bool {
	_, ok := s.ref(name)
	return ok
}

func (s *Snapshot) ref(name string) (IndexRef, bool) {
	i, ok := slices.BinarySearchFunc(s.Indices, name, func(r IndexRef, name string) int { return cmp.Compare(r.Name, name) })
	if !ok {
		return IndexRef{}, false
	}
	return s.Indices[i], true
}

func (s *Snapshot) indexNames() string {
	names := make([]string, 0, len(s.Indices))
	for _, x := range s.Indices {
		names = append(names, x.Name)
	}
	return strings.Join(names, ", ")
}

// metaBlob returns the name and codec of the index metadata, which snapshots share since 7.9.
func (s *Snapshot) metaBlob(ref IndexRef) (name, codec string) {
	if s.legacy {
		return "indices/" + ref.ID + "/snapshot-" + s.Name, ""
	}
	key := s.UUID
	if x, ok := s.catalog.identifiers[s.catalog.identifier(s.Ref, ref.ID)]; ok {
		key = x
	}
	return "indices/" + ref.ID + "/meta-" + key + ".dat", codecIndex
}

func (x *Index) parse(blob string, b []byte) error {
	var doc map[string]struct {
		State    string          `json:"state"`
		Settings json.RawMessage `json:"settings"`
		Mappings json.RawMessage `json:"mappings"`
		Aliases  json.RawMessage `json:"aliases"`
		Remote   json.RawMessage `json:"remote_store"`
	}
	if err := fewPaths(blob, b); err != nil {
		return err
	}
	if err := unmarshalList(blob, b, &doc); err != nil {
		return err
	}
	m, ok := doc[x.Name]
	if !ok {
		return fault.Corrupt(blob, "", -1, "it does not describe index %s", x.Name)
	}
	x.State, x.Aliases, x.Settings, x.remote = m.State, m.Aliases, map[string]string{}, m.Remote
	if n := countValues(m.Settings); n > maxSettings {
		return fault.Corrupt(blob, "", -1, "index %s has %d values in its settings, more than %d", x.Name, n, maxSettings)
	}
	var settings map[string]any
	if len(m.Settings) > 0 {
		if err := unmarshal(blob, m.Settings, &settings); err != nil {
			return err
		}
	}
	if flatten("", settings, x.Settings, maxPaths) > maxPaths {
		return fault.Corrupt(blob, "", -1, "the names of the settings of index %s have more than %d bytes", x.Name, maxPaths)
	}
	n, err := strconv.Atoi(x.Settings["index.number_of_shards"])
	if err != nil || n < 1 || n > maxShards {
		return fault.Corrupt(blob, "", -1, "index %s has %q shards", x.Name, x.Settings["index.number_of_shards"])
	}
	x.NumShards = n
	if x.Mappings, err = parseMappings(m.Mappings); err != nil {
		return inBlob(blob, fmt.Errorf("mappings of index %s: %w", x.Name, err))
	}
	if x.Settings[sourceOnly] == "true" {
		for i := range x.Mappings {
			x.Mappings[i].restore()
		}
	}
	return nil
}

// sourceOnly is the setting of an index that went through a repository of type source (Elasticsearch 6.5 and later), which keeps only
// stored fields. Its mapping indexes nothing, and holds the original in _meta. Source: SourceOnlySnapshotRepository.
const sourceOnly = "index.source_only"

// mostRestored bounds the number of times that an index may have gone through such a repository.
const mostRestored = 4

// restore replaces a mapping that indexes nothing by the original in its _meta, if it exists.
func (m *Mapping) restore() {
	for range mostRestored {
		var body struct {
			Enabled *bool                      `json:"enabled"`
			Meta    map[string]json.RawMessage `json:"_meta"`
		}
		if json.Unmarshal(m.Body, &body) != nil || body.Enabled == nil || *body.Enabled {
			return
		}
		original := bytes.TrimSpace(body.Meta[m.Type])
		if len(original) == 0 || original[0] != '{' {
			return
		}
		m.Body = original
	}
}

// flatten writes nested settings as dotted keys, with the prefix that some versions omit. It returns the total length of the keys in bytes,
// and stops when it exceeds most.
func flatten(prefix string, in map[string]any, out map[string]string, most int) (size int) {
	for k, v := range in {
		if size > most {
			break
		}
		key := prefix + k
		switch v := v.(type) {
		case map[string]any:
			size += flatten(key+".", v, out, most-size)
		case []any:
			for i, e := range v {
				if size += len(key); size > most {
					break
				}
				setFlat(fmt.Sprintf("%s.%d", key, i), e, out)
			}
		default:
			size += len(key)
			setFlat(key, v, out)
		}
	}
	return size
}

func setFlat(key string, v any, out map[string]string) {
	if !strings.HasPrefix(key, "index.") {
		key = "index." + key
	}
	switch v := v.(type) {
	case nil:
	case string:
		out[key] = v
	case float64:
		out[key] = strconv.FormatFloat(v, 'f', -1, 64)
	default:
		out[key] = fmt.Sprint(v)
	}
}

// parseMappings reads an array of objects by type or of compressed binary values, or a single object, depending on the version.
func parseMappings(b json.RawMessage) ([]Mapping, error) {
	b = bytes.TrimSpace(b)
	if len(b) == 0 || string(b) == "null" {
		return nil, nil
	}
	parts := []json.RawMessage{b}
	if b[0] == '[' {
		parts = nil
		if err := json.Unmarshal(b, &parts); err != nil {
			return nil, fault.Corrupt("", "", -1, "%w", err)
		}
	}
	var all []Mapping
	left := maxMetadata // for all parts together
	for _, part := range parts {
		if len(part) > 0 && part[0] == '"' {
			var text string
			if err := json.Unmarshal(part, &text); err != nil {
				return nil, fault.Corrupt("", "", -1, "%w", err)
			}
			raw, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				return nil, fault.Corrupt("", "", -1, "%w", err)
			}
			if part, err = payloadJSON(raw, left); err != nil {
				return nil, err
			}
			left -= len(part)
			if err := errors.Join(fewValues("", part), fewPaths("", part)); err != nil {
				return nil, err
			}
		}
		var byType map[string]json.RawMessage
		if err := json.Unmarshal(part, &byType); err != nil {
			return nil, fault.Corrupt("", "", -1, "%w", err)
		}
		for t, body := range byType {
			all = append(all, Mapping{Type: t, Body: body})
		}
	}
	slices.SortFunc(all, func(a, b Mapping) int { return strings.Compare(a.Type, b.Type) })
	return all, nil
}

// Types returns the mapping types that documents can have, sorted.
func (x *Index) Types() []string {
	var types []string
	for _, m := range x.Mappings {
		if m.Type != "_default_" && m.Type != "" {
			types = append(types, m.Type)
		}
	}
	return slices.Compact(types) // parseMappings sorts
}
