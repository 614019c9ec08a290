// Package snapshot finds the snapshots of a repository, their indices and the files
// of their shards, for every generation of repositories from Elasticsearch 1.x to 9.x
// and OpenSearch 1 to 3.
package snapshot

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/repo"
)

// Repository is what this package needs of a blob store; rfs/repo gives it.
type Repository interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	Stat(ctx context.Context, name string) (int64, error)
	List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error]
}

// State is the state of a snapshot as it is recorded.
type State string

// The states.
const (
	InProgress   State = "IN_PROGRESS"
	Success      State = "SUCCESS"
	Failed       State = "FAILED"
	Partial      State = "PARTIAL"
	Incompatible State = "INCOMPATIBLE"
	Unknown      State = "" // the catalog does not say; the snapshot's own blob does
)

var stateNumbers = []State{InProgress, Success, Failed, Partial, Incompatible}

// Ref is the catalog's entry of a snapshot.
type Ref struct {
	Name    string
	UUID    string // equal to Name for snapshots of Elasticsearch 1.x and 2.x
	State   State
	Version string // of the writer, as recorded; "8.11.0" stands for every later Elasticsearch

	indexMetadata map[string]string // index id → identifier (7.9 and later)
}

// Catalog is the list of snapshots of a repository (index-N, or index before 5.0).
type Catalog struct {
	Generation int64 // N of index-N; -1 before Elasticsearch 5.0
	Snapshots  []Ref // in the order of the catalog
	Warnings   []string

	repo        Repository
	blob        string
	indices     map[string]catalogIndex
	identifiers map[string]string // identifier → X of meta-<X>.dat
}

// catalogIndex is one index name of the catalog.
type catalogIndex struct {
	id          string
	snapshots   map[string]bool // UUIDs
	generations []string
	pathType    int
}

// OpenCatalog reads the newest catalog. Errors: fault.ErrCorrupt with the blob,
// fs.ErrNotExist when there is no repository here.
func OpenCatalog(ctx context.Context, r Repository) (*Catalog, error) {
	c := &Catalog{repo: r, Generation: -1, identifiers: map[string]string{}, indices: map[string]catalogIndex{}}
	if err := c.findGeneration(ctx); err != nil {
		return nil, err
	}
	c.blob = "index"
	if c.Generation >= 0 {
		c.blob = fmt.Sprintf("index-%d", c.Generation)
	}
	b, err := readJSON(ctx, r, c.blob, "")
	switch {
	case missing(err) && c.Generation < 0:
		return nil, fmt.Errorf("no snapshot repository here: neither index-N nor index exists: %w", fs.ErrNotExist)
	case err != nil:
		return nil, referenced(c.blob, "index.latest", err)
	}
	return c, c.parse(b)
}

// findGeneration takes the greatest N of the listing and warns when index.latest disagrees.
func (c *Catalog) findGeneration(ctx context.Context) error {
	latest := int64(-1)
	b, err := repo.ReadAll(ctx, c.repo, "index.latest", 64)
	switch {
	case err == nil && len(b) == 8:
		latest = int64(binary.BigEndian.Uint64(b))
	case err == nil:
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest has %d bytes instead of 8", len(b)))
	case !missing(err):
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest cannot be read: %v", err))
	}
	for blob, err := range c.repo.List(ctx, "index-") {
		if err != nil {
			if latest >= 0 { // a read-only store may not list; then only index.latest helps
				c.Warnings = append(c.Warnings, fmt.Sprintf("the repository cannot be listed: %v", err))
				c.Generation = latest
				return nil
			}
			return fmt.Errorf("find the catalog: %w", err)
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(blob.Name, "index-"), 10, 64)
		if err == nil && n > c.Generation {
			c.Generation = n
		}
	}
	if c.Generation < 0 {
		c.Generation = latest
	}
	if latest >= 0 && latest != c.Generation {
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest names generation %d, the newest is %d", latest, c.Generation))
	}
	return nil
}

// flexible reads what was written as a string in one version and as an object in another.
type nameOrObject struct {
	Name          string            `json:"name"`
	UUID          string            `json:"uuid"`
	State         *int              `json:"state"`
	Version       string            `json:"version"`
	IndexVersion  json.Number       `json:"index_version"`
	IndexMetadata map[string]string `json:"index_metadata_lookup"`
}

// UnmarshalJSON takes a plain string for both name and uuid.
func (n *nameOrObject) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &n.Name); err != nil {
			return err
		}
		n.UUID = n.Name
		return nil
	}
	type plain nameOrObject
	if err := json.Unmarshal(b, (*plain)(n)); err != nil {
		return err
	}
	n.UUID = cmp.Or(n.UUID, n.Name)
	return nil
}

func (c *Catalog) parse(b []byte) error {
	var doc struct {
		Snapshots []nameOrObject `json:"snapshots"`
		Indices   map[string]struct {
			ID               string            `json:"id"`
			Snapshots        []nameOrObject    `json:"snapshots"`
			ShardGenerations []json.RawMessage `json:"shard_generations"`
			PathType         int               `json:"shard_path_type"`
		} `json:"indices"`
		Identifiers map[string]string `json:"index_metadata_identifiers"`
	}
	if err := unmarshal(c.blob, b, &doc); err != nil {
		return err
	}
	for _, s := range doc.Snapshots {
		ref := Ref{Name: s.Name, UUID: s.UUID, Version: s.Version, indexMetadata: s.IndexMetadata}
		if s.State != nil && *s.State >= 0 && *s.State < len(stateNumbers) {
			ref.State = stateNumbers[*s.State]
		}
		if v := s.IndexVersion.String(); v != "" {
			ref.Version = strings.TrimSpace(s.Version + " (index version " + v + ")")
		}
		c.Snapshots = append(c.Snapshots, ref)
	}
	for name, x := range doc.Indices {
		entry := catalogIndex{id: cmp.Or(x.ID, name), snapshots: map[string]bool{}, pathType: x.PathType}
		for _, s := range x.Snapshots {
			entry.snapshots[s.UUID] = true
		}
		for _, g := range x.ShardGenerations {
			entry.generations = append(entry.generations, generation(g))
		}
		c.indices[name] = entry
	}
	if doc.Identifiers != nil {
		c.identifiers = doc.Identifiers
	}
	return nil
}

// generation reads a shard generation: text, a number in old repositories, or null.
// "_new" and "_deleted" name no blob.
func generation(b json.RawMessage) string {
	s := strings.Trim(string(b), `"`)
	if s == "null" || s == "_new" || s == "_deleted" {
		return ""
	}
	return s
}

// names lists the snapshots for messages.
func (c *Catalog) names() string {
	var names []string
	for _, s := range c.Snapshots {
		names = append(names, s.Name)
	}
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}

// Find gives the newest entry of a name: a name may be used again after a deletion.
// Errors: fault.ErrConfig listing what exists.
func (c *Catalog) Find(name string) (Ref, error) {
	for _, s := range slices.Backward(c.Snapshots) {
		if s.Name == name {
			return s, nil
		}
	}
	return Ref{}, fmt.Errorf("no snapshot %q in the repository; %s lists: %s: %w", name, c.blob, c.names(), fault.ErrConfig)
}
