package lucene

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestNumbersOfStoredDocuments: only their lengths matter; -1 where the document ends before.
func TestNumbersOfStoredDocuments(t *testing.T) {
	long := bytes.Repeat([]byte{0x80}, 11)
	for _, c := range []struct {
		name  string
		doc   []byte
		kind  uint64
		fixed bool
		want  int
	}{
		{"a fixed int", make([]byte, 9), 2, true, 4},
		{"a fixed float", make([]byte, 9), 3, true, 4},
		{"a fixed long", make([]byte, 9), 4, true, 8},
		{"a fixed double", make([]byte, 8), 5, true, 8},
		{"a fixed double, cut", make([]byte, 7), 5, true, -1},
		{"an int of one byte", []byte{0x7F, 1}, 2, false, 1},
		{"an int of two bytes", []byte{0x96, 1, 1}, 2, false, 2},
		{"an int of ten bytes", append(bytes.Clone(long[:9]), 1, 1), 2, false, 10},
		{"an int without an end", long, 2, false, -1},
		{"an int, cut", []byte{0x96}, 2, false, -1},
		{"a long of one byte", []byte{0x45, 1}, 4, false, 1},
		{"a long with a rest", []byte{0x65, 0x80, 1, 1}, 4, false, 3},
		{"a long whose rest is cut", []byte{0x65, 0x80}, 4, false, -1},
		{"a long without its rest", []byte{0x65}, 4, false, -1},
		{"a float of one byte", []byte{0x85, 1}, 3, false, 1},
		{"a float of four bytes", []byte{0x7F, 2, 3, 4, 5}, 3, false, 4},
		{"a float of five bytes", []byte{0xFF, 1, 2, 3, 4, 5}, 3, false, 5},
		{"a float, cut", []byte{0xFF, 1, 2, 3}, 3, false, -1},
		{"a float that starts as a short double", []byte{0xFE, 1, 2, 3, 4}, 3, false, 1},
		{"a double of one byte", []byte{0x85, 1}, 5, false, 1},
		{"a double of five bytes", []byte{0xFE, 1, 2, 3, 4, 5}, 5, false, 5},
		{"a double of eight bytes", []byte{0x7F, 2, 3, 4, 5, 6, 7, 8, 9}, 5, false, 8},
		{"a double of nine bytes", []byte{0xFF, 1, 2, 3, 4, 5, 6, 7, 8, 9}, 5, false, 9},
		{"a double, cut", []byte{0xFE, 1, 2, 3}, 5, false, -1},
		{"nothing", nil, 2, false, -1},
		{"a type that is unknown", make([]byte, 9), 6, false, -1},
	} {
		if got := skipNumber(c.doc, 0, c.kind, c.fixed); got != c.want {
			t.Errorf("%s ends at %d, want %d", c.name, got, c.want)
		}
		if c.want > 0 {
			c.want++
		}
		if got := skipNumber(append([]byte{9}, c.doc...), 1, c.kind, c.fixed); got != c.want {
			t.Errorf("%s behind another byte ends at %d, want %d", c.name, got, c.want)
		}
	}
}

func TestDamagedDocuments(t *testing.T) {
	table := fieldTable{roleID, roleUnknown, roleSkip}
	const text, number = 0, 2 // types
	for _, c := range []struct {
		name   string
		doc    []byte
		fields int32
		good   bool
	}{
		{"whole", []byte{0<<3 | text, 1, 'a', 2<<3 | number, 0x96, 1}, 2, true},
		{"without fields", nil, 0, true},
		{"bytes are left", []byte{0<<3 | text, 1, 'a', 1}, 1, false},
		{"a field is missing", []byte{0<<3 | text, 1, 'a'}, 2, false},
		{"the number of a field is cut", []byte{0x80}, 1, false},
		{"a field beyond the infos", []byte{3<<3 | text, 1, 'a'}, 1, false},
		{"a field that the infos lack", []byte{1<<3 | text, 1, 'a'}, 1, false},
		{"a value without a length", []byte{0<<3 | text}, 1, false},
		{"a value that is cut", []byte{0<<3 | text, 2, 'a'}, 1, false},
		{"a value of a field that is skipped, cut", []byte{2<<3 | text, 2, 'a'}, 1, false},
		{"a number that is cut", []byte{2<<3 | number, 0x96}, 1, false},
	} {
		err := parseBody(c.doc, c.fields, table, &Record{}, false)
		if c.good && err != nil || !c.good && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestADocumentOfIdAndSourceIsParsedAsItsFieldsAre(t *testing.T) {
	table := fieldTable{roleSkip, roleID, roleSource, roleRouting}
	document := func(id, source int) []byte {
		return testDoc{{1, 1, bytes.Repeat([]byte("i"), id)}, {2, 1, bytes.Repeat([]byte("s"), source)}}.encode(false)
	}
	agree := func(name string, doc []byte, pair bool) {
		t.Helper()
		var short, long Record
		err := parseBody(doc, 2, table, &long, false)
		if got := parsePair(doc, table, &short); got != pair {
			t.Errorf("%s: a pair: %t", name, got)
		}
		if pair && (err != nil || !reflect.DeepEqual(short, long)) || !pair && !reflect.DeepEqual(short, Record{}) {
			t.Errorf("%s: %+v where the fields one by one are %+v, %v", name, short, long, err)
		}
	}
	for _, c := range []struct {
		name       string
		id, source int
		pair       bool
	}{
		{"usual", 16, 39, true},
		{"empty values", 0, 0, true},
		{"lengths of one byte", 127, 127, true},
		{"a source of two bytes of length", 20, 128, true},
		{"the longest", 1, 1<<14 - 1, true},
		{"a longer source", 1, 1 << 14, false},
		{"a longer id", 128, 39, false},
	} {
		agree(c.name, document(c.id, c.source), c.pair)
	}
	whole := document(3, 5)
	for n := range whole {
		agree(fmt.Sprintf("%d bytes", n), whole[:n], false)
		for x := range 256 {
			changed := bytes.Clone(whole)
			changed[n] = byte(x)
			var rec Record
			agree(fmt.Sprintf("byte %d is %02x", n, x), changed, parseBody(changed, 2, table, &rec, false) == nil && rec.IDKind == IDBinary && rec.HasSource && changed[5]&7 == 1)
		}
	}
	agree("a byte more", append(bytes.Clone(whole), 0), false)
}
