package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// sealed returns a blob with a footer.
func sealed(b []byte) []byte { return resealed(append(b, make([]byte, footerSize)...)) }

// lucHeader returns a plain header.
func lucHeader(name string, version byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, headerMagic)
	return append(append(append(b, byte(len(name))), name...), 0, 0, 0, version)
}

// generationList returns the metadata of a translog.
func generationList(first, last int64, term string) []byte {
	b := lucHeader("md", 1)
	for _, v := range []int64{1, last, first} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	b = append(b, byte(last-first+1))
	for n := first; n <= last; n++ {
		g := fmt.Sprint(n)
		b = append(append(append(append(b, byte(len(g))), g...), byte(len(term))), term...)
	}
	return sealed(b)
}

// documents returns the documents of a shard with their numbers, in order.
func documents(t *testing.T, s *Shard) []string {
	t.Helper()
	c, err := lucene.Open(t.Context(), s.Directory(), lucene.Options{VerifyAll: true, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	r := c.Reader(lucene.ReadOptions{Versions: true})
	defer r.Close()
	for _, seg := range c.Segments {
		roots, err := seg.Roots(t.Context(), true)
		if err != nil {
			t.Fatal(err)
		}
		for {
			if _, err := roots.Next(t.Context()); errors.Is(err, io.EOF) {
				break
			}
			n, err := roots.Number(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			rec, err := r.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			source := rec.Source
			if !rec.HasSource {
				source = rec.RecoverySource
			}
			out = append(out, fmt.Sprintf("%x routing %q version %d number %d of %d: %s", rec.ID, rec.Routing, rec.Version, n.Seq, n.Term, source))
		}
	}
	slices.Sort(out)
	return out
}

// replays yields, for each shard of the repositories of real nodes and each of its commits, a repository in which the commit is followed by
// all generations of the shard's translog, and the documents of the last commit.
func replays(t *testing.T, yield func(name string, m memory, p Pinned, shard int, want []string)) {
	t.Helper()
	for _, name := range []string{"os2.19.4-pinned", "os3.8.0-pinned"} {
		m := fixture(t, name)
		newest := map[int]Locator{}
		eachShard(t, m, func(loc Locator, n int) {
			if loc.SnapshotName == "snap-2" {
				newest[n] = loc
			}
		})
		for n, loc := range newest {
			s, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			want := documents(t, s)
			whole := maps.Clone(m)
			for blob := range m {
				if strings.Contains(blob, fmt.Sprintf("/%d/translog/metadata/", n)) {
					whole[blob] = generationList(2, 8, "1")
				}
			}
			for blob := range m {
				if !strings.Contains(blob, fmt.Sprintf("/%d/segments/metadata/", n)) {
					continue
				}
				with := maps.Clone(whole)
				for other := range m {
					if path.Dir(other) == path.Dir(blob) && other != blob {
						delete(with, other)
					}
				}
				yield(path.Join(name, blob), with, *loc.Pinned, n, want)
			}
		}
	}
}

func TestPinned_TheTranslogMakesEachCommitTheLastOne(t *testing.T) {
	count, added := 0, 0
	replays(t, func(name string, m memory, p Pinned, shard int, want []string) {
		for _, lacks := range []string{"", ".ckp"} { // kept in the metadata of objects
			with := maps.Clone(m)
			maps.DeleteFunc(with, func(blob string, _ []byte) bool { return lacks != "" && strings.HasSuffix(blob, lacks) })
			s, again := &Shard{Index: "remote", Number: shard, repo: with}, &Shard{Index: "remote", Number: shard, repo: with}
			if err := errors.Join(s.openPinned(t.Context(), p), again.openPinned(t.Context(), p)); err != nil {
				t.Fatalf("%s without %q: %v", name, lacks, err)
			}
			if got := documents(t, s); !slices.Equal(got, want) {
				t.Errorf("%s without %q: %d documents:\n%s\nwant %d:\n%s", name, lacks, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
			}
			total := int64(0)
			for i, f := range s.Files {
				total += f.Length
				if f.added != nil {
					added++
					if crc, err := crcOf(t.Context(), s, f.Name); err != nil || again.Files[i].Checksum != f.Checksum || crc == 0 {
						t.Errorf("%s: %s: %08x, %v; another time %q, not %q", name, f.Name, crc, err, again.Files[i].Checksum, f.Checksum)
					}
				}
			}
			if total != s.TotalBytes {
				t.Errorf("%s: %d bytes, the files have %d", name, s.TotalBytes, total)
			}
		}
		count++
	})
	if count != 28 || added == 0 {
		t.Errorf("%d commits, %d files in memory", count, added)
	}
}

// tlog returns a generation of term 5 with the given bodies of operations.
func tlog(bodies ...[]byte) []byte {
	b := lucHeader("translog", 3)
	b = append(binary.BigEndian.AppendUint32(b, 4), "uuid"...)
	b = binary.BigEndian.AppendUint64(b, 5)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	for _, body := range bodies {
		b = append(binary.BigEndian.AppendUint32(b, uint32(len(body)+4)), body...)
		b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(body))
	}
	return b
}

// longs returns numbers of operations.
func longs(v ...int64) (b []byte) {
	for _, n := range v {
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	return b
}

// indexOp and deleteOp return the bodies of operations on an ASCII id.
func indexOp(id, source, routing string, seq, term int64) []byte {
	b := append(append([]byte{2, indexVersion, byte(len(id))}, id...), byte(len(source)))
	b = append(b, source...)
	if routing == "" {
		b = append(b, 0)
	} else {
		b = append(append(b, 1, byte(len(routing))), routing...)
	}
	return append(b, longs(1, -1, seq, term)...)
}

func deleteOp(id string, seq, term int64) []byte {
	return append(append([]byte{3, deleteVersion, byte(len(id))}, id...), longs(2, seq, term)...)
}

// routedDelete is a deletion as OpenSearch 3.9 writes it; routing "": none.
func routedDelete(id, routing string, seq, term int64) []byte {
	b := deleteOp(id, seq, term)
	if b[1] = deleteRouting; routing == "" {
		return append(b, 0)
	}
	return append(append(b, 1, byte(len(routing))), routing...)
}

func noOp(seq, term int64) []byte { return append(append([]byte{4}, longs(seq, term)...), 1, 'r') }

func TestParseGeneration(t *testing.T) {
	var got []string
	n, err := parseGeneration(tlog(indexOp("a", `{}`, "", 7, 5), indexOp("12", `{"x":1}`, "r", 8, 4), deleteOp("a_bc", 9, 5), noOp(10, 5), routedDelete("a", "r", 11, 5), routedDelete("12", "", 12, 5)), "uuid", func(o operation) error {
		got = append(got, fmt.Sprintf("%x %s routing %q, number %d of %d, version %d, deleted %t", o.ID, o.Source, o.Routing, o.Seq, o.Term, o.Version, o.Deleted))
		return nil
	})
	want := []string{
		`ff61 {} routing "", number 7 of 5, version 1, deleted false`,
		`fe12 {"x":1} routing "r", number 8 of 4, version 1, deleted false`,
		`6bf6dc  routing "", number 9 of 5, version 2, deleted true`,
		`  routing "", number 10 of 5, version 0, deleted false`,
		`ff61  routing "r", number 11 of 5, version 2, deleted true`,
		`fe12  routing "", number 12 of 5, version 2, deleted true`,
	}
	if err != nil || n != 6 || !slices.Equal(got, want) {
		t.Errorf("%d operations, %v:\n%s", n, err, strings.Join(got, "\n"))
	}
}

// TestParseGeneration_OfOpenSearch39 reads a generation that OpenSearch 3.9.0 wrote, the first version that adds routings to deletions.
func TestParseGeneration_OfOpenSearch39(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "..", "testing", "fixtures", "os3.9.0-translog", "A01110011011010", "xynE-Q84QluVKs_op2UNqw", "0", "translog", "data", "1", "translog-4.tlog"))
	if err != nil {
		t.Fatal(err)
	}
	deleted, routed := 0, 0
	n, err := parseGeneration(b, "hnbDbILWQs6BJzIZrnovYg", func(o operation) error {
		if o.Deleted {
			deleted++
			if o.Routing != nil {
				routed++
			}
		}
		return nil
	})
	if err != nil || n != 63 || deleted != 13 || routed != 1 {
		t.Errorf("%d operations, %d deletions, %d of them with a routing, %v; want 63, 13 and 1", n, deleted, routed, err)
	}
}

func TestParseGeneration_DamageIsReported(t *testing.T) {
	whole := tlog(indexOp("a", `{}`, "", 7, 5), deleteOp("b", 8, 5))
	head := len(tlog())
	with := func(at int, b ...byte) []byte {
		c := bytes.Clone(whole)
		copy(c[at:], b)
		return c
	}
	for _, c := range []struct {
		name, uuid string
		b          []byte
		want       error
	}{
		{"nothing", "", nil, fault.ErrCorrupt},
		{"cut within the header", "", whole[:head-3], fault.ErrCorrupt},
		{"cut within a length", "", whole[:head+2], fault.ErrCorrupt},
		{"cut within an operation", "", whole[:head+12], fault.ErrCorrupt},
		{"cut within the last checksum", "", whole[:len(whole)-1], fault.ErrCorrupt},
		{"a wrong checksum of the header", "", with(head-1, whole[head-1]^1), fault.ErrCorrupt},
		{"a wrong checksum of an operation", "", with(len(whole)-1, whole[len(whole)-1]^1), fault.ErrCorrupt},
		{"a flipped bit of a source", "", with(head+4+5, 'x'), fault.ErrCorrupt},
		{"an oversized length", "", with(head, 0x7F, 0xFF, 0xFF, 0xFF), fault.ErrCorrupt},
		{"a negative length", "", with(head, 0xFF), fault.ErrCorrupt},
		{"a length below its checksum", "", with(head, 0, 0, 0, 3), fault.ErrCorrupt},
		{"an oversized UUID", "", with(17, 0x7F, 0xFF, 0xFF, 0xFF), fault.ErrCorrupt},
		{"a negative UUID", "", with(17, 0xFF), fault.ErrCorrupt},
		{"another translog", "other", whole, fault.ErrCorrupt},
		{"a newer header", "", append(lucHeader("translog", 4), whole[17:]...), fault.ErrUnsupported},
		{"another codec", "", append(lucHeader("translag", 3), whole[17:]...), fault.ErrUnsupported},
		{"an unknown type", "", tlog([]byte{9, 1}), fault.ErrUnsupported},
		{"a newer version of an operation", "", tlog(append([]byte{2, indexVersion + 1}, indexOp("a", "", "", 1, 5)[2:]...)), fault.ErrUnsupported},
		{"an older version of a deletion", "", tlog(append([]byte{3, deleteVersion - 1}, deleteOp("a", 1, 5)[2:]...)), fault.ErrUnsupported},
		{"a newer version of a deletion", "", tlog(append([]byte{3, deleteRouting + 1}, deleteOp("a", 1, 5)[2:]...)), fault.ErrUnsupported},
		{"a deletion without its routing", "", tlog(append([]byte{3, deleteRouting}, deleteOp("a", 1, 5)[2:]...)), fault.ErrCorrupt},
		{"an oversized routing", "", tlog(append(append([]byte{3, deleteRouting}, deleteOp("a", 1, 5)[2:]...), 1, 0xFF, 0xFF, 0xFF, 0xFF, 0x07)), fault.ErrCorrupt},
		{"no id", "", tlog(deleteOp("", 1, 5)), fault.ErrCorrupt},
		{"a later term than the generation's", "", tlog(deleteOp("a", 1, 6)), fault.ErrCorrupt},
		{"a negative number", "", tlog(deleteOp("a", -2, 5)), fault.ErrCorrupt},
		{"bytes after an operation", "", tlog(append(deleteOp("a", 1, 5), 0)), fault.ErrCorrupt},
		{"an operation that ends early", "", tlog(deleteOp("a", 1, 5)[:9]), fault.ErrCorrupt},
		{"an oversized id", "", tlog([]byte{3, deleteVersion, 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 'a'}), fault.ErrCorrupt},
		{"an oversized source", "", tlog([]byte{2, indexVersion, 1, 'a', 0xFF, 0xFF, 0xFF, 0xFF, 0x07, 'a'}), fault.ErrCorrupt},
		{"an id of a wrong form", "", tlog(append([]byte{3, deleteVersion, 1, 0x80}, longs(1, 1, 5)...)), fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parseGeneration(c.b, c.uuid, func(operation) error { return nil }); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func TestParseGeneration_EveryChangedByteIsDamage(t *testing.T) {
	m := pinnedRepository(t)
	for name, b := range m {
		parse := func(b []byte) error { _, err := parseTranslog(b); return err }
		switch {
		case strings.HasSuffix(name, ".ckp"):
			parse = func(b []byte) error { _, err := parseCheckpoint(b); return err }
		case strings.HasSuffix(name, ".tlog"):
			parse = func(b []byte) error {
				_, err := parseGeneration(b, "", func(operation) error { return nil })
				return err
			}
		case !strings.Contains(name, "/translog/metadata/"):
			continue
		}
		if err := parse(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i := range b {
			changed := bytes.Clone(b)
			changed[i] ^= 0x20
			if err := parse(changed); !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("%s: byte %d changed: %v", name, i, err)
			}
		}
	}
}

// TestBinaryID has ids of each form, and the terms of a real node.
func TestBinaryID(t *testing.T) {
	for id, want := range map[string]string{
		"1": "fe1f", "12": "fe12", "007": "fe007f", "Ab-_": "01bfbf", "a": "ff61", "abcde": "ff6162636465", "é": "ffc3a9", "AQ": "01", "AR": "ff4152",
		"_w": "fdff", "____": "fdffffff", "a b": "ff612062", "ab\ncd": "ff61620a6364", "AAE": "0001", "AAF": "ff414146",
	} {
		if got := hex.EncodeToString(binaryID(id)); got != want {
			t.Errorf("%q: %s, want %s", id, got, want)
		}
	}
}

func FuzzTranslog(f *testing.F) {
	for name, b := range pinnedRepository(f) {
		if strings.Contains(name, "/translog/") {
			f.Add(b)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		_, metadata := parseTranslog(resealed(b))
		_, checkpoint := parseCheckpoint(resealed(b))
		_, operations := parseGeneration(b, "", func(operation) error { return nil })
		bodies := 0
		_, body := parseGeneration(tlog(b), "uuid", func(o operation) error { bodies++; return nil })
		for _, err := range []error{metadata, checkpoint, operations, body} {
			if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("error without a category: %v", err)
			}
		}
	})
}
