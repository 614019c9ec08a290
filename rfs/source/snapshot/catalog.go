// Package snapshot finds the snapshots of a repository, their indices and the files
// of their shards, for every generation of repositories from Elasticsearch 1.x to 9.x
// and OpenSearch 1 to 3.
package snapshot

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Repository is the part of a blob store that this package uses; rfs/source/repo implements it.
type Repository interface {
	Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error)
	Stat(ctx context.Context, name string) (int64, error)
	List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error]
}

// State is the recorded state of a snapshot.
type State string

// The states.
const (
	InProgress   State = "IN_PROGRESS"
	Success      State = "SUCCESS"
	Failed       State = "FAILED"
	Partial      State = "PARTIAL"
	Incompatible State = "INCOMPATIBLE"
	Unknown      State = "" // the catalog does not have it; the snapshot's own blob does
)

var stateNumbers = []State{InProgress, Success, Failed, Partial, Incompatible}

// Ref is the catalog's entry of a snapshot.
type Ref struct {
	Name    string
	UUID    string // equal to Name for snapshots of Elasticsearch 1.x and 2.x
	State   State
	Version string // of the writer, as recorded; "8.11.0" for every later Elasticsearch

	lookup []link // index id → identifier (7.9 and later), by id
}

// link is a pair of strings by their indices in Catalog.texts.
type link struct{ from, to int32 }

// Catalog is the list of snapshots of a repository (index-N, or index before 5.0).
type Catalog struct {
	Generation int64 // N of index-N; -1 before Elasticsearch 5.0
	Snapshots  []Ref // in the order of the catalog
	Warnings   []string

	repo        Repository
	blob        string
	indices     map[string]catalogIndex
	identifiers map[string]string // identifier → X of meta-<X>.dat
	texts       texts             // strings that the lookups of many snapshots share
	places      map[string]int32  // UUID → index in Snapshots
	newest      map[string]int32  // name → index of its newest entry
}

// catalogIndex is one index name of the catalog.
type catalogIndex struct {
	id          string
	snapshots   []int32 // indices in Catalog.Snapshots, ascending
	generations []string
	pathType    int
}

// OpenCatalog reads the newest catalog. Errors: fault.ErrCorrupt with the blob, fs.ErrNotExist if the location holds no repository.
func OpenCatalog(ctx context.Context, r Repository) (*Catalog, error) {
	// The source deletes a catalog after it has written the next one, possibly between the listing and the read.
	last := int64(-1)
	for reads := 1; ; reads++ {
		c, err := openCatalog(ctx, r)
		if !errors.Is(err, errCatalogGone) {
			return c, err
		}
		if c.Generation == last || reads == maxCatalogReads {
			return nil, fault.Corrupt(c.blob, "", -1, "the blob is missing, but index.latest refers to it")
		}
		last = c.Generation
	}
}

const maxCatalogReads = 10

// address returns the address of the repository, for errors.
func address(r Repository) string {
	if at, ok := r.(interface{ URI() string }); ok {
		return at.URI()
	}
	return "this place"
}

// errCatalogGone means that the catalog that was found has been deleted since.
var errCatalogGone = errors.New("the catalog is gone")

// openCatalog finds and reads the catalog once. With errCatalogGone it returns the Catalog that was found.
func openCatalog(ctx context.Context, r Repository) (*Catalog, error) {
	c := &Catalog{repo: r, Generation: -1, identifiers: map[string]string{}, indices: map[string]catalogIndex{}}
	if err := c.findGeneration(ctx); err != nil {
		return nil, err
	}
	c.blob = "index"
	if c.Generation >= 0 {
		c.blob = fmt.Sprintf("index-%d", c.Generation)
	}
	b, _, done, err := readBlob(ctx, r, c.blob, "", maxCatalog)
	defer done()
	switch {
	case missing(err) && c.Generation < 0:
		return nil, noRepository(fmt.Sprintf("no snapshot repository in %s: neither index-N nor index exists; %s", address(r), whereInstead(ctx, r)))
	case missing(err):
		return c, errCatalogGone
	case err != nil:
		return nil, err
	}
	return c, c.parse(ctx, b)
}

// findGeneration sets the greatest N of the listing and warns if index.latest disagrees. It requests both at the same time.
func (c *Catalog) findGeneration(ctx context.Context) error {
	listed, failed := int64(-1), error(nil)
	var list sync.WaitGroup
	list.Go(func() { listed, failed = newestCatalog(ctx, c.repo) })
	b, err := repo.ReadAll(ctx, c.repo, "index.latest", 64)
	list.Wait()
	latest := int64(-1)
	switch {
	case err == nil && len(b) == 8:
		latest = int64(binary.BigEndian.Uint64(b))
	case err == nil:
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest has %d bytes instead of 8", len(b)))
	case !missing(err):
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest cannot be read: %v", err))
	}
	if failed != nil {
		if latest >= 0 { // a read-only store may not list; then only index.latest helps
			c.Warnings = append(c.Warnings, fmt.Sprintf("the repository cannot be listed: %v", failed))
			c.Generation = latest
			return nil
		}
		switch {
		case !errors.Is(failed, fault.ErrUnsupported): // a store that has no listings explains nothing
		case missing(err):
			return noRepository(fmt.Sprintf("no snapshot repository in %s: index.latest is missing; give the folder that holds it", address(c.repo)))
		case err != nil:
			failed = err
		}
		return fmt.Errorf("find the catalog: %w", failed)
	}
	c.Generation = listed
	if c.Generation < 0 {
		c.Generation = latest
	}
	if latest >= 0 && latest != c.Generation {
		c.Warnings = append(c.Warnings, fmt.Sprintf("index.latest names generation %d, the newest is %d", latest, c.Generation))
	}
	return nil
}

// newestCatalog returns the greatest N of the blobs index-N, or -1.
func newestCatalog(ctx context.Context, r Repository) (int64, error) {
	newest := int64(-1)
	for blob, err := range r.List(ctx, "index-") {
		if err != nil {
			return -1, err
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(blob.Name, "index-"), 10, 64)
		if err == nil {
			newest = max(newest, n)
		}
	}
	return newest, nil
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

// mostNamed limits the snapshots that a message names.
const mostNamed = 50

// names lists the snapshots for messages.
func (c *Catalog) names() string {
	if len(c.newest) == 0 {
		return "none"
	}
	return fault.Names(slices.Sorted(maps.Keys(c.newest)), mostNamed)
}

// NotFound is the error for a snapshot that the repository does not hold; it is a fault.ErrConfig.
type NotFound struct{ text string }

// Error names the snapshot, and snapshots that the repository holds.
func (e *NotFound) Error() string { return e.text }

// Unwrap returns the category.
func (e *NotFound) Unwrap() error { return fault.ErrConfig }

// Find returns the newest entry of a name: a name may be used again after a deletion.
// It returns a *NotFound for an unknown name.
func (c *Catalog) Find(name string) (Ref, error) {
	if place, ok := c.newest[name]; ok {
		return c.Snapshots[place], nil
	}
	return Ref{}, &NotFound{fmt.Sprintf("no snapshot %q in the repository, which holds %s (%s)", name, c.names(), c.blob)}
}
