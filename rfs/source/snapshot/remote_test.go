package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// shallowRepositories are real ones, each sharing its place with the remote store of its cluster.
func shallowRepositories(t testing.TB) map[string]memory {
	t.Helper()
	dirs, err := filepath.Glob("../../../testing/fixtures/*-shallow*/index.latest")
	if err != nil || len(dirs) < 4 {
		t.Fatalf("%d repositories with shallow snapshots: %v", len(dirs), err)
	}
	out := map[string]memory{}
	for _, latest := range dirs {
		dir := filepath.Dir(latest)
		m := memory{}
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			rel, _ := filepath.Rel(dir, path)
			m[filepath.ToSlash(rel)], err = os.ReadFile(path)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(dir)] = m
	}
	return out
}

var remoteFile = regexp.MustCompile(`/segments/(data|metadata|lock_files)/`)

// apart separates a repository from the remote store in it.
func apart(m memory) (own, remote memory) {
	own, remote = memory{}, memory{}
	for name, b := range m {
		if remoteFile.MatchString(name) {
			remote[name] = b
		} else {
			own[name] = b
		}
	}
	return own, remote
}

// federated is a repository that knows a remote store by name.
type federated struct {
	memory
	name   string
	remote memory
}

func (f federated) Remote(name string) (repo.Repository, bool) {
	return whole{f.remote}, name == f.name
}

func eachShard(t *testing.T, r Repository, yield func(loc Locator, shard int)) {
	t.Helper()
	c, err := OpenCatalog(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range c.Snapshots {
		s, err := c.Snapshot(t.Context(), ref.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range s.Indices {
			x, err := s.Index(t.Context(), i.Name)
			if err != nil {
				t.Fatal(err)
			}
			for n := range x.NumShards {
				yield(x.Locator, n)
			}
		}
	}
}

func liveDocs(t *testing.T, s *Shard) int64 {
	t.Helper()
	c, err := lucene.Open(t.Context(), s.Directory(), lucene.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c.LiveDocs
}

func TestAShallowSnapshotIsReadFromTheRemoteStoreWhereverThatIs(t *testing.T) {
	for name, m := range shallowRepositories(t) {
		own, remote := apart(m)
		docs := int64(0)
		eachShard(t, m, func(loc Locator, n int) {
			within, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			elsewhere, err := OpenShard(t.Context(), federated{own, "segments", remote}, loc, n)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if !within.Shallow || len(within.Files) == 0 || !reflect.DeepEqual(within.Files, elsewhere.Files) {
				t.Errorf("%s shard %d: %d files within, %d elsewhere", name, n, len(within.Files), len(elsewhere.Files))
			}
			if a, b := liveDocs(t, within), liveDocs(t, elsewhere); a != b {
				t.Errorf("%s shard %d: %d documents within, %d elsewhere", name, n, a, b)
			} else {
				docs += a
			}
			for _, f := range within.Files {
				if _, err := crcOf(t.Context(), elsewhere, f.Name); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
			for _, r := range []Repository{own, federated{own, "another", remote}} {
				_, err := OpenShard(t.Context(), r, loc, n)
				if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), "--remote-store-uri segments=URI") || !strings.Contains(err.Error(), "full snapshot") {
					t.Errorf("%s without its remote store: %v", name, err)
				}
			}
		})
		if docs == 0 {
			t.Errorf("%s: no document", name)
		}
	}
}

func TestTheLockSaysWhichMetadataASnapshotHolds(t *testing.T) {
	for name, m := range shallowRepositories(t) {
		eachShard(t, m, func(loc Locator, n int) {
			want, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			// A newer metadata blob of the same commit that lists nothing of use.
			var locked, newer string
			for blob := range m {
				if at, ok := strings.CutSuffix(blob, "..."+loc.SnapshotUUID+".v2_lock"); ok && strings.Contains(blob, "/"+string(rune('0'+n))+"/segments/") {
					locked = at[strings.LastIndex(at, "/")+1:]
				}
			}
			for blob := range m {
				if strings.HasSuffix(blob, "/"+locked) {
					f := strings.Split(locked, "__")
					f[3] = strings.Repeat("0", 19)
					newer = strings.TrimSuffix(blob, locked) + strings.Join(f, "__")
				}
			}
			if locked == "" || newer == "" {
				t.Fatalf("%s shard %d: lock %q, metadata %q", name, n, locked, newer)
			}
			got, err := OpenShard(t.Context(), m.with(newer, []byte("not to be read")), loc, n)
			if err != nil || !reflect.DeepEqual(got.Files, want.Files) {
				t.Errorf("%s shard %d: %v", name, n, err)
			}
			unlocked := maps.Clone(m)
			for blob := range m {
				if strings.HasSuffix(blob, "_lock") {
					delete(unlocked, blob)
				}
			}
			got, err = OpenShard(t.Context(), unlocked, loc, n)
			if err != nil || !reflect.DeepEqual(got.Files, want.Files) {
				t.Errorf("%s shard %d without locks: %v", name, n, err)
			}
		})
	}
}

// metadataBlobs returns the metadata of the remote store.
func metadataBlobs(m memory) (names []string) {
	for name := range m {
		if strings.Contains(name, "/segments/metadata/") {
			names = append(names, name)
		}
	}
	return names
}

func TestACommitThatIsNoFileIsTakenFromTheMetadata(t *testing.T) {
	images := 0
	for repository, m := range shallowRepositories(t) {
		for _, name := range metadataBlobs(m) {
			files, image, err := parseSegmentMetadata(m[name])
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			generation, err := strconv.ParseInt(strings.Split(name[strings.LastIndex(name, "/"):], "__")[2], 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			doc := &shallow{Generation: math.MaxInt64 - generation}
			for f := range files {
				if !strings.HasPrefix(f, "segments_") {
					doc.Files = append(doc.Files, f)
				}
			}
			entries, err := readSegmentMetadata(t.Context(), m, name, doc)
			if err != nil {
				t.Fatal(err)
			}
			last := entries[len(entries)-1]
			if len(entries) != len(doc.Files)+1 || last.Physical != fmt.Sprintf("segments_%d", doc.Generation) || !bytes.Equal(last.MetaHash, image) {
				t.Errorf("%s: %+v", name, last)
			}
			path := strings.Replace(name, "/metadata/", "/data/", 1)
			s := &Shard{Path: path[:strings.LastIndex(path, "/")], Manifest: name, repo: m}
			if h := strings.SplitN(s.Path, "/", 2)[0]; len(h) == 15 && len(files) > 0 { // hashed: find the folder by a file
				for blob := range m {
					if strings.HasSuffix(blob, "/"+entries[0].Name) {
						s.Path = blob[:strings.LastIndex(blob, "/")]
					}
				}
			}
			if err := s.addFiles(entries); err != nil {
				t.Fatal(err)
			}
			if len(doc.Files) > 0 {
				complete := true
				for _, e := range entries[:len(entries)-1] {
					complete = complete && m[s.Path+"/"+e.Name] != nil // older blobs are swept
				}
				if complete && liveDocs(t, s) > 0 {
					images++
				}
			}
		}
		if images == 0 {
			t.Errorf("%s: no image was read", repository)
		}
	}
}

func TestEveryChangedByteOfSegmentMetadataIsDamage(t *testing.T) {
	for _, m := range shallowRepositories(t) {
		name := metadataBlobs(m)[0]
		for i := range m[name] {
			b := bytes.Clone(m[name])
			b[i] ^= 0x20
			if _, _, err := parseSegmentMetadata(b); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("byte %d: %v", i, err)
			}
		}
		for n := range m[name] {
			if _, _, err := parseSegmentMetadata(m[name][:n]); !errors.Is(err, fault.ErrCorrupt) {
				t.Fatalf("cut at %d: %v", n, err)
			}
		}
	}
}

func TestFoldersOfARemoteStore(t *testing.T) {
	for _, c := range []struct {
		pathType, algorithm int
		base                string
		whole               bool
		want                string
	}{
		{pathFixed, 0, "", false, "SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathFixed, 0, "a/b/", false, "SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathFixed, 0, "a/b/", true, "a/b/SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathHashedPrefix, hashComposite, "a/b/", true, "u00000001111111/a/b/SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathHashedInfix, hashComposite, "a/b/", true, "a/b/u00000001111111/SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathHashedInfix, hashComposite, "a/b/", false, "u00000001111111/SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathFixed, 0, "", true, "SmFAZ1euRxGGCYnyePenIw/1/segments/data"},
		{pathHashedPrefix, 7, "", false, ""},
	} {
		p := &place{doc: &shallow{IndexUUID: "SmFAZ1euRxGGCYnyePenIw", Base: c.base, PathType: c.pathType, Algorithm: c.algorithm}, shard: 1, category: segments, whole: c.whole}
		if got := p.folder("data"); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}

// resealed makes the checksum in the footer right again, so that damage reaches the parser.
func resealed(b []byte) []byte {
	if len(b) < footerSize {
		return b
	}
	b = bytes.Clone(b)
	end := len(b) - footerSize
	binary.BigEndian.PutUint32(b[end:], footerMagic)
	binary.BigEndian.PutUint64(b[end+8:], uint64(crc32.ChecksumIEEE(b[:end+8])))
	return b
}

func FuzzSegmentMetadata(f *testing.F) {
	for _, m := range shallowRepositories(f) {
		for _, name := range metadataBlobs(m)[:2] {
			f.Add(m[name])
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		_, _, err := parseSegmentMetadata(resealed(b))
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
			t.Errorf("error without a category: %v", err)
		}
	})
}
