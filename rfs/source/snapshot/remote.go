package snapshot

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

/*
Shallow snapshots of OpenSearch (2.9 and later) hold no Lucene files. The shard's blob
shallow-snap-<uuid>.dat names a commit in the remote store of the cluster, another repository:

	<base>/<index uuid>/<shard>/segments/data/<Lucene name>__<random>
	<base>/<index uuid>/<shard>/segments/metadata/metadata__<term>__<generation>__…
	<base>/<index uuid>/<shard>/segments/lock_files/<metadata name>...<snapshot uuid>.v2_lock

Term and generation are stated as 2^63-1 minus their value, with 19 digits, so that the newest
comes first. Several metadata blobs may speak of one commit; the lock states which one the
snapshot holds on to. With hashed paths each of the three folders has a hash of its own before
it: of <index uuid><shard>segments<folder>.
*/

// shallow is the content of shallow-snap-<uuid>.dat.
type shallow struct {
	Name       string   `json:"name"`
	IndexUUID  string   `json:"index_uuid"`
	Repository string   `json:"remote_store_repository"`
	Base       string   `json:"remote_store_repository_base_path"`
	Term       int64    `json:"primary_term"`
	Generation int64    `json:"commit_generation"`
	Files      []string `json:"file_names"`
	PathType   int      `json:"path_type"`
	Algorithm  int      `json:"path_hash_algorithm"`
}

// Algorithms of path hashes; both are FNV-1a-64.
const (
	hashBase64    = 0 // the 8 bytes in base64 for URLs
	hashComposite = 1 // see pathHash
)

// openShallow reads the list of a shard of a shallow snapshot if the blob exists, and finds its files in the remote store: either the
// repository that is registered under the name in the blob, or the repository itself. Errors: fs.ErrNotExist without the blob,
// fault.ErrUnsupported if the remote store is not available, fault.ErrCorrupt.
func (s *Shard) openShallow(ctx context.Context, loc Locator, blob string) error {
	b, done, err := readJSON(ctx, s.repo, blob, codecSnapshot)
	defer done()
	if err != nil {
		return err
	}
	var doc shallow
	if err := unmarshal(blob, b, &doc); err != nil {
		return err
	}
	switch {
	case doc.Name != loc.SnapshotName:
		return fault.Corrupt(blob, "", -1, "it belongs to snapshot %q, not to %s", doc.Name, loc.SnapshotName)
	case doc.IndexUUID == "" || strings.ContainsAny(doc.IndexUUID, "/\\\x00") || doc.Term < 0 || doc.Generation < 0 || len(doc.Files) == 0:
		return fault.Corrupt(blob, "", -1, "it names no commit of an index")
	}
	s.Manifest, s.Shallow = blob, true
	store, candidates, err := s.findCommit(ctx, &doc, loc.SnapshotUUID)
	if err != nil {
		return err
	}
	if store == nil {
		return fmt.Errorf("index %s shard %d: %s is a shallow snapshot, its Lucene files are in the remote store %q of the cluster (base path %q); give its location (--remote-store-uri %s=URI), or take a full snapshot (remote_store_index_shallow_copy: false): %w",
			s.Index, s.Number, blob, doc.Repository, doc.Base, doc.Repository, fault.ErrUnsupported)
	}
	s.repo = store.Repository
	s.Path = store.folder("data")
	for _, name := range candidates {
		var entries []fileEntry
		if entries, err = readSegmentMetadata(ctx, store, name, &doc); err == nil {
			return s.addFiles(entries)
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			break
		}
	}
	return err
}

// place locates the folders of a shard in a store.
type place struct {
	Repository
	doc      *shallow
	shard    int
	category string // segments or translog
	whole    bool   // Repository is the whole store, base path included
}

const segments = "segments"

// folder returns the path of "data", "metadata" or "lock_files"; "" if its hash is unknown.
func (p *place) folder(kind string) string {
	path := fmt.Sprintf("%s/%d/%s/%s", p.doc.IndexUUID, p.shard, p.category, kind)
	base := ""
	if b := strings.Trim(p.doc.Base, "/"); b != "" && p.whole {
		base = b + "/"
	}
	if p.doc.PathType == pathFixed {
		return base + path
	}
	var hash string
	switch text := fmt.Sprintf("%s%d%s%s", p.doc.IndexUUID, p.shard, p.category, kind); p.doc.Algorithm {
	case hashBase64:
		h := fnv.New64a()
		h.Write([]byte(text)) //nolint:errcheck // a hash takes everything
		hash = base64.RawURLEncoding.EncodeToString(h.Sum(nil))
	case hashComposite:
		hash = pathHash(text)
	default:
		return ""
	}
	if p.doc.PathType == pathHashedPrefix {
		return hash + "/" + base + path
	}
	return base + hash + "/" + path
}

// remotes is a repository that knows remote stores by name.
type remotes interface {
	Remote(name string) (repo.Repository, bool)
}

// stores returns the repository that may hold a remote store, and the whole store around it, if there is one.
func (s *Shard) stores(name string) []Repository {
	stores := []Repository{s.repo}
	if r, ok := s.repo.(remotes); ok {
		if remote, ok := r.Remote(name); ok {
			stores = []Repository{remote}
		}
	}
	if r, ok := stores[0].(interface {
		Store() (repo.Repository, bool)
	}); ok {
		if whole, ok := r.Store(); ok {
			stores = append(stores, whole)
		}
	}
	return stores
}

// baseOf returns the path of a repository in its bucket.
func baseOf(r Repository) string {
	at, ok := r.(interface{ URI() string })
	if !ok {
		return ""
	}
	_, rest, _ := strings.Cut(at.URI(), "://")
	_, base, _ := strings.Cut(rest, "/")
	return base
}

// findCommit returns the store that holds the commit, and the metadata blobs that may contain it; a nil store if no available store does.
func (s *Shard) findCommit(ctx context.Context, doc *shallow, snapshotUUID string) (*place, []string, error) {
	for i, r := range s.stores(doc.Repository) {
		p := &place{Repository: r, doc: doc, shard: s.Number, category: segments, whole: i > 0}
		if p.folder("metadata") == "" {
			return nil, nil, fmt.Errorf("%s: path hash algorithm %d is unknown: %w", s.Manifest, doc.Algorithm, fault.ErrUnsupported)
		}
		names, err := p.commits(ctx, snapshotUUID)
		if err != nil || len(names) > 0 {
			return p, names, err
		}
	}
	return nil, nil, nil
}

// commits returns the metadata blobs of the commit: by the lock of the snapshot, or else all of its term and generation, newest first; none
// if the store does not hold the shard.
func (p *place) commits(ctx context.Context, snapshotUUID string) ([]string, error) {
	prefix := fmt.Sprintf("metadata__%019d__%019d__", math.MaxInt64-p.doc.Term, math.MaxInt64-p.doc.Generation)
	locks := p.folder("lock_files") + "/"
	for blob, err := range p.List(ctx, locks+prefix) {
		if err != nil {
			return nil, fmt.Errorf("find the commit of a shallow snapshot: %w", err)
		}
		name := strings.TrimPrefix(blob.Name, locks)
		for _, end := range []string{"..." + snapshotUUID + ".v2_lock", "___" + snapshotUUID + ".lock"} {
			if at, ok := strings.CutSuffix(name, end); ok {
				return []string{p.folder("metadata") + "/" + at}, nil
			}
		}
	}
	var names []string
	for blob, err := range p.List(ctx, p.folder("metadata")+"/"+prefix) {
		if err != nil {
			return nil, fmt.Errorf("find the commit of a shallow snapshot: %w", err)
		}
		names = append(names, blob.Name)
	}
	slices.Sort(names)
	return names, nil
}

// readSegmentMetadata reads the locations of the files of the commit.
func readSegmentMetadata(ctx context.Context, r Repository, name string, doc *shallow) ([]fileEntry, error) {
	var uploaded map[string]fileEntry
	var image []byte
	if _, err := readDecoded(ctx, r, name, maxMetadata, func(b []byte) (err error) {
		if uploaded, image, err = parseSegmentMetadata(b); err != nil {
			err = inBlob(name, err)
		}
		return err
	}); err != nil {
		return nil, referenced(name, "the lock of the snapshot", err)
	}
	commit := "segments_" + strconv.FormatInt(doc.Generation, 36)
	if doc.Files == nil { // all files at a point in time; the commit is then the image
		for f := range uploaded {
			if !strings.HasPrefix(f, "segments_") {
				doc.Files = append(doc.Files, f)
			}
		}
		slices.Sort(doc.Files)
	}
	entries := make([]fileEntry, 0, len(doc.Files)+1)
	listed := false
	for _, f := range doc.Files {
		listed = listed || f == commit
		e, ok := uploaded[f]
		if !ok {
			return nil, fault.Corrupt(name, f, -1, "the snapshot holds this file, but it is not listed here")
		}
		entries = append(entries, e)
	}
	if !listed {
		// The commit was not uploaded as a file; the end of the metadata blob is that file.
		entries = append(entries, fileEntry{Name: "v__" + commit, Physical: commit, Length: int64(len(image)), MetaHash: image})
	}
	return entries, nil
}

/*
parseSegmentMetadata reads a metadata blob of the remote store (codec "segment_md", version 1
or 2): header | VInt n | n times: string Lucene name, string "name::uploaded::checksum::length"
and in later versions "::major version" | checkpoint | i64 length, the image of segments_N |
footer. Longs and their like are little-endian, header and footer not. The checksum is the CRC-32 of the whole file, in decimal; the checkpoint is: string
index, string index uuid, VInt shard, i64 term, i64 generation, i64 version, i64 length, string
codec, in version 2 also the files of the checkpoint. Errors: fault.ErrCorrupt, without the
blob's name.
*/
func parseSegmentMetadata(b []byte) (map[string]fileEntry, []byte, error) {
	body, err := checkedBody(b)
	if err != nil {
		return nil, nil, err
	}
	in := codec.NewInput(body)
	if h := in.Header(); in.Err() == nil && (h.Codec != "segment_md" || h.Version < 1 || h.Version > 2) {
		return nil, nil, fmt.Errorf("codec %q version %d where segment_md 1 or 2 is expected: %w", h.Codec, h.Version, fault.ErrUnsupported)
	}
	n := in.Count(2)
	files := map[string]fileEntry{}
	for range n {
		name, value := in.String(), in.String()
		if in.Err() != nil {
			break
		}
		e, ok := uploadedFile(name, value)
		if _, twice := files[name]; !ok || twice {
			in.Fail("entry %q of file %q", value, name)
			break
		}
		files[name] = e
	}
	if err := in.Err(); err != nil {
		return nil, nil, fmt.Errorf("list of uploaded files: %w", err)
	}
	image, err := commitImage(body, in.Pos())
	return files, image, err
}

// checkedBody returns a blob without its footer, after verifying its checksum.
func checkedBody(b []byte) ([]byte, error) {
	if len(b) < footerSize || binary.BigEndian.Uint32(b[len(b)-footerSize:]) != footerMagic {
		return nil, fault.Corrupt("", "", int64(len(b)), "no footer")
	}
	if want, got := binary.BigEndian.Uint64(b[len(b)-8:]), uint64(crc32.ChecksumIEEE(b[:len(b)-8])); want != got {
		return nil, fault.Corrupt("", "", int64(len(b)-8), "checksum %08x, computed %08x", want, got)
	}
	return b[:len(b)-footerSize], nil
}

// remoteLucene is the oldest version of Lucene that wrote files of remote stores (OpenSearch 2.3).
const remoteLucene = "9.3"

// uploadedFile parses an entry.
func uploadedFile(name, value string) (fileEntry, bool) {
	f := strings.Split(value, "::")
	if len(f) < 4 || f[0] != name {
		return fileEntry{}, false
	}
	sum, serr := strconv.ParseUint(f[2], 10, 32)
	length, lerr := strconv.ParseInt(f[3], 10, 64)
	return fileEntry{Name: f[1], Physical: name, Length: length, Checksum: strconv.FormatUint(sum, 36), WrittenBy: remoteLucene}, cmp.Or(serr, lerr) == nil
}

// commitImage returns the image at the end of the body: the eight bytes before it hold its length. What precedes these differs between
// versions, so the image is found by that length and by the header that it starts with.
func commitImage(body []byte, from int) ([]byte, error) {
	for at := from; at+12 <= len(body); at++ {
		n := binary.LittleEndian.Uint64(body[at:])
		if n == uint64(len(body)-at-8) && binary.BigEndian.Uint32(body[at+8:]) == headerMagic {
			return body[at+8:], nil
		}
	}
	return nil, fault.Corrupt("", "", int64(from), "it holds no image of the commit")
}
