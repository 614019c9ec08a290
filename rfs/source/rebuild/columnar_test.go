package rebuild

import (
	"slices"
	"testing"
)

// slot is a value of FuzzSlots; keyed ones have a path.
type slot struct {
	path, value string
	null        bool
}

// appendSlots writes slots of less than 127 bytes as the cluster does.
func appendSlots(b []byte, all []slot, keyed bool) []byte {
	for _, s := range all {
		head := byte(len(s.value) + 1)
		if s.null {
			head = 0
		}
		b = append(b, head)
		if keyed {
			b = append(append(b, s.path...), 0)
		}
		b = append(b, s.value...)
	}
	return b
}

// FuzzSlots reads any bytes as slots. What is read is what they mean: written again it is the same.
func FuzzSlots(f *testing.F) {
	three := []slot{{"a.b", "x", false}, {"c", "", true}, {"a.b", "", false}}
	f.Add(appendSlots(nil, three, false), int64(3), false)
	f.Add(appendSlots(nil, three, true), int64(3), true)
	f.Add([]byte("one"), int64(1), false)
	f.Add([]byte{3, 'x'}, int64(2), false)                     // cut
	f.Add([]byte{2, 'x', 'y'}, int64(1), true)                 // no path
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF, 15}, int64(2), false) // a length of -1
	f.Add([]byte{1}, int64(1)<<40, true)                       // more slots than bytes
	f.Fuzz(func(t *testing.T, b []byte, count int64, keyed bool) {
		var all []slot
		plain := func(v []byte) error {
			all = append(all, slot{value: string(v), null: v == nil})
			return nil
		}
		err := eachSlot(b, count, plain)
		if keyed {
			all = nil
			err = eachKeyedSlot(b, count, func(path string, value *string) error {
				s := slot{path: path, null: value == nil}
				if value != nil {
					s.value = *value
				}
				all = append(all, s)
				return nil
			})
		}
		switch {
		case len(all) > len(b)+1:
			t.Fatalf("%d slots in %d bytes", len(all), len(b))
		case err != nil || slices.ContainsFunc(all, func(s slot) bool { return len(s.value) > 126 }):
			return
		case !keyed && count == 1:
			if string(b) != all[0].value {
				t.Errorf("%q became %q", b, all[0].value)
			}
		default: // a length may take more bytes than it needs
			if again := appendSlots(nil, all, keyed); len(again) == len(b) && string(again) != string(b) {
				t.Errorf("%q was read as %+v", b, all)
			}
		}
	})
}
