package snapshot

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// readThrough reads a repository as a migration does, and every file with its checksum.
func readThrough(t *testing.T, r Repository, name string) error {
	t.Helper()
	c, err := OpenCatalog(t.Context(), r)
	if err != nil {
		return err
	}
	s, err := c.Snapshot(t.Context(), name)
	if err != nil {
		return err
	}
	if _, err := s.Global(t.Context()); err != nil {
		return err
	}
	for _, ref := range s.Indices {
		x, err := s.Index(t.Context(), ref.Name)
		if err != nil {
			return err
		}
		for n := range x.NumShards {
			shard, err := OpenShard(t.Context(), r, x.Locator, n)
			if err != nil {
				return err
			}
			for _, f := range shard.Files {
				if _, err := crcOf(t.Context(), shard, f.Name); err != nil {
					return fmt.Errorf("%s: %w", shard.Path+"/"+f.Blob, err)
				}
			}
		}
	}
	return nil
}

// TestEveryDamageIsATypedErrorThatNamesTheBlob is the table of damages by kind of blob;
// testing/corrupt sweeps all bytes.
func TestEveryDamageIsATypedErrorThatNamesTheBlob(t *testing.T) {
	m := realRepositories(t)["os2.19.4-hashed-path"]
	loc, folder := hashedShard(t, m)
	shard, err := OpenShard(t.Context(), m, loc, 1)
	if err != nil {
		t.Fatal(err)
	}
	data := ""
	for _, f := range shard.Files {
		if !f.Virtual() && f.Length > 1000 {
			data = folder + "/" + f.Blob
		}
	}
	snapshot, global := "snap-"+loc.SnapshotUUID+".dat", "meta-"+loc.SnapshotUUID+".dat"
	const none, corrupt, warned = "fine", "corrupt", "warning"
	for _, c := range []struct {
		blob                       string
		gone, short, flipped, swap string
	}{
		{"index-1", corrupt, corrupt, corrupt, corrupt},
		{"index.latest", none, warned, warned, warned},
		{snapshot, corrupt, corrupt, corrupt, corrupt},
		{global, corrupt, corrupt, corrupt, corrupt},
		{loc.MetaBlob, corrupt, corrupt, corrupt, corrupt},
		{shard.Manifest, none, corrupt, corrupt, corrupt}, // the list of all snapshots stands in
		{shard.Path + "/index-" + loc.Generations[1], none, none, none, none},
		{data, corrupt, corrupt, corrupt, corrupt},
	} {
		b := m[c.blob]
		if len(b) == 0 {
			t.Fatalf("no blob %s", c.blob)
		}
		flipped := append([]byte{}, b...)
		flipped[len(b)/2] ^= 0x10
		if c.blob == "index-1" { // plain text: a flip that still is JSON cannot be seen there
			flipped[0] ^= 0x10
		}
		for what, d := range map[string]struct {
			repository memory
			want       string
		}{
			"gone": {m.without(c.blob), c.gone}, "short": {m.with(c.blob, b[:len(b)-1]), c.short},
			"flipped": {m.with(c.blob, flipped), c.flipped}, "another blob": {m.with(c.blob, m["snapshot_shard_paths/"]), c.swap},
		} {
			if what == "another blob" {
				d.repository[c.blob] = m[other(c.blob, snapshot, loc.MetaBlob)]
			}
			err := readThrough(t, d.repository, "snap-2")
			switch {
			case d.want == corrupt:
				if !errors.Is(err, fault.ErrCorrupt) && !strings.Contains(fmt.Sprint(err), "footer") || !strings.Contains(fmt.Sprint(err), c.blob) {
					t.Errorf("%s %s: %v", c.blob, what, err)
				}
			case err != nil:
				t.Errorf("%s %s: %v", c.blob, what, err)
			case d.want == warned:
				if c, err := OpenCatalog(t.Context(), d.repository); err != nil || len(c.Warnings) == 0 {
					t.Errorf("index.latest %s: no warning, %v", what, err)
				}
			}
		}
	}
}

// other is a whole, valid blob that does not belong there.
func other(blob, a, b string) string {
	if blob == a {
		return b
	}
	return a
}

func TestManifestsThatLeadAstrayAreCorrupt(t *testing.T) {
	file := func(f string) string { return `{"name":"snap1","files":[` + f + `]}` }
	for _, c := range []struct{ name, in string }{
		{"blob in another folder", file(`{"name":"../../x","physical_name":"_0.cfs","length":1}`)},
		{"absolute blob", file(`{"name":"/etc/passwd","physical_name":"_0.cfs","length":1}`)},
		{"file in a folder", file(`{"name":"__0","physical_name":"a/b","length":1}`)},
		{"no blob", file(`{"physical_name":"_0.cfs","length":1}`)}, {"no file", file(`{"name":"__0","length":1}`)},
		{"negative length", file(`{"name":"__0","physical_name":"_0.cfs","length":-1}`)},
		{"absurd parts", file(`{"name":"__0","physical_name":"_0.cfs","length":9000000000000000000,"part_size":1}`)},
		{"sum overflows", file(`{"name":"__0","physical_name":"a","length":9000000000000000000},{"name":"__1","physical_name":"b","length":9000000000000000000}`)},
		{"twice", file(`{"name":"__0","physical_name":"a","length":1},{"name":"__1","physical_name":"a","length":1}`)},
		{"virtual without contents", file(`{"name":"v__0","physical_name":"segments_1","length":5}`)},
		{"virtual with other contents", file(`{"name":"v__0","physical_name":"segments_1","length":5,"meta_hash":"AAAA"}`)},
		{"files are text", `{"name":"snap1","files":"x"}`}, {"no files", `{"name":"snap1"}`}, {"of another snapshot", `{"name":"snap2","files":[]}`}, {"length is text", file(`{"name":"__0","physical_name":"a","length":"x"}`)},
	} {
		s := &Shard{Index: "i", Path: "indices/i/0", Manifest: "indices/i/0/snap-x.dat"}
		if err := s.parse([]byte(c.in), "snap1"); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), s.Manifest) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestFilesInPartsAreReadAcrossTheirBorders(t *testing.T) {
	const size, part = 1000, 300
	content := make([]byte, size)
	for i := range content {
		content[i] = byte(i * 7)
	}
	m := memory{}
	for i := 0; i*part < size; i++ {
		m[fmt.Sprintf("p/__x.part%d", i)] = content[i*part : min(size, (i+1)*part)]
	}
	s := &Shard{Path: "p", Manifest: "p/snap-x.dat", repo: m, Files: []File{{Blob: "__x", Name: "_0.fdt", Length: size, PartSize: part}}}
	f, err := s.Directory().Open("_0.fdt")
	if err != nil {
		t.Fatal(err)
	}
	for off := int64(0); off <= size; off += 37 {
		for _, n := range []int64{0, 1, 50, 299, 300, 301, 700, size - off} {
			if off+n > size {
				continue
			}
			p := make([]byte, n)
			if err := f.ReadAt(t.Context(), p, off); err != nil || string(p) != string(content[off:off+n]) {
				t.Fatalf("[%d,+%d): %v", off, n, err)
			}
		}
	}
	for _, c := range []struct{ off, n int64 }{{-1, 2}, {size, 1}, {size - 1, 2}, {0, size + 1}} {
		if err := f.ReadAt(t.Context(), make([]byte, c.n), c.off); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("[%d,+%d): %v", c.off, c.n, err)
		}
	}
	if blob, at := f.Locate(650); blob != "p/__x.part2" || at != 50 {
		t.Errorf("byte 650 is in %s at %d", blob, at)
	}
	for i, broken := range []memory{m.without("p/__x.part1"), m.with("p/__x.part1", content[:299]), m.with("p/__x.part1", content[:301])} {
		s.repo = broken
		f, err := s.Directory().Open("_0.fdt")
		if err != nil {
			t.Fatal(err)
		}
		if err := f.ReadAt(t.Context(), make([]byte, size), 0); !errors.Is(err, fault.ErrCorrupt) || !strings.Contains(err.Error(), "p/__x.part1") {
			t.Errorf("damage %d: %v", i, err)
		}
	}
}

// shortly answers the first requests for each whole blob with its first half, as if that was all of it.
type shortly struct {
	memory
	odd  int
	seen map[string]int
}

func (s *shortly) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	if b := s.memory[name]; off == 0 && n < 0 && name != "index.latest" {
		if s.seen[name]++; s.seen[name] <= s.odd {
			return io.NopCloser(bytes.NewReader(b[:len(b)/2])), nil
		}
	}
	return s.memory.Open(ctx, name, off, n)
}

// TestMetadata_ShortAnswers: a part of a metadata blob that arrives as if it was all of it is asked for again before the blob is corrupt.
func TestMetadata_ShortAnswers(t *testing.T) {
	repositories := realRepositories(t)
	for _, name := range []string{"7.10.2-compressed", "os2.19.4-hashed-path"} {
		m := repositories[name]
		c, err := OpenCatalog(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		for _, odd := range []int{0, 1, 3, 100} {
			t.Run(fmt.Sprintf("%s, %d times", name, odd), func(t *testing.T) {
				r := &shortly{m, odd, map[string]int{}}
				err := readThrough(t, r, c.Snapshots[0].Name)
				if odd < 100 && err != nil || odd == 100 && !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%v", err)
				}
				if odd == 100 && r.seen[c.blob] != suspectTries+1 {
					t.Errorf("%s was asked for %d times", c.blob, r.seen[c.blob])
				}
			})
		}
		t.Run(name+", damaged", func(t *testing.T) {
			r := &shortly{m.with(c.blob, bytes.Repeat([]byte("x"), len(m[c.blob]))), 0, map[string]int{}}
			if _, err := OpenCatalog(t.Context(), r); !errors.Is(err, fault.ErrCorrupt) || r.seen[c.blob] != 1 {
				t.Errorf("asked %d times: %v", r.seen[c.blob], err)
			}
		})
	}
}
