package rebuild

import (
	"strings"
	"testing"
)

// FuzzFlattened gives the order of an array of two values: it is the values in some order, with nulls, or an error.
func FuzzFlattened(f *testing.F) {
	f.Add([]byte{4, 2, 0})                    // two places: 1, 0
	f.Add([]byte{6, 1, 0, 2})                 // null, 0, 1
	f.Add([]byte{2, 4})                       // beyond the values
	f.Add([]byte{4, 2})                       // cut
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 15}) // a count of -1 or too many
	f.Fuzz(func(t *testing.T, b []byte) {
		places, err := appendPlaces(nil, b, 0)
		if err != nil {
			return
		}
		l := flattened{pairs: []pair{{"a", "x"}, {"a", "y"}, {"b", "z"}}}
		leaves, err := l.leaves(map[string][]int{"a": places})
		if err != nil {
			return
		}
		if len(leaves) != 2 || len(leaves[0].values) != len(places) {
			t.Fatalf("%d leaves, the first of %d values; want 2 and %d", len(leaves), len(leaves[0].values), len(places))
		}
		for i, v := range leaves[0].values {
			if want := []string{"", "x", "y"}[places[i]+1]; (v == nil) != (places[i] == -1) || v != nil && *v != want {
				t.Errorf("value %d of place %d is %v", i, places[i], v)
			}
		}
	})
}

// TestFlattenedOrders refuses orders that do not fit their values.
func TestFlattenedOrders(t *testing.T) {
	for _, c := range []struct {
		name   string
		orders map[string][]int
		want   string
	}{
		{"a place beyond the values", map[string][]int{"a": {0, 2}}, "value 2 of 2"},
		{"a place below null", map[string][]int{"a": {-2}}, "value -2 of 2"},
		{"values of a path that has none", map[string][]int{"c": {0}}, "missing values"},
		{"nulls only", map[string][]int{"c": {-1, -1}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := flattened{pairs: []pair{{"a", "x"}, {"a", "y"}}}
			_, err := l.leaves(c.orders)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}
