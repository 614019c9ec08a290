package lucene

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"regexp"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
)

// laterFields matches the file of the fields whose columns were updated.
var laterFields = regexp.MustCompile(`^(_[0-9a-z]+_[0-9a-z]+)\.fnm$`)

// renumber numbers the fields of the updated columns of a shard anew, as Lucene does up to 8.5.0 in segments that it copied from
// another index. It returns how many segments have such columns.
func renumber(t *testing.T, dir mapDir) (n int) {
	t.Helper()
	for file := range maps.Clone(dir) {
		match := laterFields.FindStringSubmatch(file)
		if match == nil {
			continue
		}
		n++
		in := codec.NewInput(dir[file])
		in.Header()
		fi, err := parseFieldInfos(dir[file], string(in.Take(16)))
		if err != nil {
			t.Fatal(file, err)
		}
		highest := int32(0)
		for number := range fi.fields {
			highest = max(highest, number)
		}
		if highest > 127 {
			t.Fatalf("%s: field %d does not fit into a byte", file, highest)
		}
		out := bytes.Clone(dir[file])
		for number, f := range fi.fields {
			was := append(append([]byte{byte(len(f.name))}, f.name...), byte(number))
			if bytes.Count(dir[file], was) != 1 {
				t.Fatalf("%s: field %q is there %d times", file, f.name, bytes.Count(dir[file], was))
			}
			out[bytes.Index(dir[file], was)+len(was)-1] = byte(highest - number)
			if f.dvGen >= 0 {
				meta := match[1] + "_" + f.columnFile() + ".dvm"
				dir[meta] = reseal(withFirstField(t, dir[meta], number, highest-number))
			}
		}
		dir[file] = reseal(out)
	}
	return n
}

// withFirstField returns a .dvm whose first field has another number.
func withFirstField(t *testing.T, meta []byte, was, number int32) []byte {
	t.Helper()
	in := codec.NewInput(meta)
	h := in.Header()
	in.Take(16)
	in.Take(int(in.U8()))
	order := binary.ByteOrder(binary.BigEndian)
	if codec.LittleEndian(h.Codec) {
		order = binary.LittleEndian
	}
	out := bytes.Clone(meta)
	if got := order.Uint32(out[in.Pos():]); in.Err() != nil || got != uint32(was) {
		t.Fatalf("%s: the first field is %d, not %d: %v", h.Codec, got, was, in.Err())
	}
	order.PutUint32(out[in.Pos():], uint32(number))
	return out
}

// TestUpdatedColumns_HaveNumbersOfTheirOwn: the fields of updated columns say nothing about what was written with the segment.
func TestUpdatedColumns_HaveNumbersOfTheirOwn(t *testing.T) {
	segments := 0
	for name, dir := range testShards(t) {
		dir = dir.without(documentsFile)
		other := maps.Clone(dir)
		n := renumber(t, other)
		if n == 0 {
			continue
		}
		segments += n
		t.Run(name, func(t *testing.T) {
			for _, held := range []int64{0, 1} {
				want, err := Open(t.Context(), dir, Options{Values: true})
				if err != nil {
					t.Fatal(err)
				}
				got, err := Open(t.Context(), other, Options{Values: true, Held: held})
				if err != nil {
					t.Fatal(err)
				}
				opt := ReadOptions{Values: true, Versions: true}
				if a, b := fmt.Sprint(records(t, got, opt)), fmt.Sprint(records(t, want, opt)); a != b {
					t.Errorf("%.600s\nwant\n%.600s", a, b)
				}
			}
		})
	}
	if segments < 5 {
		t.Errorf("%d segments only have updated columns", segments)
	}
}
