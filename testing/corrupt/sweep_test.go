// Package corrupt damages every blob of real repositories in every way that disks
// and networks do, and demands that no damage passes for a smaller or other snapshot.
package corrupt

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"io/fs"
	"iter"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/draw"
)

// memory is a repository in memory, one blob of which may be replaced or missing.
type memory struct {
	blobs   map[string][]byte
	name    string
	content []byte // nil: the blob is missing
}

func (m *memory) get(name string) ([]byte, error) {
	b, ok := m.blobs[name]
	if m.name == name {
		b, ok = m.content, m.content != nil
	}
	if !ok {
		return nil, fmt.Errorf("blob %s: %w", name, fs.ErrNotExist)
	}
	return b, nil
}

func (m *memory) Open(_ context.Context, name string, off, n int64) (io.ReadCloser, error) {
	b, err := m.get(name)
	if err != nil {
		return nil, err
	}
	if n < 0 {
		return io.NopCloser(bytes.NewReader(b[min(off, int64(len(b))):])), nil
	}
	if off+n > int64(len(b)) {
		return nil, fault.Corrupt(name, "", int64(len(b)), "ends early")
	}
	return io.NopCloser(bytes.NewReader(b[off : off+n])), nil
}

func (m *memory) Stat(_ context.Context, name string) (int64, error) {
	b, err := m.get(name)
	return int64(len(b)), err
}

func (m *memory) List(_ context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	return func(yield func(repo.Blob, error) bool) {
		for name := range m.blobs {
			if b, err := m.get(name); err == nil && strings.HasPrefix(name, prefix) && !yield(repo.Blob{Name: name, Size: int64(len(b))}, nil) {
				return
			}
		}
	}
}

// digest is what a repository says.
type digest struct{ documents, metadata uint64 }

// read goes the way of a migration, from the catalog to the documents, and returns a
// digest of documents and one of settings, mappings, aliases and templates, or the first error.
func read(ctx context.Context, r snapshot.Repository, name string) (digest, error) {
	plan, err := plan.New(ctx, r, plan.Request{SnapshotName: name, IncludeSystem: true, EmitType: plan.EmitOn})
	if err != nil {
		return digest{}, err
	}
	var sum digest
	if sum.metadata, err = readMetadata(ctx, r, name); err != nil {
		return digest{}, err
	}
	for _, x := range plan.Indices {
		for shard := range x.Entry.Shards {
			n, err := readShard(ctx, r, x, shard)
			if err != nil {
				return digest{}, fmt.Errorf("index %s shard %d: %w", x.Name, shard, err)
			}
			sum.documents += n
		}
	}
	return sum, nil
}

// readMetadata returns a digest of what is made of a snapshot before the documents.
func readMetadata(ctx context.Context, r snapshot.Repository, name string) (uint64, error) {
	catalog, err := snapshot.OpenCatalog(ctx, r)
	if err != nil {
		return 0, err
	}
	s, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return 0, err
	}
	h := fnv.New64a()
	global, err := s.Global(ctx)
	if err != nil {
		return 0, err
	}
	for _, key := range slices.Sorted(maps.Keys(global)) {
		fmt.Fprintf(h, "%s|%s|", key, global[key])
	}
	for _, ref := range s.Indices {
		x, err := s.Index(ctx, ref.Name)
		if err != nil {
			return 0, err
		}
		fmt.Fprintf(h, "%s|%s|%d|%v|%s|", x.Name, x.State, x.NumShards, x.Settings, x.Aliases) // fmt sorts the keys of maps
		for _, m := range x.Mappings {
			fmt.Fprintf(h, "%s|%s|", m.Type, m.Body)
		}
	}
	return h.Sum64(), nil
}

// rebuilder returns what rebuilds the sources of an index, nil when they are stored.
func rebuilder(x plan.Index) (*rebuild.Rebuilder, error) {
	if x.Entry.Reduced == "" || len(x.Source.Mappings) == 0 {
		return nil, nil
	}
	mapping, created := x.Source.Mappings[0].Body, x.Entry.Locator.Created
	switch x.Entry.Rebuild {
	case plan.RebuildSynthetic:
		return rebuild.New(mapping, created, doc.AppendFormat)
	case plan.RebuildColumnar:
		return rebuild.NewColumnar(mapping, created, doc.AppendFormat)
	case plan.RebuildColumnarStored:
		return rebuild.NewColumnarStored(doc.AppendFormat), nil
	case plan.RebuildDerived:
		return rebuild.NewDerived(mapping)
	}
	return nil, nil
}

func readShard(ctx context.Context, r snapshot.Repository, x plan.Index, number int) (uint64, error) {
	loc := x.Entry.Locator
	builder, err := rebuilder(x)
	if err != nil {
		return 0, err
	}
	s, err := snapshot.OpenShard(ctx, r, loc, number)
	if err != nil {
		return 0, err
	}
	commit, err := lucene.Open(ctx, s.Directory(), lucene.Options{Values: builder != nil})
	if err != nil {
		return 0, s.Blame(err)
	}
	reader := commit.Reader(lucene.ReadOptions{To: commit.MaxOrdinal, Values: builder != nil})
	defer reader.Close()
	decoder := doc.NewDecoder(loc.IndexName, number)
	var sum uint64
	for {
		rec, err := reader.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, s.Blame(err)
		}
		if builder != nil {
			source, err := builder.Append(ctx, nil, rec.Values)
			if unknown, ok := errors.AsType[*rebuild.Unknown](err); ok {
				source = []byte(`{"refused":"` + unknown.Field + `"}`)
			} else if err != nil {
				return 0, s.Blame(err)
			}
			rec.Source, rec.HasSource, rec.HasRecovery = source, true, false
		}
		d, failure := decoder.Decode(rec)
		h := fnv.New64a()
		if failure != nil {
			fmt.Fprintf(h, "%s|%d|%s|%s|%s", loc.IndexName, failure.Ordinal, failure.ID, failure.Reason, failure.Source)
		} else {
			fmt.Fprintf(h, "%s|%s|%s|%s|%s", loc.IndexName, d.Type, d.ID, d.Routing, d.Source)
		}
		sum += h.Sum64() // order does not matter
	}
	for _, v := range lucene.CombineChecks(reader.Checks(commit.MaxOrdinal)) {
		if v.Err != nil {
			return 0, v.Err
		}
	}
	return sum, nil
}

func load(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	blobs := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		rel, _ := filepath.Rel(dir, path)
		blobs[filepath.ToSlash(rel)] = b
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return blobs
}

// repositories are the folders below a directory of the project that hold a repository of at most limit bytes.
func repositories(t *testing.T, below string, limit int) []string {
	t.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	var dirs []string
	base := filepath.Join(root, filepath.FromSlash(below))
	entries, err := os.ReadDir(base)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		dir := filepath.Join(base, e.Name())
		size := 0
		for _, b := range load(t, dir) {
			size += len(b)
		}
		if e.IsDir() && size <= limit {
			dirs = append(dirs, dir)
		}
	}
	if len(dirs) == 0 {
		t.Fatal("no repository to damage")
	}
	return dirs
}

// damage is one way to spoil a blob; nil content means that the blob is gone.
type damage struct {
	what    string
	content []byte
}

// damages lists the ways for one blob: flips at every position (or n random ones),
// truncations, deletion, zeroes, an appended byte, and another blob's content.
func damages(b, other []byte, n int, rng *rand.Rand) iter.Seq[damage] {
	return func(yield func(damage) bool) {
		simple := []damage{{"delete", nil}, {"zero", make([]byte, len(b))}, {"append", append(slices.Clone(b), 0)}, {"swap", other}}
		for _, d := range simple {
			if !yield(d) {
				return
			}
		}
		cuts := min(len(b), max(1, n/10))
		for range cuts {
			if !yield(damage{"truncate", slices.Clone(b[:rng.IntN(len(b))])}) {
				return
			}
		}
		for i := range min(n, len(b)) {
			pos := i
			if n < len(b) {
				pos = rng.IntN(len(b))
			}
			c := slices.Clone(b)
			c[pos] ^= 1 << rng.IntN(8)
			if !yield(damage{fmt.Sprintf("flip %d", pos), c}) {
				return
			}
		}
	}
}

// TestNoDamagePassesForAnotherSnapshot sweeps small repositories, each change a draw of these.
// RFSD_CORRUPT=full flips every byte of every blob up to 64 KiB, and 2,000 others, of all repositories.
func TestNoDamagePassesForAnotherSnapshot(t *testing.T) {
	flips, limit := 3, 200<<10
	if os.Getenv("RFSD_CORRUPT") == "full" {
		flips, limit = 64<<10, 2<<20
	}
	dirs := repositories(t, "testing/fixtures", limit)
	if flips == 3 {
		n := len(dirs) / 3
		if testing.Short() {
			n /= 2
		}
		dirs = draw.Of(t, n, dirs)
	}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) { sweep(t, dir, flips) })
	}
}

// TestNoDamageOfColumnsPassesForAnotherSource does so with snapshots whose sources are rebuilt: from doc values, vectors, terms and what is
// kept beside them. RFSD_CORRUPT=full flips up to 300 bytes of each blob of all of them.
func TestNoDamageOfColumnsPassesForAnotherSource(t *testing.T) {
	full := os.Getenv("RFSD_CORRUPT") == "full"
	for _, dir := range repositories(t, "rfs/source/rebuild/testdata", 2<<20) {
		name := filepath.Base(dir)
		if full {
			t.Run(name, func(t *testing.T) { sweep(t, dir, 300) })
		} else if name == "in-place-9-normalized" {
			t.Run(name, func(t *testing.T) { sweep(t, dir, 20) })
		}
	}
}

// allocationLimit is for all shards of a repository of at most some hundred kB, read one
// after the other, buffers of every reader included.
const allocationLimit = 64 << 20

// allocated is how many bytes the process has allocated since its start.
func allocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// namesABlob says whether an error names a blob of the repository, or a folder of one.
func namesABlob(err error, blobs map[string][]byte) bool {
	for name := range blobs {
		if strings.Contains(err.Error(), name) || strings.Contains(err.Error(), filepath.ToSlash(filepath.Dir(name))+":") {
			return true
		}
	}
	return false
}

// unprovable reports whether the formats hold nothing that could show the damage to a metadata blob: 1.x writes plain JSON
// without a checksum, and no version writes into settings, mappings and templates of which snapshot they are.
func unprovable(name, other, what string) bool {
	base := path.Base(name)
	if strings.HasPrefix(base, "metadata-") || strings.HasPrefix(base, "snapshot-") {
		return true // 1.x
	}
	return what == "swap" && strings.HasPrefix(base, "meta-") && strings.HasPrefix(path.Base(other), "meta-")
}

// hasLater reports whether a blob is the metadata of a translog of a remote store that has a later one. Clusters remove the ones between
// snapshots, so nothing shows that it is missing.
func hasLater(name string, names []string) bool {
	dir := path.Dir(name)
	return strings.HasSuffix(dir, "/translog/metadata") && slices.ContainsFunc(names, func(other string) bool { return path.Dir(other) == dir && other < name })
}

func sweep(t *testing.T, dir string, flips int) {
	ctx := t.Context()
	m := &memory{blobs: load(t, dir)}
	catalog, err := snapshot.OpenCatalog(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	snap := catalog.Snapshots[len(catalog.Snapshots)-1].Name
	want, err := read(ctx, m, snap)
	if err != nil {
		t.Skipf("not whole to start with: %v", err)
	}
	names := make([]string, 0, len(m.blobs))
	for name := range m.blobs {
		names = append(names, name)
	}
	slices.Sort(names)
	rng := rand.New(rand.NewPCG(1, uint64(len(names))))
	refused, harmless, unproven := 0, 0, 0
	var most uint64 // bytes allocated by one reading
	var longest time.Duration
	for i, name := range names {
		b, n := m.blobs[name], flips
		if len(b) == 0 {
			continue
		}
		if len(b) > 64<<10 {
			n = min(n, 2000)
		}
		for d := range damages(b, m.blobs[names[(i+1)%len(names)]], n, rng) {
			m.name, m.content = name, d.content
			before, begin := allocated(), time.Now()
			got, err := read(ctx, m, snap)
			most, longest = max(most, allocated()-before), max(longest, time.Since(begin))
			switch {
			case err == nil && got == want:
				harmless++
			case err == nil && d.what == "delete" && hasLater(name, names):
				unproven++
			case err == nil && got.documents == want.documents && unprovable(name, names[(i+1)%len(names)], d.what):
				unproven++
			case err == nil:
				t.Errorf("%s of blob %s: no error, and other documents: %v, other metadata: %v", d.what, name, got.documents != want.documents, got.metadata != want.metadata)
			default:
				refused++
				if !namesABlob(err, m.blobs) {
					t.Errorf("%s of blob %s: the error names no blob: %v", d.what, name, err)
				}
			}
		}
	}
	m.name = ""
	// A length that was believed instead of bounded shows here.
	if most > allocationLimit {
		t.Errorf("one reading of a damaged repository allocated %d bytes", most)
	}
	t.Logf("%d blobs: %d damages refused by name, %d harmless (nothing needed was hit), %d of metadata that nothing can prove; at most %d MiB allocated and %v for one reading",
		len(names), refused, harmless, unproven, most>>20, longest.Round(time.Millisecond))
}
