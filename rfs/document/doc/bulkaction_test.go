package doc

import (
	"testing"

	"github.com/rfsd/rfsd/testing/fuzzing"
)

func FuzzActionLine(f *testing.F) {
	for _, line := range []string{
		`{"index":{"_index":"i","_id":"1"}}`, `{"index":{"_index":"i","_id":"ä","routing":"r","_type":"t"}}`, `{"delete":{"_id":"1"}}`, ` { "create" : {"_id":7.50, "_index":"i"} } `, `{"index":{}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		var quick, slow Action
		if !quick.parsePlain(b) {
			return
		}
		if !slow.parseJSON(b) {
			t.Fatalf("%q is taken for an action", b)
		}
		if string(quick.Index) != string(slow.Index) || string(quick.ID) != string(slow.ID) || string(quick.Routing) != string(slow.Routing) ||
			string(quick.Type) != string(slow.Type) || slow.Fault != "" {
			t.Errorf("%q: %+v, %+v", b, quick, slow)
		}
	})
}
