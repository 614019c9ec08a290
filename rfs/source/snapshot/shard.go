package snapshot

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// ErrShardMissing means that the snapshot has no files of a shard.
var ErrShardMissing = errors.New("the snapshot does not hold this shard")

// maxParts bounds the parts of one file; a part is at least a kilobyte in practice.
const maxParts = 1 << 24

// Shard is the list of files that make up one shard in one snapshot.
type Shard struct {
	Index      string
	Number     int
	Path       string // folder in the repository
	Manifest   string // blob that lists the files
	Files      []File
	TotalBytes int64
	Sum        string // hash of the manifest, see Locator.ShardSums; "" for the list of all snapshots, which may change
	Shallow    bool   // the files are in a remote store, Path is their folder there

	repo   Repository
	origin origin
}

// File is one Lucene file of a shard and the blob or blobs that hold it.
type File struct {
	Blob     string // name below the shard's folder; "v__…" has no blob
	Name     string // Lucene's own name
	Length   int64  // bytes
	Checksum string // in base 36, CRC-32 of the Lucene footer, or if Legacy Adler-32 of the whole file; "" when not recorded
	Legacy   bool   // the file is of Lucene before 4.8, or listed by Elasticsearch before 1.3
	PartSize int64  // bytes per part; 0 if the file is one blob
	Contents []byte // the whole file if it is in the manifest

	added *lucene.Added // the whole file if operations of a translog were applied
}

// Virtual reports whether the file has no blob.
func (f File) Virtual() bool { return strings.HasPrefix(f.Blob, "v__") }

// Parts returns the number of blobs of the file.
func (f File) Parts() int64 {
	switch {
	case f.Virtual():
		return 0
	case f.PartSize <= 0 || f.Length <= f.PartSize:
		return 1
	}
	return (f.Length + f.PartSize - 1) / f.PartSize
}

// OpenShard reads the manifest of one shard and nothing else. Errors: ErrShardMissing, fault.ErrCorrupt with the blob, fault.ErrUnsupported
// for shallow snapshots whose remote store is not available and for shards outside the repository's path.
func OpenShard(ctx context.Context, r Repository, loc Locator, number int) (*Shard, error) {
	s, err := openShard(ctx, r, loc, number)
	if errors.Is(err, ErrShardMissing) {
		err = s.origin.explain(ctx, err)
	}
	return s, err
}

func openShard(ctx context.Context, r Repository, loc Locator, number int) (*Shard, error) {
	s := &Shard{Index: loc.IndexName, Number: number, repo: r, origin: loc.origin(r)}
	if loc.Pinned != nil {
		return s, s.openPinned(ctx, *loc.Pinned)
	}
	path, err := loc.ShardFolder(number)
	if err == nil {
		err = s.openAt(ctx, loc, path)
	}
	if loc.PathType == pathFixed || err == nil || !errors.Is(err, ErrShardMissing) && !errors.Is(err, errPathType) {
		return s, err
	}
	recorded, rerr := recordedPath(ctx, r, loc, number)
	switch {
	case rerr != nil:
		return s, rerr
	case recorded == "" || recorded == path:
		return s, err
	}
	if err := s.openAt(ctx, loc, recorded); !errors.Is(err, ErrShardMissing) {
		return s, err
	}
	// The hash may precede the base path: then the shard is elsewhere in the store.
	if within, ok := r.(interface {
		Store() (repo.Repository, bool)
	}); ok {
		if store, ok := within.Store(); ok {
			s.repo = store
			if err := s.openAt(ctx, loc, recorded); !errors.Is(err, ErrShardMissing) {
				return s, err
			}
		}
	}
	return s, fmt.Errorf("index %s shard %d lies at %s, as seen from the root of the store; it is not below this repository's path. Copy it to %s below that path: %w",
		s.Index, s.Number, recorded, path, fault.ErrUnsupported)
}

// openAt reads the manifest of a shard in a folder.
func (s *Shard) openAt(ctx context.Context, loc Locator, path string) error {
	s.Path = path
	s.Manifest = path + "/snap-" + loc.SnapshotUUID + ".dat"
	codec := codecSnapshot
	if loc.Legacy {
		s.Manifest, codec = path+"/snapshot-"+loc.SnapshotName, ""
	}
	b, sum, done, err := readSummed(ctx, s.repo, s.Manifest, codec)
	defer done()
	switch {
	case err == nil:
		s.Sum = sum
		if s.Number < len(loc.ShardSums) {
			if err := known(s.Manifest, sum, loc.ShardSums[s.Number]); err != nil {
				return err
			}
		}
		return s.parse(b, loc.SnapshotName)
	case !missing(err):
		return err
	case loc.Legacy:
		return s.missing()
	}
	return s.withoutManifest(ctx, loc)
}

func (s *Shard) missing() error {
	return fmt.Errorf("index %s shard %d: blob %s is missing: %w", s.Index, s.Number, s.Manifest, ErrShardMissing)
}

// withoutManifest handles a shard without a list of its own: in a shallow snapshot, or if the blob is lost and the shard's list of all
// snapshots replaces it.
func (s *Shard) withoutManifest(ctx context.Context, loc Locator) error {
	if err := s.openShallow(ctx, loc, s.Path+"/shallow-snap-"+loc.SnapshotUUID+".dat"); !missing(err) {
		return err
	}
	list := ""
	if s.Number < len(loc.Generations) && loc.Generations[s.Number] != "" {
		list = s.Path + "/index-" + loc.Generations[s.Number]
	} else if len(loc.Generations) == 0 { // before Elasticsearch 7.6 the newest number counts
		var err error
		if list, err = s.newestList(ctx); err != nil {
			return err
		}
	}
	if list == "" {
		return s.missing()
	}
	b, done, err := readJSON(ctx, s.repo, list, codecSnapshots)
	defer done()
	switch {
	case missing(err):
		return s.missing()
	case err != nil:
		return err
	}
	return s.parseAll(list, b, loc.SnapshotName)
}

// newestList returns the list index-<G> with the greatest number, or "".
func (s *Shard) newestList(ctx context.Context) (string, error) {
	newest, list := int64(-1), ""
	for blob, err := range s.repo.List(ctx, s.Path+"/index-") {
		if err != nil {
			return "", fmt.Errorf("find the list of shard %s: %w", s.Path, err)
		}
		n, err := strconv.ParseInt(strings.TrimPrefix(blob.Name, s.Path+"/index-"), 10, 64)
		if err == nil && n > newest {
			newest, list = n, blob.Name
		}
	}
	return list, nil
}

// SameFiles reports whether another snapshot of the shard consists of the same files, so that their commits are the same. It is false if a
// checksum is not recorded.
func (s *Shard) SameFiles(o *Shard) bool {
	if len(s.Files) != len(o.Files) || len(s.Files) == 0 {
		return false
	}
	of := make(map[string]File, len(o.Files))
	for _, f := range o.Files {
		of[f.Name] = f
	}
	for _, f := range s.Files {
		g, has := of[f.Name]
		if !has || f.Checksum == "" || f.Checksum != g.Checksum || f.Length != g.Length || !bytes.Equal(f.Contents, g.Contents) {
			return false
		}
		delete(of, f.Name)
	}
	return true
}

// Blame adds the manifest to an error without a blob: if no file of the shard is to blame, the list of files is.
func (s *Shard) Blame(err error) error {
	var d *fault.Damage
	switch {
	case errors.As(err, &d) && d.Blob == "":
		return &fault.Damage{Blob: s.Manifest, File: d.File, Offset: -1, Err: err}
	case errors.Is(err, fault.ErrUnsupported):
		return fmt.Errorf("%s: %w", s.Path, err)
	}
	return err
}

type fileEntry struct {
	Name     string          `json:"name"`
	Physical string          `json:"physical_name"`
	Length   int64           `json:"length"`
	Checksum string          `json:"checksum"`
	PartSize json.RawMessage `json:"part_size"`
	MetaHash []byte          `json:"meta_hash"`
	// WrittenBy is the version of Lucene; "" before Elasticsearch 1.3, which computed all checksums itself.
	WrittenBy string `json:"written_by"`
}

// legacy reports whether the checksum is the Adler-32 of the whole file.
func (e *fileEntry) legacy() bool {
	major, rest, _ := strings.Cut(e.WrittenBy, ".")
	minor, _, _ := strings.Cut(rest, ".")
	m, merr := strconv.Atoi(major)
	n, nerr := strconv.Atoi(minor)
	return merr != nil || m < 4 || m == 4 && (nerr != nil || n < 8)
}

// parse reads the files of one snapshot, whose name the manifest repeats.
func (s *Shard) parse(b []byte, snapshot string) error {
	var doc struct {
		Name  string      `json:"name"`
		Files []fileEntry `json:"files"`
	}
	if err := unmarshalList(s.Manifest, b, &doc); err != nil {
		return err
	}
	if doc.Files == nil || doc.Name != snapshot {
		return fault.Corrupt(s.Manifest, "", -1, "it does not list the files of snapshot %s but of %q", snapshot, doc.Name)
	}
	return s.addFiles(doc.Files)
}

// parseAll reads the files of one snapshot, by name, from the shard's list of all snapshots.
func (s *Shard) parseAll(list string, b []byte, snapshot string) error {
	var doc struct {
		Files     []fileEntry `json:"files"`
		Snapshots map[string]struct {
			Files []string `json:"files"`
		} `json:"snapshots"`
	}
	if err := unmarshalList(list, b, &doc); err != nil {
		return err
	}
	wanted, ok := doc.Snapshots[snapshot]
	if !ok {
		return fmt.Errorf("index %s shard %d: neither %s nor an entry of %s exists: %w", s.Index, s.Number, s.Manifest, list, ErrShardMissing)
	}
	s.Manifest = list
	byName := map[string]fileEntry{}
	for _, f := range doc.Files {
		byName[f.Name] = f
	}
	files := make([]fileEntry, 0, len(wanted.Files))
	for _, name := range wanted.Files {
		f, ok := byName[name]
		if !ok {
			return fault.Corrupt(list, "", -1, "file %s of snapshot %s is not described", name, snapshot)
		}
		files = append(files, f)
	}
	return s.addFiles(files)
}

func (s *Shard) addFiles(entries []fileEntry) error {
	seen := map[string]bool{}
	for _, e := range entries {
		f := File{Blob: e.Name, Name: e.Physical, Length: e.Length, Checksum: e.Checksum, Legacy: e.legacy(), PartSize: partSize(e.PartSize)}
		switch {
		case f.Name == "" || strings.ContainsAny(f.Name, "/\\\x00") || seen[f.Name]:
			return fault.Corrupt(s.Manifest, "", -1, "file name %q", f.Name)
		case f.Blob == "" || strings.ContainsAny(f.Blob, "/\\\x00"):
			return fault.Corrupt(s.Manifest, "", -1, "blob name %q of file %s", f.Blob, f.Name)
		case f.Length < 0 || f.Parts() > maxParts || s.TotalBytes > math.MaxInt64-f.Length:
			return fault.Corrupt(s.Manifest, "", -1, "length %d of file %s in parts of %d", f.Length, f.Name, f.PartSize)
		}
		seen[f.Name] = true
		// Early versions stored a hash of several files here: only a value of the right length is the file.
		if int64(len(e.MetaHash)) == f.Length {
			f.Contents = e.MetaHash
		}
		if f.Virtual() && f.Contents == nil {
			return fault.Corrupt(s.Manifest, "", -1, "file %s has %d bytes, its contents %d", f.Name, f.Length, len(e.MetaHash))
		}
		s.Files = append(s.Files, f)
		s.TotalBytes += f.Length
	}
	return nil
}

// partSize reads a size in bytes; absent, absurd or infinite sizes mean one part.
func partSize(b json.RawMessage) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(b), `"`), 10, 64)
	if err != nil || n <= 0 || n == math.MaxInt64 {
		return 0
	}
	return n
}
