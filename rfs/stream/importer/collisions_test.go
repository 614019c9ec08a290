package importer_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// TestDocumentsOfOneIDOnOneShardAreNamed imports an id under two routings into an index of one shard, which this process creates,
// or which was there before.
func TestDocumentsOfOneIDOnOneShardAreNamed(t *testing.T) {
	for name, created := range map[string]bool{"an index that this process creates": true, "an index that was there": false} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.write("a.ndjson", `{"index":{"_index":"a","_id":"1","routing":"x"}}
{"n":1}
{"index":{"_index":"a","_id":"1","routing":"y"}}
{"n":2}
{"index":{"_index":"a","_id":"2"}}
{"n":3}
`)
				w.target.oneShard = true
				on := &cluster{}
				if !created {
					on.made = []string{"a"}
				}
				s := run(t, w.node(func(m *importer.Import) { m.Indices = &importer.TargetIndices{Cluster: on, Creates: true} }))
				lost := w.failed.All()
				if created && (s.Indexed != 2 || s.Failed != 1 || len(lost) != 1 || lost[0].Reason != doc.Collision || lost[0].ID != "1" || lost[0].Routing != "y") {
					t.Errorf("%+v, recorded %+v", s, lost)
				}
				if !created && (s.Indexed != 3 || len(lost) != 0) {
					t.Errorf("%+v, recorded %+v", s, lost)
				}
				if len(w.target.docs) != 2 {
					t.Errorf("the target has %v", w.target.docs)
				}
			})
		})
	}
}
