package lucene

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"testing"
)

// emptyCommit is a commit without segments.
func emptyCommit() mapDir {
	var o out
	o.header("segments", 10)
	o.bytes(testID)
	o.u8(1)
	o.b = append(o.b, '1')
	o.bytes([]byte{10, 1, 0})
	o.vint(10)
	o.be64(7)
	o.vlong(3)
	o.be32(0)
	o.vint(2)
	o.str("history_uuid")
	o.str("h")
	o.str("max_seq_no")
	o.str("-1")
	return mapDir{"segments_1": o.footer()}
}

// applied returns a directory with the files of Apply.
func applied(t *testing.T, dir mapDir, ops []Operation, top int64) mapDir {
	t.Helper()
	files, err := Apply(t.Context(), dir, ops, top)
	if err != nil {
		t.Fatal(err)
	}
	out := maps.Clone(dir)
	for _, f := range files {
		b := make([]byte, f.Size)
		if n, err := f.ReadAt(b, 0); n != len(b) || err != nil {
			t.Fatalf("%s: %d of %d bytes, %v", f.Name, n, len(b), err)
		}
		out[f.Name] = b
	}
	return out
}

func TestApply_ACommitWithoutSegmentsGetsTheDocuments(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)
	var ops []Operation
	for i, source := range []string{`{}`, `{"a":1}`, strings.Repeat("x", 13), strings.Repeat("y", 270), string(long), string(long[:2<<20])} {
		ops = append(ops, Operation{ID: []byte{0xFF, byte('a' + i)}, Seq: int64(100 - i), Term: 3, Version: int64(i + 1), Source: []byte(source)})
	}
	ops[1].Routing = []byte("r")
	for i := range 3000 {
		ops = append(ops, Operation{ID: fmt.Appendf([]byte{0xFF}, "%d", i), Seq: int64(1000 + i), Term: 4, Version: 1, Source: fmt.Appendf(nil, `{"n":%d}`, i)})
	}
	ops = append(ops, Operation{ID: []byte{0xFF, 'z'}, Seq: 5000, Deleted: true})
	dir := applied(t, emptyCommit(), ops, 5000)
	if again := applied(t, emptyCommit(), ops, 5000); !maps.EqualFunc(dir, again, bytes.Equal) {
		t.Error("the files differ from one call to the next")
	}
	c, err := Open(t.Context(), dir, Options{VerifyAll: true, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.UserData["max_seq_no"] != "5000" || c.UserData["history_uuid"] != "h" || len(c.Unverified) != 0 {
		t.Errorf("%v, not verified %v", c.UserData, c.Unverified)
	}
	slices.SortFunc(ops, func(a, b Operation) int { return int(a.Seq - b.Seq) })
	r := c.Reader(ReadOptions{Values: true, Versions: true})
	defer r.Close()
	for _, o := range ops[:len(ops)-1] {
		rec, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if rec.IDKind != IDBinary || !bytes.Equal(rec.ID, o.ID) || !bytes.Equal(rec.RecoverySource, o.Source) || !bytes.Equal(rec.Routing, o.Routing) || rec.Version != o.Version {
			t.Fatalf("%q version %d, routing %q, %d bytes; want %q", rec.ID, rec.Version, rec.Routing, len(rec.RecoverySource), o.ID)
		}
	}
	if _, err := r.Next(t.Context()); !errors.Is(err, io.EOF) {
		t.Errorf("after the last: %v", err)
	}
	roots, err := c.Segments[0].Roots(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range ops[:len(ops)-1] {
		if _, err := roots.Next(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n, err := roots.Number(t.Context()); err != nil || n != (Number{o.Seq, o.Term}) {
			t.Fatalf("%+v, %v, want %d of %d", n, err, o.Seq, o.Term)
		}
	}
}
