package lucene

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/lucene/codec"
	"github.com/rfsd/rfsd/rfs/source/lucene/columns"
)

// TestStoredNumbers reads floats and doubles in each form, as the writers of Lucene 5 to 8 and of 9 and later lay them out.
func TestStoredNumbers(t *testing.T) {
	float, double := storedFloat, storedDouble
	for _, c := range []struct {
		name  string
		read  func(*codec.Input) float64
		bytes string
		le    bool
		want  float64
	}{
		{"small float", float, "83", true, 2},
		{"positive float, Lucene 8", float, "3dcccccd", false, float64(float32(0.1))},
		{"positive float", float, "7fc9ff9e", false, float64(math.Float32frombits(0x7fc9ff9e))},
		{"positive float, Lucene 9", float, "7fc9ff9e", true, float64(math.Float32frombits(0x7fffc99e))},
		{"negative float, Lucene 8", float, "ffc0000000", false, -2},
		{"negative float, Lucene 9", float, "ff000000c0", true, -2},
		{"small double", double, "80", true, -1},
		{"double that is a float, Lucene 8", double, "fe3f000000", false, 0.5},
		{"double that is a float, Lucene 9", double, "fe0000003f", true, 0.5},
		{"positive double, Lucene 8", double, "3fb999999999999a", false, 0.1},
		{"positive double, Lucene 9", double, "3f999999b999999a", true, 0.1},
		{"negative double, Lucene 8", double, "ffbfb999999999999a", false, -0.1},
		{"negative double, Lucene 9", double, "ff9a9999999999b9bf", true, -0.1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := hex.DecodeString(c.bytes)
			if err != nil {
				t.Fatal(err)
			}
			in := codec.NewInput(b)
			in.SetLittleEndian(c.le)
			got := c.read(in)
			if math.Float64bits(got) != math.Float64bits(c.want) && !(math.IsNaN(got) && math.IsNaN(c.want)) || in.Err() != nil || in.Left() != 0 {
				t.Errorf("%s is %v (%d bytes left, %v), want %v", c.bytes, got, in.Left(), in.Err(), c.want)
			}
		})
	}
	for _, cut := range []string{"", "3d", "ff00", "3dcc"} {
		b, err := hex.DecodeString(cut)
		if err != nil {
			t.Fatal(err)
		}
		in := codec.NewInput(b)
		if storedDouble(in); in.Err() == nil {
			t.Errorf("the cut number %q was read", cut)
		}
	}
}

// TestColumnsOfASegmentHoldWithinOneBound: what one column holds is missing for the others; little is always held.
func TestColumnsOfASegmentHoldWithinOneBound(t *testing.T) {
	v := &Values{opened: map[string]*Column{}}
	one, two := valuesData{values: v}, valuesData{values: v}
	for _, c := range []struct {
		name     string
		most     int64
		one, two int64
		long     bool
	}{
		{"little, whatever the bound is", 1, leastHeld / 2, leastHeld / 2, false},
		{"more than that", 1, leastHeld / 2, leastHeld/2 + 1, true},
		{"within the bound", 8 * leastHeld, 4 * leastHeld, 4 * leastHeld, false},
		{"beyond the bound", 8 * leastHeld, 4 * leastHeld, 4*leastHeld + 1, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			v.held = 0
			v.Bound(c.most)
			if err := one.Hold(c.one); err != nil {
				t.Error(err)
			}
			if err := two.Hold(c.two); errors.Is(err, columns.ErrLong) != c.long || err != nil && !c.long {
				t.Errorf("%v", err)
			}
		})
	}
	for range 1000 {
		v.opened[fmt.Sprint(len(v.opened))] = nil
	}
	if n := one.Page(); n*int64(len(v.opened)) > 32<<20 {
		t.Errorf("%d columns read pages of %d bytes each", len(v.opened), n)
	}
}

// TestAFormatThatIsNotReadNamesWhatToDo opens a column of the format Memory, which mappings of Elasticsearch 1.x could ask for.
func TestAFormatThatIsNotReadNamesWhatToDo(t *testing.T) {
	f := &fieldInfo{name: "price", docValues: dvNumeric, dvGen: -1, attrs: attributes{attrFormat: "Memory", attrSuffix: "0"}}
	v := &Values{opened: map[string]*Column{}, storedDoc: storedDoc{infos: &fieldInfos{byName: map[string]*fieldInfo{"price": f}}}}
	_, err := v.Column(t.Context(), "price")
	if !errors.Is(err, fault.ErrUnsupported) || !strings.Contains(err.Error(), `column price: doc values of format "Memory"`) || !strings.Contains(err.Error(), "set doc_values_format") {
		t.Error(err)
	}
}
