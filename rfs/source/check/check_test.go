package check

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/repotest"
)

// generations are small repositories made by real clusters.
var generations = []string{"elasticsearch-1.7", "elasticsearch-5.6", "opensearch-2.19"}

func unpack(t *testing.T, name string) (dir string, blobs []string) {
	t.Helper()
	return repotest.Unpack(t, filepath.Join("testdata", name+".zip"))
}

var everything = Subset{1, 1}

// checked runs a check of all snapshots.
func checked(t *testing.T, dir string, s Subset) (Report, error) {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	if err != nil {
		return Report{}, err
	}
	return Run(t.Context(), r, catalog, s, 2, "")
}

func TestWholeRepositoriesHaveNoFindings(t *testing.T) {
	documents := map[string]int64{"elasticsearch-1.7": 10, "elasticsearch-5.6": 10, "opensearch-2.19": 170 + 205} // as the clusters counted
	for _, name := range generations {
		dir, _ := unpack(t, name)
		out, err := checked(t, dir, everything)
		if err != nil || len(out.Findings) != 0 || out.Gravest() != "" {
			t.Errorf("%s: %v, %+v", name, err, out.Findings)
		}
		if out.FilesRead != out.Files || out.Files == 0 || out.Unverified != 0 {
			t.Errorf("%s: %d of %d files read, %d unverified", name, out.FilesRead, out.Files, out.Unverified)
		}
		sum := int64(0)
		for _, s := range out.Snapshots {
			for _, x := range s.Indices {
				sum += x.Documents
			}
		}
		if sum != documents[name] {
			t.Errorf("%s: %d documents, the cluster had %d", name, sum, documents[name])
		}
	}
}

// damages are what becomes of a blob; a nil result deletes it.
var damages = map[string]func([]byte) []byte{
	"deleted":   func([]byte) []byte { return nil },
	"truncated": func(b []byte) []byte { return b[:len(b)/2] },
	"grown":     func(b []byte) []byte { return append(slices.Clone(b), 0) },
	"emptied":   func([]byte) []byte { return []byte{} },
	"flipped": func(b []byte) []byte {
		b = slices.Clone(b)
		b[len(b)/2] ^= 0x10
		return b
	},
}

func TestEveryDamageIsFoundAndNamed(t *testing.T) {
	for _, name := range generations {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, blobs := unpack(t, name)
			referenced := referencedBlobs(t, dir)
			for _, blob := range blobs {
				if !referenced[blob] {
					continue
				}
				whole, err := os.ReadFile(filepath.Join(dir, blob))
				if err != nil {
					t.Fatal(err)
				}
				for kind, damage := range damages {
					b := damage(whole)
					if kind == "flipped" && plainJSON(whole) || kind == "grown" && plainJSON(whole) {
						continue // without any checksum; a changed letter is another name
					}
					if b == nil {
						if err := os.Remove(filepath.Join(dir, blob)); err != nil {
							t.Fatal(err)
						}
					} else {
						repotest.Put(t, dir, blob, b)
					}
					expectDamage(t, dir, blob, kind)
				}
				repotest.Put(t, dir, blob, whole)
			}
			if out, err := checked(t, dir, everything); err != nil || len(out.Findings) != 0 {
				t.Fatalf("the test did not mend what it broke: %v %+v", err, out.Findings)
			}
		})
	}
}

func expectDamage(t *testing.T, dir, blob, kind string) {
	t.Helper()
	out, err := checked(t, dir, everything)
	if err != nil { // the catalog itself
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "index") {
			t.Errorf("%s %s: %v", blob, kind, err)
		}
		return
	}
	named := slices.ContainsFunc(out.Findings, func(f Finding) bool { return f.Kind == Damage && f.Blob == blob })
	if !named || out.Gravest() != Damage {
		t.Errorf("%s %s: gravest %q, findings %+v", blob, kind, out.Gravest(), out.Findings)
	}
}

// plainJSON: catalogs, and all metadata of Elasticsearch 1.x, have no frame.
func plainJSON(b []byte) bool { return json.Valid(b) }

func referencedBlobs(t *testing.T, dir string) map[string]bool {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	k := &checker{repo: r, catalog: catalog, subset: everything, limit: 1, slots: semaphore.NewWeighted(1), present: map[string]int64{},
		referenced: map[string]bool{}, read: map[string]bool{}, unknown: map[string]bool{}}
	if err := k.run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return k.referenced
}

func TestBlobsThatNoSnapshotNeedsAreNamed(t *testing.T) {
	for _, name := range generations {
		dir, _ := unpack(t, name)
		strange := []string{"indices/gone/0/__1", "indices/gone/meta-x.dat", "snap-gone.dat", "tests-abc/master.dat"}
		for _, s := range strange {
			repotest.Put(t, dir, s, []byte("x"))
		}
		out, err := checked(t, dir, everything)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range out.Findings {
			if f.Kind == Unreferenced {
				got = append(got, f.Blob)
			}
		}
		if !slices.Equal(got, strange) || out.Gravest() != Unreferenced {
			t.Errorf("%s: %q, gravest %q", name, got, out.Gravest())
		}
	}
}

// TestWhatAPinnedSnapshotConsistsOfIsNotCalledUnreferenced: its segments, its translog, and the mark that makes the cluster keep them.
func TestWhatAPinnedSnapshotConsistsOfIsNotCalledUnreferenced(t *testing.T) {
	out, err := checked(t, "../../../testing/fixtures/os2.19.4-translog", everything)
	if err != nil || len(out.Findings) != 0 || out.FilesRead != out.Files {
		t.Errorf("%v, %d of %d files read: %+v", err, out.FilesRead, out.Files, out.Findings)
	}
}

func TestLostMetadataMakesNoBlobUnreferenced(t *testing.T) {
	dir, blobs := unpack(t, "opensearch-2.19")
	for _, blob := range blobs {
		if !strings.Contains(blob, "/snap-") && !strings.Contains(blob, "/meta-") && !strings.HasPrefix(blob, "snap-") {
			continue
		}
		path := filepath.Join(dir, blob)
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		out, err := checked(t, dir, Subset{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range out.Findings {
			if f.Kind == Unreferenced && f.Blob != blob+".away" {
				t.Errorf("without %s, %s is called unreferenced", blob, f.Blob)
			}
		}
		if err := os.Rename(path+".away", path); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSubsetsTogetherReadEveryFileOnce(t *testing.T) {
	dir, _ := unpack(t, "elasticsearch-5.6")
	whole, err := checked(t, dir, everything)
	if err != nil {
		t.Fatal(err)
	}
	files, size := 0, int64(0)
	for n := range uint64(3) {
		out, err := checked(t, dir, Subset{n + 1, 3})
		if err != nil || out.FilesRead == 0 || out.FilesRead == out.Files {
			t.Errorf("part %d of 3: %d of %d files, %v", n+1, out.FilesRead, out.Files, err)
		}
		files += out.FilesRead
		size += out.BytesRead
	}
	if files != whole.FilesRead || size != whole.BytesRead {
		t.Errorf("three parts read %d files and %d bytes, one run %d and %d", files, size, whole.FilesRead, whole.BytesRead)
	}
	if out, err := checked(t, dir, Subset{0, 1}); err != nil || out.FilesRead != 0 {
		t.Errorf("part 0 read %d files, %v", out.FilesRead, err)
	}
}

func TestShardsThatAPartialSnapshotLacksAreNoDamage(t *testing.T) {
	dir := t.TempDir()
	repotest.Put(t, dir, "index-3", []byte(`{"snapshots":[{"name":"s","uuid":"u","state":3}],"indices":{"x":{"id":"i","snapshots":["u"]}}}`))
	repotest.Put(t, dir, "index.latest", []byte("too short")[:7])
	repotest.Put(t, dir, "snap-u.dat", repotest.Frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"PARTIAL","indices":["x"],
		"failures":[{"index":"x","shard_id":0,"reason":"node left\nat …"}]}}`))
	repotest.Put(t, dir, "meta-u.dat", repotest.Frame("metadata", `{"meta-data":{}}`))
	repotest.Put(t, dir, "indices/i/meta-u.dat", repotest.Frame("index-metadata", `{"x":{"state":"open","settings":{"index.number_of_shards":"1"}}}`))
	out, err := checked(t, dir, everything)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Findings) != 2 || out.Findings[0].Kind != Incomplete || out.Findings[1].Kind != Notice ||
		!strings.HasSuffix(out.Findings[0].Text, "node left") || out.Gravest() != Incomplete {
		t.Errorf("gravest %q, %+v", out.Gravest(), out.Findings)
	}
	repotest.Put(t, dir, "snap-u.dat", repotest.Frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"SUCCESS","indices":["x"]}}`))
	if out, err = checked(t, dir, everything); err != nil || out.Gravest() != Damage {
		t.Errorf("the snapshot states it has the shard: gravest %q, %v, %+v", out.Gravest(), err, out.Findings)
	}
	for _, state := range []string{"FAILED", "IN_PROGRESS"} {
		repotest.Put(t, dir, "snap-u.dat", repotest.Frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"`+state+`","indices":["x"]}}`))
		if out, err = checked(t, dir, everything); err != nil || out.Gravest() != Incomplete {
			t.Errorf("%s: gravest %q, %v, %+v", state, out.Gravest(), err, out.Findings)
		}
	}
	// What says where the shard lies in a remote store is read like any manifest.
	repotest.Put(t, dir, "indices/i/0/shallow-snap-u.dat", []byte("x"))
	if out, err = checked(t, dir, everything); err != nil || out.Gravest() != Damage || !strings.Contains(out.Findings[0].Text, "shallow-snap-u.dat") {
		t.Errorf("shallow: gravest %q, %v, %+v", out.Gravest(), err, out.Findings)
	}
}

func TestAbsurdNumbersOfPartsGiveFewFindings(t *testing.T) {
	dir := t.TempDir()
	repotest.Put(t, dir, "index", []byte(`{"snapshots":["s"]}`))
	repotest.Put(t, dir, "snapshot-s", []byte(`{"snapshot":{"name":"s","state":"SUCCESS","indices":["x"]}}`))
	repotest.Put(t, dir, "metadata-s", []byte(`{"meta-data":{}}`))
	repotest.Put(t, dir, "indices/x/snapshot-s", []byte(`{"x":{"state":"open","settings":{"index.number_of_shards":"1"}}}`))
	repotest.Put(t, dir, "indices/x/0/snapshot-s", []byte(`{"name":"s","files":[{"name":"__0","physical_name":"segments_1","length":1000000,"part_size":1}]}`))
	repotest.Put(t, dir, "indices/x/0/__0.part999999", []byte("x"))
	out, err := checked(t, dir, everything)
	if err != nil || out.Gravest() != Damage {
		t.Fatal(err, out.Gravest())
	}
	if n := len(out.Findings); n < maxBadParts || n > maxBadParts+1 {
		t.Errorf("%d findings, the last %+v", n, out.Findings[n-1])
	}
}

func TestFilesOfEveryAgeAreJudgedByTheirOwnChecksum(t *testing.T) {
	body := []byte("the body of a file of Lucene")
	footed := append(slices.Clone(body), 0xC0, 0x28, 0x93, 0xE8, 0, 0, 0, 0)
	crc := crc32.ChecksumIEEE(footed)
	footed = binary.BigEndian.AppendUint64(footed, uint64(crc))
	plain := binary.BigEndian.AppendUint64(slices.Clone(body), uint64(crc32.ChecksumIEEE(body)))
	base36 := func(v uint32) string { return strconv.FormatUint(uint64(v), 36) }
	flip := func(b []byte, at int) []byte {
		b = slices.Clone(b)
		b[at] ^= 1
		return b
	}
	for _, c := range []struct {
		name, manifest string
		file           []byte
		want           error // nil, errNoChecksum or fault.ErrCorrupt
	}{
		{"footer and manifest agree", base36(crc), footed, nil},
		{"footer alone", "", footed, nil},
		{"another file of the same form", base36(crc + 1), footed, fault.ErrCorrupt},
		{"a bit of the body", base36(crc), flip(footed, 3), fault.ErrCorrupt},
		{"a bit of the body, footer alone", "", flip(footed, 3), fault.ErrCorrupt},
		{"a bit of the magic", base36(crc), flip(footed, len(body)), fault.ErrCorrupt},
		{"a bit of the checksum", base36(crc), flip(footed, len(footed)-1), fault.ErrCorrupt},
		{"plain checksum of segments_N before Lucene 4.8", "", plain, nil},
		{"Adler-32 of Elasticsearch before 1.3", base36(adler32.Checksum(body)), body, nil},
		{"Adler-32 of other bytes", base36(adler32.Checksum(body)), flip(body, 0), fault.ErrCorrupt},
		{"no checksum at all", "", body, errNoChecksum},
		{"empty", "", nil, errNoChecksum},
		{"shorter than a checksum", "", body[:5], errNoChecksum},
		{"a checksum that is not a number", "!", footed, fault.ErrCorrupt},
	} {
		shard, dir := oneFile(t, c.manifest, c.file)
		f, err := dir.Open("_0.fdt")
		if err != nil {
			t.Fatal(err)
		}
		if err := verifyFile(t.Context(), f, shard.Files[0].Checksum); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, wanted %v", c.name, err, c.want)
		}
	}
}

// oneFile is a shard of one file.
func oneFile(t *testing.T, checksum string, file []byte) (*snapshot.Shard, lucene.Directory) {
	t.Helper()
	dir := t.TempDir()
	repotest.Put(t, dir, "indices/i/0/__0", file)
	manifest := fmt.Sprintf(`{"files":[{"name":"__0","physical_name":"_0.fdt","length":%d,"checksum":%q}]}`, len(file), checksum)
	repotest.Put(t, dir, "indices/i/0/snap-u.dat", repotest.Frame("snapshot", manifest))
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	s, err := snapshot.OpenShard(t.Context(), r, snapshot.Locator{SnapshotUUID: "u", IndexID: "i"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Directory()
}

// TestCheck_CountsMissingBlobsApart takes each blob away in turn: those that are referenced and there are never more than there are.
func TestCheck_CountsMissingBlobsApart(t *testing.T) {
	dir, blobs := unpack(t, "opensearch-2.19")
	whole, err := checked(t, dir, Subset{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for _, blob := range blobs {
		if !strings.Contains(blob, "/__") {
			continue
		}
		path := filepath.Join(dir, blob)
		if err := os.Rename(path, filepath.Join(t.TempDir(), "away")); err != nil {
			t.Fatal(err)
		}
		missing++
		out, err := checked(t, dir, Subset{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		if out.Blobs != whole.Blobs-missing || out.Referenced != whole.Referenced-missing || out.Missing != missing || out.Referenced > out.Blobs {
			t.Errorf("without %d blobs: %d of %d are referenced, %d missing", missing, out.Referenced, out.Blobs, out.Missing)
		}
	}
	if missing == 0 {
		t.Error("the repository has no blob of data")
	}
}
