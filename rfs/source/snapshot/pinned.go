package snapshot

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

/*
Snapshots of the second kind of OpenSearch (2.17 and later, shallow_snapshot_v2) have no blob for a shard. They pin a moment of the
remote store, in epoch ms by the clock of the cluster manager: a shard is the metadata blob that was the newest then. Its name ends in
the time of its upload:

	<base>/<index uuid>/<shard>/segments/metadata/metadata__<term>__<generation>__<translog generation>__<counter>__<node>__<ms>__<version>

Term, generations, counter and ms are stated as 2^63-1 minus their value. What no refresh had made searchable at that moment is in the
translog alone, which a cluster replays when it restores:

	<base>/<index uuid>/<shard>/translog/metadata/metadata__<term>__<generation>__<ms>__<node>__…__<version>
	<base>/<index uuid>/<shard>/translog/data/<term>/translog-<generation>.ckp and .tlog

*/

// Pinned locates the shards of an index in a snapshot that pins a point in time of a remote store.
type Pinned struct {
	Millis    int64  `json:"millis"`
	IndexUUID string `json:"index_uuid"`
	Segments  string `json:"segments"` // name of the remote store's repository
	Translog  string `json:"translog"` // likewise
	PathType  int    `json:"path_type,omitempty"`
	Algorithm int    `json:"algorithm,omitempty"`
}

// Pins reports whether the snapshot pins a point in time of a remote store. The catalog does not state it (Listed).
func (s *Snapshot) Pins() bool { return s.pinned > 0 }

// pinnedAt returns the location of the shards of the index, according to its metadata. Errors: fault.ErrCorrupt, fault.ErrUnsupported.
func (s *Snapshot) pinnedAt(x *Index, blob string) (*Pinned, error) {
	p := &Pinned{
		Millis: s.pinned, IndexUUID: x.Settings["index.uuid"],
		Segments: x.Settings["index.remote_store.segment.repository"], Translog: x.Settings["index.remote_store.translog.repository"],
	}
	if p.IndexUUID == "" || strings.ContainsAny(p.IndexUUID, "/\\\x00") || p.Segments == "" || p.Translog == "" {
		return nil, fault.Corrupt(blob, "", -1, "index %s of a snapshot that pins a remote store has the UUID %q and no remote store", x.Name, p.IndexUUID)
	}
	var paths struct {
		Type      string `json:"path_type"`
		Algorithm string `json:"path_hash_algorithm"`
	}
	if len(x.remote) > 0 {
		if err := unmarshal(blob, x.remote, &paths); err != nil {
			return nil, err
		}
	}
	types, algorithms := []string{"FIXED", "HASHED_PREFIX", "HASHED_INFIX"}, []string{"FNV_1A_BASE64", "FNV_1A_COMPOSITE_1"}
	p.PathType, p.Algorithm = slices.Index(types, paths.Type), slices.Index(algorithms, paths.Algorithm)
	if paths.Type == "" {
		p.PathType = pathFixed
	}
	if p.PathType < 0 || p.PathType != pathFixed && p.Algorithm < 0 {
		return nil, fmt.Errorf("index %s: the paths of its remote store are of an unknown type, %q by %q: %w", x.Name, paths.Type, paths.Algorithm, fault.ErrUnsupported)
	}
	p.Algorithm = max(p.Algorithm, 0)
	return p, nil
}

// openPinned finds the files of a shard at the pinned point in time, and applies the operations that are only in the translog. Errors:
// fault.ErrUnsupported if the remote store is not available, or the translog too long; fault.ErrCorrupt.
func (s *Shard) openPinned(ctx context.Context, p Pinned) error {
	s.Shallow = true
	doc := &shallow{IndexUUID: p.IndexUUID, Repository: p.Segments, PathType: p.PathType, Algorithm: p.Algorithm}
	store, name, _, err := s.findPinned(ctx, doc, segments, p.Millis)
	if err != nil {
		return err
	}
	s.Manifest = store.folder("metadata") + "/" + name
	if doc.Generation, err = inverted("", name, 2); err != nil {
		return err
	}
	entries, err := readSegmentMetadata(ctx, store, s.Manifest, doc)
	if err != nil {
		return err
	}
	image := entries[len(entries)-1]
	from := s.repo
	s.repo, s.Path = store.Repository, store.folder("data")
	if err := s.addFiles(entries); err != nil {
		return err
	}
	data, err := lucene.UserData(image.Physical, image.MetaHash)
	if err != nil {
		return inBlob(s.Manifest, err)
	}
	checkpoint, err := strconv.ParseInt(data["local_checkpoint"], 10, 64)
	if err != nil || checkpoint < -1 {
		return fault.Corrupt(s.Manifest, image.Physical, -1, "the commit has the local checkpoint %q", data["local_checkpoint"])
	}
	translog := &replay{Shard: Shard{Index: s.Index, Number: s.Number, repo: from}, after: checkpoint, uuid: data["translog_uuid"]}
	operations, top, err := translog.read(ctx, p)
	if err != nil || top == checkpoint {
		return err
	}
	// Commits of remote stores state one number as both. A recovery from another commit also regards the deletions in it.
	if data["max_seq_no"] != data["local_checkpoint"] {
		return fmt.Errorf("%s: the commit has the local checkpoint %s and the greatest sequence number %s; %s: %w",
			s.Manifest, data["local_checkpoint"], data["max_seq_no"], translog.remedy(), fault.ErrUnsupported)
	}
	return s.apply(ctx, operations, top)
}

// apply replaces the files of a commit by the ones with operations. The new files are in memory.
func (s *Shard) apply(ctx context.Context, operations []lucene.Operation, top int64) error {
	added, err := lucene.Apply(ctx, s.Directory(), operations, top)
	if err != nil {
		return s.Blame(err)
	}
	for _, a := range added {
		f := File{Blob: "v__" + a.Name, Name: a.Name, Length: a.Size, Checksum: strconv.FormatUint(uint64(a.Sum), 36), added: a}
		if k := slices.IndexFunc(s.Files, func(f File) bool { return f.Name == a.Name }); k >= 0 {
			s.TotalBytes -= s.Files[k].Length
			s.Files[k] = f
		} else {
			s.Files = append(s.Files, f)
		}
		s.TotalBytes += a.Size
	}
	return nil
}

// findPinned returns the store that holds the shard, the name of the newest metadata blob at a point in time, and whether it has a later
// one.
func (s *Shard) findPinned(ctx context.Context, doc *shallow, category string, millis int64) (in *place, name string, later bool, err error) {
	for i, r := range s.stores(doc.Repository) {
		p := &place{Repository: r, doc: doc, shard: s.Number, category: category, whole: i > 0}
		if p.whole {
			doc.Base = baseOf(s.stores(doc.Repository)[0])
		}
		var names []string
		folder := p.folder("metadata") + "/"
		for blob, err := range p.List(ctx, folder+"metadata__") {
			if err != nil {
				return nil, "", false, fmt.Errorf("find the %s of index %s shard %d: %w", category, s.Index, s.Number, err)
			}
			names = append(names, strings.TrimPrefix(blob.Name, folder))
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		name, err = newestAt(folder, names, category, millis)
		if name == "" && err == nil {
			err = fault.Corrupt(folder+names[len(names)-1], "", -1, "no metadata of index %s shard %d is as old as the snapshot; the cluster has removed it", s.Index, s.Number)
		}
		return p, name, name != names[0], err
	}
	return nil, "", false, fmt.Errorf("index %s shard %d: the snapshot pins a moment of the remote store (shallow_snapshot_v2), and its %s are in the repository %q of the cluster; give its location (--remote-store-uri %s=URI), or take a full snapshot (remote_store_index_shallow_copy: false): %w",
		s.Index, s.Number, category, doc.Repository, doc.Repository, fault.ErrUnsupported)
}

// newestAt returns the metadata blob that a cluster selects for a point in time, from names in order (the highest term and generation
// first); "" if all are later. A blob that is later than a preceding blob in this order was written by a primary that had been replaced.
func newestAt(folder string, names []string, category string, millis int64) (string, error) {
	before := int64(math.MaxInt64)
	for _, name := range names {
		part := 3 // of the translog
		if category == segments {
			part = max(strings.Count(name, "__")-1, 3)
		}
		at, err := inverted(folder, name, part)
		if err != nil {
			return "", err
		}
		if at > before {
			continue
		}
		if at <= millis {
			return name, nil
		}
		before = at
	}
	return "", nil
}

// inverted returns a number in the name of a metadata blob, which is stored as 2^63-1 minus the number.
func inverted(folder, name string, part int) (int64, error) {
	parts := strings.Split(name, "__")
	if part < 1 || part >= len(parts) {
		return 0, fault.Corrupt(folder+name, "", -1, "its name has %d parts", len(parts))
	}
	n, err := strconv.ParseInt(parts[part], 10, 64)
	if err != nil || n < 0 {
		return 0, fault.Corrupt(folder+name, "", -1, "its name has %q where a number is", parts[part])
	}
	return math.MaxInt64 - n, nil
}
