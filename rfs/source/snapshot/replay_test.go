package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// ckp returns a checkpoint.
func ckp(length int64, operations int32, greatest, trimmed int64) []byte {
	b := binary.LittleEndian.AppendUint64(lucHeader("ckp", 4), uint64(length))
	b = binary.LittleEndian.AppendUint32(b, uint32(operations))
	for _, v := range []int64{1, 0, greatest, 0, 1, trimmed} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return sealed(b)
}

// generation describes a file of a translog and its checkpoint.
type testGeneration struct {
	bodies   [][]byte
	greatest int64
	trimmed  int64
	bare     bool // without a checkpoint
}

// translogOf returns a repository with a translog of generations from 1 on.
func translogOf(all ...testGeneration) memory {
	m := memory{fmt.Sprintf("u/0/translog/metadata/metadata__%019d__%019d__%019d__n__1__1", math.MaxInt64-1, math.MaxInt64-len(all), int64(math.MaxInt64-50)): generationList(1, int64(len(all)), "5")}
	for i, g := range all {
		name := fmt.Sprintf("u/0/translog/data/5/translog-%d.", i+1)
		m[name+"tlog"] = tlog(g.bodies...)
		if !g.bare {
			m[name+"ckp"] = ckp(int64(len(m[name+"tlog"])), int32(len(g.bodies)), g.greatest, g.trimmed)
		}
	}
	return m
}

// replayed returns the operations after number 9 in short, and the highest number.
func replayed(t *testing.T, m memory) (string, int64, error) {
	t.Helper()
	r := replay{Shard: Shard{Index: "i", repo: m}, after: 9, uuid: "uuid"}
	operations, top, err := r.read(t.Context(), Pinned{Millis: 60, IndexUUID: "u", Segments: "s", Translog: "t"})
	var out []string
	for _, o := range operations {
		what := string(o.Source)
		if o.Deleted {
			what = "deleted"
		}
		out = append(out, fmt.Sprintf("%s %s %d/%d", o.ID[1:], what, o.Seq, o.Term))
	}
	return strings.Join(out, ", "), top, err
}

func TestReplay_AsARecoveryDoes(t *testing.T) {
	const all = trimmedNot
	for _, c := range []struct {
		name string
		m    memory
		want string
		top  int64
	}{
		{"nothing after the commit", translogOf(testGeneration{[][]byte{indexOp("a!", "1", "", 9, 5)}, 9, all, false}), "", 9},
		{"an empty translog", translogOf(testGeneration{nil, -1, all, false}), "", 9},
		{"the last operation of each id", translogOf(
			testGeneration{[][]byte{indexOp("a!", "1", "", 9, 5), indexOp("a!", "2", "", 10, 5), indexOp("b!", "3", "", 12, 5)}, 12, all, false},
			testGeneration{[][]byte{deleteOp("b!", 13, 5), indexOp("a!", "4", "", 11, 5), noOp(14, 5)}, 14, all, false},
		), "a! 4 11/5, b! deleted 13/5", 14},
		{"numbers, not places, order operations", translogOf(testGeneration{[][]byte{indexOp("a!", "late", "", 12, 5), indexOp("a!", "early", "", 11, 5)}, 12, all, false}), "a! late 12/5", 12},
		{"of one number the later generation counts", translogOf(
			testGeneration{[][]byte{indexOp("a!", "old", "", 10, 4), indexOp("b!", "old", "", 11, 4)}, 11, all, false},
			testGeneration{[][]byte{indexOp("a!", "new", "", 10, 5), noOp(11, 5)}, 11, all, false},
		), "a! new 10/5", 11},
		{"operations beyond the trimming are void", translogOf(
			testGeneration{[][]byte{indexOp("a!", "valid", "", 10, 4), indexOp("a!", "void", "", 12, 4)}, 12, 11, false},
			testGeneration{[][]byte{indexOp("c!", "1", "", 11, 5)}, 11, all, false},
		), "a! valid 10/4, c! 1 11/5", 11},
		{"without checkpoints all counts", translogOf(
			testGeneration{[][]byte{indexOp("a!", "1", "", 9, 4), indexOp("b!", "2", "", 10, 4)}, 0, 0, true},
			testGeneration{[][]byte{indexOp("a!", "3", "", 11, 5)}, 0, 0, true},
		), "b! 2 10/4, a! 3 11/5", 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, top, err := replayed(t, c.m); got != c.want || top != c.top || err != nil {
				t.Errorf("%q up to %d, %v; want %q up to %d", got, top, err, c.want, c.top)
			}
		})
	}
}

func TestReplay_WhatIsNotCertainIsRefused(t *testing.T) {
	sound := func() memory {
		return translogOf(testGeneration{[][]byte{indexOp("a!", "1", "", 10, 5)}, 10, trimmedNot, false})
	}
	const file = "u/0/translog/data/5/translog-1."
	for _, c := range []struct {
		name   string
		change func(m memory)
		want   error
		text   string
	}{
		{"a missing generation", func(m memory) { delete(m, file+"tlog") }, fault.ErrCorrupt, file + "tlog"},
		{"a missing generation and its checkpoint", func(m memory) { delete(m, file+"tlog"); delete(m, file+"ckp") }, fault.ErrCorrupt, file + "tlog"},
		{"fewer operations than stated", func(m memory) { m[file+"tlog"] = tlog() }, fault.ErrCorrupt, file + "tlog"},
		{"a cut at the end of an operation", func(m memory) {
			m[file+"ckp"] = ckp(int64(len(m[file+"tlog"])), 2, 11, trimmedNot)
		}, fault.ErrCorrupt, "1 operations, its checkpoint states 2"},
		{"more bytes than stated", func(m memory) { m[file+"tlog"] = append(m[file+"tlog"], 0) }, fault.ErrCorrupt, file + "tlog"},
		{"a damaged operation", func(m memory) { m[file+"tlog"][len(m[file+"tlog"])-9] ^= 1 }, fault.ErrCorrupt, file + "tlog"},
		{"another translog", func(m memory) { copy(m[file+"tlog"][21:], "diuu") }, fault.ErrCorrupt, file + "tlog"},
		{"a damaged checkpoint", func(m memory) { m[file+"ckp"][20] ^= 1 }, fault.ErrCorrupt, file + "ckp"},
		{"too long, as the checkpoint states", func(m memory) {
			m[file+"ckp"] = ckp(maxTranslog+1, 1, 10, trimmedNot)
			delete(m, file+"tlog") // nothing of it is read
		}, fault.ErrUnsupported, "POST /i/_refresh"},
		{"a term that goes back without a checkpoint", func(m memory) {
			m[file+"tlog"] = tlog(indexOp("a!", "1", "", 10, 5), indexOp("b!", "1", "", 11, 4))
			delete(m, file+"ckp")
		}, fault.ErrUnsupported, "operation 11 of term 4"},
		{"a generation that the metadata does not list", func(m memory) {
			for name := range m {
				if strings.Contains(name, "/metadata/") {
					m[name] = append(m[name][:0:0], generationList(1, 1, "x")...)
				}
			}
		}, fault.ErrCorrupt, `generation 1 of term "x"`},
		{"metadata of another moment", func(m memory) {
			for name := range m {
				if strings.Contains(name, "/metadata/") {
					m[name] = append(m[name][:0:0], generationList(1, 2, "5")...)
				}
			}
		}, fault.ErrCorrupt, "its name states 1"},
		{"the newest metadata is missing", func(m memory) { m["u/0/translog/data/5/translog-2.tlog"] = tlog() }, fault.ErrCorrupt, "generation 2 has been uploaded"},
		{"a data blob of no generation", func(m memory) { m["u/0/translog/data/5/translog-x.tlog"] = tlog() }, fault.ErrCorrupt, "translog-x.tlog"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := sound()
			c.change(m)
			if _, _, err := replayed(t, m); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v, want %v with %q", err, c.want, c.text)
			}
		})
	}
}

// TestPinned_OperationsThatTheCommitHasDoNothing replays each translog from its start.
func TestPinned_OperationsThatTheCommitHasDoNothing(t *testing.T) {
	replays(t, func(name string, m memory, p Pinned, shard int, want []string) {
		r := &replay{Shard: Shard{Index: "remote", Number: shard, repo: m}, after: -1}
		operations, top, err := r.read(t.Context(), p)
		if err != nil {
			t.Fatal(err)
		}
		for blob := range m {
			_, name, there := strings.Cut(blob, fmt.Sprintf("/%d/translog/metadata/", shard))
			if !there {
				continue
			}
			last, err := inverted("", name, 2)
			if err != nil {
				t.Fatal(err)
			}
			m[blob] = generationList(last, last, "1")
			for other := range m {
				if strings.HasSuffix(other, fmt.Sprintf("/%d/translog/data/1/translog-%d.ckp", shard, last)) {
					m[other] = ckp(0, 0, -1, trimmedNot) // nothing is left in it
				}
			}
		}
		s := &Shard{Index: "remote", Number: shard, repo: m}
		if err := errors.Join(s.openPinned(t.Context(), p), s.apply(t.Context(), operations, top)); err != nil {
			t.Fatal(err)
		}
		if got := documents(t, s); !slices.Equal(got, want) {
			t.Errorf("%s: %d documents:\n%s\nwant %d:\n%s", name, len(got), strings.Join(got, "\n"), len(want), strings.Join(want, "\n"))
		}
	})
}

// TestPinned_NestedDocumentsGoWithTheirRoots: no document gets the nested ones of another that an operation has replaced.
func TestPinned_NestedDocumentsGoWithTheirRoots(t *testing.T) {
	for _, name := range []string{"os2.19.4-translog", "os3.8.0-translog", "os3.9.0-translog"} {
		m, nested := fixture(t, name), 0
		eachShard(t, m, func(loc Locator, n int) {
			s, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			c, err := lucene.Open(t.Context(), s.Directory(), lucene.Options{Values: true})
			if err != nil {
				t.Fatal(err)
			}
			r := c.Reader(lucene.ReadOptions{Values: true})
			defer r.Close()
			for {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				children, whole := rec.Values.Children()
				if want := strings.Count(string(rec.Source), `"who"`); rec.HasSource && (len(children) != want || !whole) {
					t.Errorf("%s %s shard %d: document %x has %d nested documents, %t, its source %d", name, loc.SnapshotName, n, rec.ID, len(children), whole, want)
				}
				nested += len(children)
			}
		})
		if nested == 0 {
			t.Errorf("%s: no nested documents", name)
		}
	}
}

// TestPinned_AnotherReaderGoesOnAnywhere: a reader of a shard with a translog goes on at any document where another stopped, and the
// checksums of their parts combine.
func TestPinned_AnotherReaderGoesOnAnywhere(t *testing.T) {
	m := fixture(t, "os2.19.4-translog")
	eachShard(t, m, func(loc Locator, n int) {
		open := func() *lucene.Commit {
			s, err := OpenShard(t.Context(), m, loc, n)
			if err != nil {
				t.Fatal(err)
			}
			c, err := lucene.Open(t.Context(), s.Directory(), lucene.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return c
		}
		read := func(c *lucene.Commit, from, to int64) (ids []string, checks []lucene.Check) {
			r := c.Reader(lucene.ReadOptions{From: from, To: to})
			defer r.Close()
			for {
				rec, err := r.Next(t.Context())
				if errors.Is(err, io.EOF) {
					return ids, r.Checks(to)
				}
				if err != nil {
					t.Fatal(err)
				}
				ids = append(ids, fmt.Sprintf("%d %x %x", rec.Ordinal, rec.ID, crc32.ChecksumIEEE(append(slices.Clone(rec.Source), rec.RecoverySource...))))
			}
		}
		c := open()
		whole, _ := read(c, 0, c.MaxOrdinal)
		if len(whole) == 0 {
			t.Errorf("%s shard %d has no documents", loc.IndexName, n)
		}
		for at := int64(1); at < c.MaxOrdinal; at++ {
			first, checks := read(c, 0, at)
			second, more := read(open(), at, c.MaxOrdinal)
			if !slices.Equal(slices.Concat(first, second), whole) {
				t.Fatalf("%s shard %d: other documents when a reader goes on at %d", loc.IndexName, n, at)
			}
			for _, f := range lucene.CombineChecks(slices.Concat(checks, more)) {
				if !f.Verified || f.Err != nil {
					t.Errorf("%s shard %d, at %d: %+v", loc.IndexName, n, at, f)
				}
			}
		}
	})
}
