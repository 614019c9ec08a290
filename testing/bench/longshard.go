package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// repeats is a source whose segments a long shard contains several times.
type repeats struct {
	s      *source
	index  string
	copies int
}

// longShard creates a repository in dir whose only shard contains the segments of several sources, each repeated under different names,
// evenly mixed. The blobs are links to the sources' blobs, so they take no space. The first source, which has one index with one shard,
// provides catalog and metadata. All sources are of Lucene 8.6 to 8.11.
func longShard(ctx context.Context, dir string, of ...repeats) (*source, error) {
	long := *of[0].s
	long.Repo, long.Documents, long.Bytes = dir, 0, 0
	l := &longCommit{}
	parts := make([][]storedShard, len(of))
	for i, r := range of {
		var err error
		if parts[i], err = openStored(ctx, r.s.Repo, r.index); err != nil {
			return nil, err
		}
		long.Documents += r.s.Documents * r.copies
		long.Bytes += r.s.Bytes * int64(r.copies)
	}
	most := 0
	for _, r := range of {
		most = max(most, r.copies)
	}
	for round := range most {
		for i, r := range of {
			if (round+1)*r.copies/most > round*r.copies/most {
				for _, shard := range parts[i] {
					if err := l.add(shard); err != nil {
						return nil, err
					}
				}
			}
		}
	}
	home := parts[0][0]
	if err := os.CopyFS(dir, rootOnly{os.DirFS(of[0].s.Repo)}); err != nil {
		return nil, err
	}
	to := filepath.Join(dir, home.shard.Path)
	for _, name := range []string{filepath.Dir(to), to} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			return nil, err
		}
	}
	if err := link(filepath.Dir(filepath.Join(of[0].s.Repo, home.shard.Path)), filepath.Dir(to), "meta-"); err != nil {
		return nil, err
	}
	for i, r := range of {
		for _, shard := range parts[i] {
			if err := link(filepath.Join(r.s.Repo, shard.shard.Path), to, documentBlobs); err != nil {
				return nil, err
			}
		}
	}
	manifest, err := l.manifest(home)
	if err != nil {
		return nil, err
	}
	return &long, os.WriteFile(filepath.Join(dir, home.shard.Manifest), manifest, 0o644)
}

// rootOnly is a repository's file system without the indices.
type rootOnly struct{ fs.FS }

func (r rootOnly) ReadDir(name string) ([]fs.DirEntry, error) {
	all, err := fs.ReadDir(r.FS, name)
	if name != "." {
		return all, err
	}
	var kept []fs.DirEntry
	for _, e := range all {
		if !e.IsDir() {
			kept = append(kept, e)
		}
	}
	return kept, err
}

// storedShard is a shard of a source with its commit.
type storedShard struct {
	shard  *snapshot.Shard
	commit []byte
}

// openStored opens the shards of an index of a source.
func openStored(ctx context.Context, root, name string) (all []storedShard, err error) {
	blobs, err := repo.NewDir(root)
	if err != nil {
		return nil, err
	}
	index, err := indexOf(ctx, blobs, name)
	if err != nil {
		return nil, err
	}
	for n := range index.NumShards {
		shard, err := snapshot.OpenShard(ctx, blobs, index.Locator, n)
		if err != nil {
			return nil, err
		}
		s := storedShard{shard: shard}
		for _, f := range shard.Files {
			if strings.HasPrefix(f.Name, "segments_") {
				s.commit = f.Contents
			}
		}
		if s.commit == nil {
			return nil, fmt.Errorf("%s: shard %d has no commit in its list", root, n)
		}
		all = append(all, s)
	}
	return all, nil
}

// firstName is the number in the name of the first segment. All names have the same length, so that they sort in numeric order.
const firstName = 36 * 36 * 36 * 36

// longCommit is the commit of a long shard under construction.
type longCommit struct {
	segments bytes.Buffer // entries of the segments
	count    int
	files    []map[string]any
}

// add adds the segments of a shard under new names, which increase with each call.
func (l *longCommit) add(s storedShard) error {
	in := codec.NewInput(s.commit)
	if h := in.Header(); h.Version != 10 {
		return fmt.Errorf("%s: a commit of format %d instead of 10", s.shard.Path, h.Version)
	}
	in.Take(16)
	in.Take(int(in.U8()))
	for range 4 { // version of Lucene, and the one that created the index
		in.VInt()
	}
	in.I64()
	in.VLong()
	segments := in.I32()
	for range 3 {
		in.VInt()
	}
	names := map[string]string{}
	for range segments {
		if in.Err() != nil {
			return in.Err()
		}
		old := in.String()
		name := "_" + strconv.FormatInt(firstName+int64(l.count), 36)
		l.count++
		names[old] = name
		l.string(name)
		from := in.Pos()
		in.Take(16)
		_ = in.String()
		in.Take(8 + 4 + 8 + 8 + 4) // generations and counts of deletions
		if in.U8() == 1 {
			in.Take(16)
		}
		l.segments.Write(s.commit[from:in.Pos()])
		l.set(in, old, name)
		n := in.I32()
		l.segments.Write(binary.BigEndian.AppendUint32(nil, uint32(n)))
		for range n {
			l.segments.Write(in.Take(4))
			l.set(in, old, name)
		}
	}
	for _, f := range s.shard.Files {
		of, rest := f.Name, ""
		if i := strings.IndexAny(f.Name[1:], "._"); i >= 0 {
			of, rest = f.Name[:i+1], f.Name[i+1:]
		}
		if name, ok := names[of]; ok {
			l.file(f, name+rest)
		}
	}
	return in.Err()
}

// set copies a set of file names of a segment.
func (l *longCommit) set(in *codec.Input, old, name string) {
	all := in.Strings(false)
	l.vint(len(all))
	for _, file := range all {
		l.string(name + strings.TrimPrefix(file, old))
	}
}

func (l *longCommit) string(s string) {
	l.vint(len(s))
	l.segments.WriteString(s)
}

func (l *longCommit) vint(n int) { l.segments.Write(binary.AppendUvarint(nil, uint64(n))) }

// file adds a file to the manifest.
func (l *longCommit) file(f snapshot.File, name string) {
	entry := map[string]any{"name": f.Blob, "physical_name": name, "length": f.Length, "checksum": f.Checksum, "written_by": "8.7.0"}
	if f.PartSize > 0 {
		entry["part_size"] = f.PartSize
	}
	if f.Contents != nil {
		entry["meta_hash"] = base64.StdEncoding.EncodeToString(f.Contents)
	}
	l.files = append(l.files, entry)
}

// manifest returns the shard's manifest, including the commit, as a blob.
func (l *longCommit) manifest(home storedShard) ([]byte, error) {
	const name = "segments_1"
	in := codec.NewInput(home.commit)
	in.Header()
	from := in.Pos()
	in.Take(16)
	commit := append(framed("segments", 10), home.commit[from:in.Pos()]...)
	commit = append(commit, 1, '1', 8, 7, 0, 8) // suffix; versions
	commit = binary.BigEndian.AppendUint64(commit, 1)
	commit = binary.AppendUvarint(commit, uint64(l.count))
	commit = binary.BigEndian.AppendUint32(commit, uint32(l.count))
	commit = append(commit, 8, 7, 0) // the lowest version of a segment
	commit = append(commit, l.segments.Bytes()...)
	commit = sealed(append(commit, 0)) // without user data
	l.file(snapshot.File{Blob: "v__commit", Length: int64(len(commit)), Checksum: strconv.FormatUint(uint64(binary.BigEndian.Uint32(commit[len(commit)-4:])), 36), Contents: commit}, name)
	list, err := json.Marshal(map[string]any{"name": snapshotName, "files": l.files})
	return sealed(append(framed("snapshot", 1), list...)), err
}

// framed returns the header of a Lucene file or a metadata blob.
func framed(name string, version byte) []byte {
	return append(append([]byte{0x3f, 0xd7, 0x6c, 0x17, byte(len(name))}, name...), 0, 0, 0, version)
}

// sealed adds the footer of a Lucene file or a metadata blob.
func sealed(b []byte) []byte {
	b = append(b, 0xc0, 0x28, 0x93, 0xe8, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
}
