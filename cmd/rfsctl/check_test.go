package main

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/adler32"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/exit"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// generations are small repositories made by real clusters.
var generations = []string{"elasticsearch-1.7", "elasticsearch-5.6", "opensearch-2.19"}

// unpack returns the folder of a repository of testdata and the names of its blobs.
func unpack(t *testing.T, name string) (dir string, blobs []string) {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join("testdata", name+".zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir = t.TempDir()
	for _, f := range z.File {
		if f.FileInfo().IsDir() {
			continue
		}
		in, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		put(t, dir, f.Name, b)
		blobs = append(blobs, f.Name)
	}
	slices.Sort(blobs)
	return dir, blobs
}

func put(t *testing.T, dir, name string, b []byte) {
	t.Helper()
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// check runs a whole check of all snapshots.
func check(t *testing.T, dir string, s subset) (checked, error) {
	t.Helper()
	r, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	catalog, err := snapshot.OpenCatalog(t.Context(), r)
	if err != nil {
		return checked{}, err
	}
	return newChecker(r, catalog, s, 2).run(t.Context(), "")
}

var everything = subset{1, 1}

func TestWholeRepositoriesHaveNoFindings(t *testing.T) {
	documents := map[string]int64{"elasticsearch-1.7": 10, "elasticsearch-5.6": 10, "opensearch-2.19": 170 + 205} // as the clusters counted
	for _, name := range generations {
		dir, _ := unpack(t, name)
		out, err := check(t, dir, everything)
		if err != nil || len(out.Findings) != 0 || out.exitCode() != exit.OK {
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
						put(t, dir, blob, b)
					}
					expectDamage(t, dir, blob, kind)
				}
				put(t, dir, blob, whole)
			}
			if out, err := check(t, dir, everything); err != nil || len(out.Findings) != 0 {
				t.Fatalf("the test did not mend what it broke: %v %+v", err, out.Findings)
			}
		})
	}
}

func expectDamage(t *testing.T, dir, blob, kind string) {
	t.Helper()
	out, err := check(t, dir, everything)
	if err != nil { // the catalog itself
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "index") {
			t.Errorf("%s %s: %v", blob, kind, err)
		}
		return
	}
	named := slices.ContainsFunc(out.Findings, func(f finding) bool { return f.Kind == kindDamage && f.Blob == blob })
	if !named || out.exitCode() != exit.Snapshot {
		t.Errorf("%s %s: exit code %d, findings %+v", blob, kind, out.exitCode(), out.Findings)
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
	k := newChecker(r, catalog, everything, 1)
	if _, err := k.run(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	return k.referenced
}

func TestBlobsThatNoSnapshotNeedsAreNamed(t *testing.T) {
	for _, name := range generations {
		dir, _ := unpack(t, name)
		strange := []string{"indices/gone/0/__1", "indices/gone/meta-x.dat", "snap-gone.dat", "tests-abc/master.dat"}
		for _, s := range strange {
			put(t, dir, s, []byte("x"))
		}
		out, err := check(t, dir, everything)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, f := range out.Findings {
			if f.Kind == kindUnreferenced {
				got = append(got, f.Blob)
			}
		}
		if !slices.Equal(got, strange) || out.exitCode() != exit.OK {
			t.Errorf("%s: %q, exit code %d", name, got, out.exitCode())
		}
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
		out, err := check(t, dir, subset{0, 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range out.Findings {
			if f.Kind == kindUnreferenced && f.Blob != blob+".away" {
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
	whole, err := check(t, dir, everything)
	if err != nil {
		t.Fatal(err)
	}
	files, size := 0, int64(0)
	for n := range uint64(3) {
		out, err := check(t, dir, subset{n + 1, 3})
		if err != nil || out.FilesRead == 0 || out.FilesRead == out.Files {
			t.Errorf("part %d of 3: %d of %d files, %v", n+1, out.FilesRead, out.Files, err)
		}
		files += out.FilesRead
		size += out.BytesRead
	}
	if files != whole.FilesRead || size != whole.BytesRead {
		t.Errorf("three parts read %d files and %d bytes, one run %d and %d", files, size, whole.FilesRead, whole.BytesRead)
	}
	if out, err := check(t, dir, subset{0, 1}); err != nil || out.FilesRead != 0 {
		t.Errorf("part 0 read %d files, %v", out.FilesRead, err)
	}
	for _, bad := range []string{"", "1", "2/1", "1/0", "-1/2", "a/b", "1/2/3", "99999999999/99999999999"} {
		part, _ := config.Find(config.Settings(config.CheckSnapshots{}), "read-data-subset")
		if err := part.Valid([]string{bad}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("--read-data-subset %q: %v", bad, err)
		}
	}
}

// frame is the metadata form of Elasticsearch 2.0 and later around JSON.
func frame(codec, payload string) []byte {
	b := []byte{0x3F, 0xD7, 0x6C, 0x17, byte(len(codec))}
	b = append(append(b, codec...), 0, 0, 0, 1)
	b = append(append(b, payload...), 0xC0, 0x28, 0x93, 0xE8, 0, 0, 0, 0)
	return binary.BigEndian.AppendUint64(b, uint64(crc32.ChecksumIEEE(b)))
}

func TestShardsThatAPartialSnapshotLacksAreNoDamage(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "index-3", []byte(`{"snapshots":[{"name":"s","uuid":"u","state":3}],"indices":{"x":{"id":"i","snapshots":["u"]}}}`))
	put(t, dir, "index.latest", []byte("too short")[:7])
	put(t, dir, "snap-u.dat", frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"PARTIAL","indices":["x"],
		"failures":[{"index":"x","shard_id":0,"reason":"node left\nat …"}]}}`))
	put(t, dir, "meta-u.dat", frame("metadata", `{"meta-data":{}}`))
	put(t, dir, "indices/i/meta-u.dat", frame("index-metadata", `{"x":{"state":"open","settings":{"index.number_of_shards":"1"}}}`))
	out, err := check(t, dir, everything)
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Findings) != 2 || out.Findings[0].Kind != kindIncomplete || out.Findings[1].Kind != kindNotice ||
		!strings.HasSuffix(out.Findings[0].Text, "node left") || out.exitCode() != exit.Parts {
		t.Errorf("exit code %d, %+v", out.exitCode(), out.Findings)
	}
	put(t, dir, "snap-u.dat", frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"SUCCESS","indices":["x"]}}`))
	if out, err = check(t, dir, everything); err != nil || out.exitCode() != exit.Snapshot {
		t.Errorf("the snapshot states it has the shard: exit code %d, %v, %+v", out.exitCode(), err, out.Findings)
	}
	for _, state := range []string{"FAILED", "IN_PROGRESS"} {
		put(t, dir, "snap-u.dat", frame("snapshot", `{"snapshot":{"name":"s","uuid":"u","state":"`+state+`","indices":["x"]}}`))
		if out, err = check(t, dir, everything); err != nil || out.exitCode() != exit.Parts {
			t.Errorf("%s: exit code %d, %v, %+v", state, out.exitCode(), err, out.Findings)
		}
	}
	// What says where the shard lies in a remote store is read like any manifest.
	put(t, dir, "indices/i/0/shallow-snap-u.dat", []byte("x"))
	if out, err = check(t, dir, everything); err != nil || out.exitCode() != exit.Snapshot || !strings.Contains(out.Findings[0].Text, "shallow-snap-u.dat") {
		t.Errorf("shallow: exit code %d, %v, %+v", out.exitCode(), err, out.Findings)
	}
}

func TestAbsurdNumbersOfPartsGiveFewFindings(t *testing.T) {
	dir := t.TempDir()
	put(t, dir, "index", []byte(`{"snapshots":["s"]}`))
	put(t, dir, "snapshot-s", []byte(`{"snapshot":{"name":"s","state":"SUCCESS","indices":["x"]}}`))
	put(t, dir, "metadata-s", []byte(`{"meta-data":{}}`))
	put(t, dir, "indices/x/snapshot-s", []byte(`{"x":{"state":"open","settings":{"index.number_of_shards":"1"}}}`))
	put(t, dir, "indices/x/0/snapshot-s", []byte(`{"name":"s","files":[{"name":"__0","physical_name":"segments_1","length":1000000,"part_size":1}]}`))
	put(t, dir, "indices/x/0/__0.part999999", []byte("x"))
	out, err := check(t, dir, everything)
	if err != nil || out.exitCode() != exit.Snapshot {
		t.Fatal(err, out.exitCode())
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
	put(t, dir, "indices/i/0/__0", file)
	manifest := fmt.Sprintf(`{"files":[{"name":"__0","physical_name":"_0.fdt","length":%d,"checksum":%q}]}`, len(file), checksum)
	put(t, dir, "indices/i/0/snap-u.dat", frame("snapshot", manifest))
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

func TestCommandsGiveTheirExitCodesAndForms(t *testing.T) {
	dir, blobs := unpack(t, "opensearch-2.19")
	try := func(want exit.Code, args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		args = append([]string{"rfsctl", "snapshot"}, args...)
		if code := run(t.Context(), args, &stdout, &stderr); code != want {
			t.Errorf("%q: exit code %d\n%s%s", args, code, stdout.String(), stderr.String())
		}
		return stdout.String()
	}
	var list struct {
		Snapshots []struct {
			Name    string
			Indices []string
		}
	}
	if err := outputtest.Decode(try(0, "list", "--repo-uri", dir, "--output", "json"), &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Snapshots) != 2 || !slices.Equal(list.Snapshots[0].Indices, []string{"hp", "hp2"}) {
		t.Errorf("list: %+v", list)
	}
	if table := try(0, "list", "--repo-uri", "file://"+dir); !strings.Contains(table, "SUCCESS") {
		t.Errorf("list: %s", table)
	}
	if table := try(0, "show", "--repo-uri", dir, "--snapshot-name", "snap-1"); !strings.Contains(table, "Lucene90StoredFields") {
		t.Errorf("show: %s", table)
	}
	try(1, "show", "--repo-uri", dir, "--snapshot-name", "none")
	try(1, "check", "--repo-uri", dir, "--snapshot-name", "none")
	try(1, "check", "--repo-uri", dir, "--read-data-subset", "all")
	try(1, "check", "--repo-uri", filepath.Join(dir, "indices"))
	try(1, "list", "--repo-uri", dir, "--output", "xml")
	try(1, "list")
	if table := try(0, "check", "--repo-uri", dir); !strings.HasSuffix(table, "0 findings\n") {
		t.Errorf("check: %s", table)
	}
	var out checked
	if err := outputtest.Decode(try(0, "check", "--repo-uri", dir, "--output", "json", "--snapshot-name", "snap-2"), &out); err != nil {
		t.Fatal(err)
	}
	if len(out.Snapshots) != 1 || len(out.Findings) != 0 || out.FilesRead == 0 {
		t.Errorf("check: %+v", out)
	}
	put(t, dir, "strange", []byte("x"))
	try(exit.OK, "check", "--repo-uri", dir)
	put(t, dir, blobs[slices.IndexFunc(blobs, func(s string) bool { return strings.Contains(s, "/__") })], []byte("short"))
	try(exit.Snapshot, "check", "--repo-uri", dir)
	put(t, dir, "index-9", []byte("{"))
	try(exit.Snapshot, "check", "--repo-uri", dir)
}

func TestBundledSnapshotsAreWholeButForWhatTheySayTheyLack(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join("..", "..", "testing", "fixtures", "*", "index.latest"))
	if err != nil || len(dirs) == 0 {
		t.Fatalf("no bundled snapshots: %v", err)
	}
	lacking := 0
	for _, latest := range dirs {
		dir := filepath.Dir(latest)
		out, err := check(t, dir, everything)
		if err != nil {
			t.Fatal(err)
		}
		want := exit.OK
		for _, s := range out.Snapshots {
			if s.State != string(snapshot.Success) {
				want = exit.Parts
				lacking++
				show(t, dir, s.Name)
			}
		}
		if out.exitCode() != want {
			t.Errorf("%s: exit code %d, %+v", dir, out.exitCode(), out.Findings)
		}
	}
	if lacking == 0 {
		t.Error("no snapshot lacked a shard")
	}
}

// show demands that a snapshot that lacks shards can be shown, and that it says which.
func show(t *testing.T, dir, name string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	if code := run(t.Context(), []string{"rfsctl", "snapshot", "show", "--repo-uri", dir, "--snapshot-name", name}, &stdout, &stderr); code != 0 {
		t.Errorf("show %s of %s: exit code %d, %s%s", name, dir, code, stdout.String(), stderr.String())
	}
	if !strings.Contains(stdout.String(), "not in the snapshot: ") {
		t.Errorf("show %s of %s does not say what is missing:\n%s", name, dir, stdout.String())
	}
}
