package snapshot

import (
	"context"
	"fmt"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
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

The metadata is: header "md", i64 term, i64 generation, i64 least generation, map generation → term, footer. A checkpoint is: header
"ckp", i64 offset, i32 operations, i64 generation, i64 least and i64 greatest sequence number, …, footer. Longs are little-endian.
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

// openPinned finds the files of a shard at the pinned point in time, and proves that no operation is only in the translog. Errors:
// fault.ErrUnsupported if one is, or if the remote store is not available; fault.ErrCorrupt.
func (s *Shard) openPinned(ctx context.Context, p Pinned) error {
	s.Shallow = true
	doc := &shallow{IndexUUID: p.IndexUUID, Repository: p.Segments, PathType: p.PathType, Algorithm: p.Algorithm}
	store, name, err := s.findPinned(ctx, doc, segments, p.Millis)
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
	searchable, err := strconv.ParseInt(data["max_seq_no"], 10, 64)
	if err != nil {
		return fault.Corrupt(s.Manifest, image.Physical, -1, "the commit has the greatest sequence number %q", data["max_seq_no"])
	}
	translog := &Shard{Index: s.Index, Number: s.Number, repo: from}
	return translog.nothingBeyond(ctx, p, searchable)
}

// findPinned returns the store that holds the shard, and the name of the newest metadata blob at a point in time.
func (s *Shard) findPinned(ctx context.Context, doc *shallow, category string, millis int64) (*place, string, error) {
	for i, r := range s.stores(doc.Repository) {
		p := &place{Repository: r, doc: doc, shard: s.Number, category: category, whole: i > 0}
		if p.whole {
			doc.Base = baseOf(s.stores(doc.Repository)[0])
		}
		var names []string
		folder := p.folder("metadata") + "/"
		for blob, err := range p.List(ctx, folder+"metadata__") {
			if err != nil {
				return nil, "", fmt.Errorf("find the %s of index %s shard %d: %w", category, s.Index, s.Number, err)
			}
			names = append(names, strings.TrimPrefix(blob.Name, folder))
		}
		if len(names) == 0 {
			continue
		}
		slices.Sort(names)
		name, err := newestAt(folder, names, category, millis)
		if name == "" && err == nil {
			err = fault.Corrupt(folder+names[len(names)-1], "", -1, "no metadata of index %s shard %d is as old as the snapshot; the cluster has removed it", s.Index, s.Number)
		}
		return p, name, err
	}
	return nil, "", fmt.Errorf("index %s shard %d: the snapshot pins a moment of the remote store (shallow_snapshot_v2), and its %s are in the repository %q of the cluster; give its location (--remote-store-uri %s=URI), or take a full snapshot (remote_store_index_shallow_copy: false): %w",
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

// maxGenerations bounds the generations of a translog; a cluster keeps a thousand by default.
const maxGenerations = 1 << 16

// nothingBeyond returns fault.ErrUnsupported if the translog has operations beyond a sequence number, which no refresh had made searchable
// when the snapshot was taken.
func (s *Shard) nothingBeyond(ctx context.Context, p Pinned, searchable int64) error {
	store, name, err := s.findPinned(ctx, &shallow{IndexUUID: p.IndexUUID, Repository: p.Translog, PathType: p.PathType, Algorithm: p.Algorithm}, "translog", p.Millis)
	if err != nil {
		return err
	}
	blob := store.folder("metadata") + "/" + name
	var generations map[string]string
	if _, err := readDecoded(ctx, store, blob, maxMetadata, func(b []byte) (err error) {
		if generations, err = parseTranslog(b); err != nil {
			err = inBlob(blob, err)
		}
		return err
	}); err != nil {
		return err
	}
	for generation, term := range generations {
		if !isNumber(generation) || !isNumber(term) {
			return fault.Corrupt(blob, "", -1, "generation %q of term %q", generation, term)
		}
		checkpoint := path.Join(store.folder("data"), term, "translog-"+generation+".ckp")
		var greatest int64
		_, err := readDecoded(ctx, store, checkpoint, maxMetadata, func(b []byte) (err error) {
			if greatest, err = parseCheckpoint(b); err != nil {
				err = inBlob(checkpoint, err)
			}
			return err
		})
		switch {
		case missing(err):
			return fmt.Errorf("index %s shard %d: whether the translog holds documents that were not searchable yet is unknown: its checkpoint %s is missing, or kept in the metadata of an object; take a full snapshot (remote_store_index_shallow_copy: false): %w",
				s.Index, s.Number, checkpoint, fault.ErrUnsupported)
		case err != nil:
			return err
		case greatest > searchable:
			return fmt.Errorf("index %s shard %d: operations %d to %d were not searchable when the snapshot was taken, and are in the translog of the remote store alone (%s); stop writing, refresh the index (POST /%s/_refresh), and take another snapshot, or a full one (remote_store_index_shallow_copy: false): %w",
				s.Index, s.Number, searchable+1, greatest, checkpoint, s.Index, fault.ErrUnsupported)
		}
	}
	return nil
}

func isNumber(text string) bool {
	n, err := strconv.ParseInt(text, 10, 64)
	return err == nil && n >= 0 && strconv.FormatInt(n, 10) == text
}

// parseTranslog returns the generations of a translog and their terms.
func parseTranslog(b []byte) (map[string]string, error) {
	in, err := summed(b, "md", 1, 1)
	if err != nil {
		return nil, err
	}
	in.Take(3 * 8)
	n := in.Count(2)
	if n > maxGenerations {
		in.Fail("%d generations", n)
	}
	all := map[string]string{}
	for range n {
		generation, term := in.String(), in.String()
		if in.Err() != nil {
			break
		}
		all[generation] = term
	}
	return all, in.Err()
}

// parseCheckpoint returns the greatest sequence number of a generation; negative if it has no operation.
func parseCheckpoint(b []byte) (int64, error) {
	in, err := summed(b, "ckp", 4, 5)
	if err != nil {
		return 0, err
	}
	in.Take(8 + 4 + 8 + 8)
	return in.I64(), in.Err()
}

// summed returns the body after the header of a blob, after verifying its checksum; longs in the body are little-endian.
func summed(b []byte, name string, least, most int32) (*codec.Input, error) {
	body, err := checkedBody(b)
	if err != nil {
		return nil, err
	}
	in := codec.NewInput(body)
	if h := in.Header(); in.Err() == nil && (h.Codec != name || h.Version < least || h.Version > most) {
		return nil, fmt.Errorf("codec %q version %d where %s %d to %d is expected: %w", h.Codec, h.Version, name, least, most, fault.ErrUnsupported)
	}
	in.SetLittleEndian(true)
	return in, in.Err()
}
