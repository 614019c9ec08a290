// Package check checks that the snapshots of a repository are complete and undamaged. It follows every reference from the catalog to the
// Lucene files, and writes nothing.
package check

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Kind is the kind of a finding.
type Kind string

// Kinds of findings, from harmless to grave.
const (
	Notice       Kind = "notice"       // something to know; nothing is lost
	Unreferenced Kind = "unreferenced" // no snapshot needs the blob
	Incomplete   Kind = "incomplete"   // the snapshot itself records that it lacks a shard
	Unsupported  Kind = "unsupported"  // intact, but rfsd cannot read it
	Damage       Kind = "damage"       // missing, of another length, or with other bytes
)

// Finding is one thing that is not as it should be.
type Finding struct {
	Kind     Kind   `json:"kind"`
	Blob     string `json:"blob,omitempty"`
	Snapshot string `json:"snapshot,omitempty"`
	Index    string `json:"index,omitempty"`
	Shard    *int   `json:"shard,omitempty"`
	Text     string `json:"text"`
}

// Snapshot is a checked snapshot.
type Snapshot struct {
	Name    string  `json:"name"`
	State   string  `json:"state"`
	Indices []Index `json:"indices"`
}

// Index is a checked index.
type Index struct {
	Index     string `json:"index"`
	Shards    int    `json:"shards"`
	Documents int64  `json:"lucene_documents"` // live, nested children included
	Deleted   int64  `json:"deleted"`
	Bytes     int64  `json:"bytes"`
}

// Report is the result of a check.
type Report struct {
	Repository string     `json:"repository"`
	Generation int64      `json:"generation"`
	Snapshots  []Snapshot `json:"snapshots"`
	Blobs      int        `json:"blobs"`
	Referenced int        `json:"referenced"` // of these blobs
	Missing    int        `json:"missing"`    // further blobs that are referenced, but absent
	Files      int        `json:"files"`      // Lucene files that the snapshots refer to
	FilesRead  int        `json:"files_read"` // files whose every byte was read
	BytesRead  int64      `json:"bytes_read"`
	Unverified int        `json:"unverified"` // read, but old enough to have no checksum
	Findings   []Finding  `json:"findings"`
}

// checker walks from the catalog to every file: snapshots in order, their indices and
// shards concurrently. It keeps the names of all blobs in memory.
type checker struct {
	repo    repo.Repository
	catalog *snapshot.Catalog
	subset  Subset
	limit   int
	slots   *semaphore.Weighted // shards that are read concurrently

	present map[string]int64 // blobs of the repository

	mu         sync.Mutex
	out        Report
	referenced map[string]bool
	read       map[string]bool // files whose data was read or left out already
	unknown    map[string]bool // folders of blobs that cannot be judged, as what refers to them is lost, and beginnings of names; "" for all
}

// Run checks one snapshot, or all when name is "". It reads a limited number of shards at the same time, and the data of a subset of
// the files. Its error is one of the repository that shows nothing about the snapshots: it does not answer, or ctx is done.
func Run(ctx context.Context, r repo.Repository, c *snapshot.Catalog, s Subset, limit int, name string) (Report, error) {
	k := &checker{repo: r, catalog: c, subset: s, limit: limit, slots: semaphore.NewWeighted(int64(limit)), present: map[string]int64{},
		referenced: map[string]bool{}, read: map[string]bool{}, unknown: map[string]bool{},
		out: Report{Repository: r.URI(), Generation: c.Generation, Snapshots: []Snapshot{}, Findings: []Finding{}}}
	err := k.run(ctx, name)
	return k.out, err
}

func (k *checker) run(ctx context.Context, name string) error {
	for blob, err := range k.repo.List(ctx, "") {
		if err != nil {
			return fmt.Errorf("list the repository: %w", err)
		}
		k.present[blob.Name] = blob.Size
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	for _, w := range k.catalog.Warnings {
		k.add(Finding{Kind: Notice, Text: w})
	}
	k.refer(k.catalog.Blob())
	seen := map[string]bool{}
	for _, ref := range k.catalog.Snapshots {
		if name != "" && ref.Name != name || seen[ref.UUID] {
			continue
		}
		seen[ref.UUID] = true
		if err := k.snapshot(ctx, ref); err != nil {
			return err
		}
	}
	if name == "" {
		k.orphans()
	}
	k.out.Blobs = len(k.present)
	for blob := range k.referenced {
		if _, there := k.present[blob]; there {
			k.out.Referenced++
		} else {
			k.out.Missing++
		}
	}
	k.out.Findings = inOrder(k.out.Findings)
	return nil
}

// Gravest returns the kind of the gravest finding; "" without findings.
func (r Report) Gravest() Kind {
	if len(r.Findings) == 0 {
		return ""
	}
	return r.Findings[0].Kind
}

func (k *checker) add(f Finding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.out.Findings = append(k.out.Findings, f)
}

func (k *checker) refer(blob string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.referenced[blob] = true
}

// lost notes that the blobs of a folder, or the parts of a blob, cannot be called unreferenced.
func (k *checker) lost(part string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.unknown[part] = true
}

// classify adds a finding for an error. It returns other errors, which show nothing about the snapshot.
func (k *checker) classify(at Finding, err error) error {
	var d *fault.Damage
	switch {
	case err == nil:
		return nil
	case errors.As(err, &d):
		at.Kind, at.Blob = Damage, d.Blob
	case errors.Is(err, fault.ErrCorrupt), errors.Is(err, fs.ErrNotExist), errors.Is(err, snapshot.ErrShardMissing):
		at.Kind = Damage
	case errors.Is(err, fault.ErrUnsupported):
		at.Kind = Unsupported
	default:
		return err
	}
	at.Text = fault.Text(err)
	k.add(at)
	return nil
}

func (k *checker) snapshot(ctx context.Context, ref snapshot.Ref) error {
	at := Finding{Snapshot: ref.Name}
	out := Snapshot{Name: ref.Name, State: string(ref.State), Indices: []Index{}}
	s, err := k.catalog.Snapshot(ctx, ref.Name)
	if err != nil {
		k.lost("") // its indices are unknown
		k.out.Snapshots = append(k.out.Snapshots, out)
		return k.classify(at, err)
	}
	out.State = string(s.State)
	k.refer(s.Blob())
	k.refer(s.GlobalBlob())
	if _, err := s.Global(ctx); err != nil {
		if err := k.classify(at, err); err != nil {
			return err
		}
	}
	out.Indices = make([]Index, len(s.Indices))
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(k.limit)
	for i, x := range s.Indices {
		g.Go(func() (err error) {
			out.Indices[i], err = k.index(gctx, s, x)
			return err
		})
	}
	k.out.Snapshots = append(k.out.Snapshots, out)
	return g.Wait()
}

func (k *checker) index(ctx context.Context, s *snapshot.Snapshot, ref snapshot.IndexRef) (Index, error) {
	out := Index{Index: ref.Name}
	x, err := s.Index(ctx, ref.Name)
	if err != nil {
		k.lost("indices/" + ref.ID + "/")
		return out, k.classify(Finding{Snapshot: s.Name, Index: ref.Name}, err)
	}
	k.refer(x.Locator.MetaBlob)
	out.Shards = x.NumShards
	shards := make([]Index, x.NumShards)
	g, gctx := errgroup.WithContext(ctx)
	for n := range shards {
		if err := k.slots.Acquire(gctx, 1); err != nil {
			break // a shard or the caller has given up; Wait or ctx returns the reason
		}
		g.Go(func() error {
			defer k.slots.Release(1)
			return k.shard(gctx, s, x.Locator, n, &shards[n])
		})
	}
	err = errors.Join(g.Wait(), ctx.Err())
	for _, one := range shards {
		out.Documents += one.Documents
		out.Deleted += one.Deleted
		out.Bytes += one.Bytes
	}
	return out, err
}

func (k *checker) shard(ctx context.Context, s *snapshot.Snapshot, loc snapshot.Locator, n int, out *Index) error {
	at := Finding{Snapshot: s.Name, Index: loc.IndexName, Shard: &n}
	if list := loc.ShardList(n); list != "" && k.first(list) {
		k.refer(list)
		if err := k.classify(at, snapshot.CheckShardList(ctx, k.repo, list)); err != nil {
			return err
		}
	}
	shard, err := snapshot.OpenShard(ctx, k.repo, loc, n)
	if err != nil {
		if errors.Is(err, snapshot.ErrShardMissing) {
			at.Blob = shard.Manifest
		}
		return k.noShard(s, loc, at, err)
	}
	k.refer(shard.Manifest)
	if own := shard.Path + "/snap-" + loc.SnapshotUUID + ".dat"; !loc.Legacy && !shard.Shallow && shard.Manifest != own {
		at := at
		at.Kind, at.Blob, at.Text = Damage, own, "the blob is missing; "+shard.Manifest+" lists the same files, so that the shard can be read"
		k.add(at)
	}
	out.Bytes = shard.TotalBytes
	if err := k.files(ctx, shard, at); err != nil {
		return err
	}
	commit, err := lucene.Open(ctx, shard.Directory(), lucene.Options{})
	if err != nil {
		return k.classify(at, shard.Blame(err))
	}
	out.Documents, out.Deleted = commit.LiveDocs, commit.MaxOrdinal-commit.LiveDocs
	return nil
}

// noShard judges a shard without a readable manifest: a snapshot that is not whole may record that itself.
func (k *checker) noShard(s *snapshot.Snapshot, loc snapshot.Locator, at Finding, err error) error {
	if reason := s.Absence(loc.IndexName, *at.Shard); reason != "" && errors.Is(err, snapshot.ErrShardMissing) {
		at.Kind, at.Text = Incomplete, "the snapshot was made without this shard: "+reason
		k.add(at)
		return nil
	}
	if folder, err := loc.ShardFolder(*at.Shard); err == nil {
		k.lost(folder + "/")
	}
	return k.classify(at, err)
}

// first reports whether a file or blob is met for the first time.
func (k *checker) first(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.read[name] {
		return false
	}
	k.read[name] = true
	return true
}

// maxBadParts bounds the findings about one file: a manifest may speak of millions of parts.
const maxBadParts = 100

// files compares the blobs of a shard with the listing, and reads the files of the subset that no other snapshot had.
func (k *checker) files(ctx context.Context, s *snapshot.Shard, at Finding) error {
	bad := map[string]int{}
	for f, blob := range s.Blobs() {
		if bad[f.Name] == maxBadParts {
			k.lost(s.Path + "/" + f.Blob)
			continue
		}
		k.refer(blob.Name)
		if s.Shallow { // its blobs may lie in another repository: they are asked for one by one
			if err := k.classify(at, s.CheckLength(ctx, blob)); err != nil {
				return err
			}
			continue
		}
		if text := k.differs(s, f, blob); text != "" {
			at := at
			at.Kind, at.Blob, at.Text = Damage, blob.Name, text
			k.add(at)
			bad[f.Name]++
		}
	}
	dir := blobsOnly(s)
	for _, f := range s.Files {
		name := s.Path + "/" + f.Blob
		if bad[f.Name] > 0 || !k.first(name) {
			continue
		}
		err := k.data(ctx, dir, f, name)
		if err := k.classify(at, err); err != nil {
			return err
		}
	}
	return nil
}

// differs returns how a blob differs from its manifest; "" if it does not.
func (k *checker) differs(s *snapshot.Shard, f snapshot.File, blob repo.Blob) string {
	size, ok := k.present[blob.Name]
	switch {
	case !ok:
		return "the blob is missing; it holds " + f.Name
	case size != blob.Size:
		return fmt.Sprintf("the blob has %d bytes, %s states %d; it holds %s", size, s.Manifest, blob.Size, f.Name)
	}
	return ""
}

// blobsOnly returns the files as their blobs hold them: of small files the manifest has a
// copy, which readers prefer, but the blob must be whole as well.
func blobsOnly(s *snapshot.Shard) lucene.Directory {
	bare := *s
	bare.Files = slices.Clone(s.Files)
	for i := range bare.Files {
		if !bare.Files[i].Virtual() {
			bare.Files[i].Contents = nil
		}
	}
	return bare.Directory()
}

// data reads a file when it belongs to the subset.
func (k *checker) data(ctx context.Context, dir lucene.Directory, f snapshot.File, name string) error {
	wanted := k.subset.has(name)
	k.mu.Lock()
	k.out.Files++
	k.mu.Unlock()
	if !wanted {
		return nil
	}
	file, err := dir.Open(f.Name)
	if err != nil {
		return err
	}
	err = verifyFile(ctx, file, f.Checksum)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.out.FilesRead++
	k.out.BytesRead += f.Length
	if errors.Is(err, errNoChecksum) {
		k.out.Unverified++
		return nil
	}
	return err
}

// passing are blobs that belong to a repository although no snapshot refers to them.
var passing = regexp.MustCompile(`^(index\.latest|index|index-\d+|incompatible-snapshots|(snapshot_shard_paths|pinned_timestamps)/.*)$`)

// remoteStore are the folders of a cluster's remote store, which may share the repository: what
// is in use there only the cluster knows.
var remoteStore = regexp.MustCompile(`(^|/)\d+/(segments|translog)/(data(/\d+)?|metadata|lock_files)/[^/]+$`)

// orphans names the blobs that nothing refers to. A shard's newest list with a number for
// a name is in use where the catalog does not name the list (before Elasticsearch 7.6).
func (k *checker) orphans() {
	inUse, named := map[string]bool{}, map[string]bool{} // folders
	for blob := range k.referenced {
		folder, name := path.Split(blob)
		inUse[folder] = true
		named[folder] = named[folder] || strings.HasPrefix(name, "index-")
	}
	newest := map[string]int64{}
	lists := map[string]int64{} // blobs
	var left []string
	for name := range k.present {
		if k.referenced[name] || remoteStore.MatchString(name) || passing.MatchString(name) || k.undecided(name) {
			continue
		}
		left = append(left, name)
		folder, last := path.Split(name)
		n, err := strconv.ParseInt(strings.TrimPrefix(last, "index-"), 10, 64)
		if err == nil && inUse[folder] && !named[folder] {
			lists[name] = n
			newest[folder] = max(newest[folder], n)
		}
	}
	slices.Sort(left)
	for _, name := range left {
		folder, _ := path.Split(name)
		if n, ok := lists[name]; ok && n == newest[folder] {
			continue
		}
		k.add(Finding{Kind: Unreferenced, Blob: name, Text: fmt.Sprintf("no snapshot needs it (%d bytes)", k.present[name])})
	}
}

// undecided reports whether what would refer to a blob is lost. Folders of indices may lie in others (hashed paths).
func (k *checker) undecided(name string) bool {
	whole, _, _ := strings.Cut(name, ".part")
	if k.unknown[""] || k.unknown[whole] {
		return true
	}
	for from := 0; ; {
		for i := from; i < len(name); i++ {
			if name[i] == '/' && k.unknown[name[from:i+1]] {
				return true
			}
		}
		next := strings.IndexByte(name[from:], '/')
		if next < 0 {
			return false
		}
		from += next + 1
	}
}

// inOrder sorts findings by place, the gravest first, without repetitions,
// which several snapshots that need one blob cause.
func inOrder(all []Finding) []Finding {
	grave := []Kind{Damage, Unsupported, Incomplete, Unreferenced, Notice}
	slices.SortStableFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(slices.Index(grave, a.Kind), slices.Index(grave, b.Kind)), cmp.Compare(a.Snapshot, b.Snapshot),
			cmp.Compare(a.Index, b.Index), cmp.Compare(a.shard(), b.shard()), cmp.Compare(a.Blob, b.Blob), cmp.Compare(a.Text, b.Text))
	})
	type key struct {
		kind       Kind
		blob, text string
	}
	seen := map[key]bool{}
	out := []Finding{}
	for _, f := range all {
		id := key{f.Kind, f.Blob, f.Text}
		if f.Blob == "" {
			id.text = fmt.Sprint(f.Snapshot, "/", f.Index, "/", f.Text)
		}
		if !seen[id] {
			seen[id] = true
			out = append(out, f)
		}
	}
	return out
}

// shard returns the number of the shard, -1 for findings about a whole index or more.
func (f Finding) shard() int {
	if f.Shard == nil {
		return -1
	}
	return *f.Shard
}
