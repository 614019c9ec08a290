package importer_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func TestFilesOfFailedDocumentsAreRefusedByName(t *testing.T) {
	for _, c := range []struct {
		name    string
		failure doc.Failure
	}{
		{"with a source", doc.Failure{Index: "a", ID: "1", Type: "t", Routing: "r", Reason: "strict_dynamic_mapping_exception", Status: 400, Detail: "no", Source: []byte(`{"n":1}`)}},
		{"without a source", doc.Failure{Index: "a", ID: `x"{`, Shard: 3, Ordinal: 7, Reason: doc.NoSource}},
		{"with a long source", doc.Failure{Index: "a", ID: "1", Reason: "mapper_parsing_exception", Status: 400, Source: []byte(`{"n":"` + strings.Repeat("x", 1<<20) + `"}`)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.write("a.ndjson", "{\"index\":{\"_index\":\"a\",\"_id\":\"1\"}}\n{}\n")
				w.write("host_pid1.ndjson", string(failed.AppendLine(nil, &c.failure, failed.Full)))
				_, err := w.node().Run(t.Context())
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "host_pid1.ndjson") || !strings.Contains(err.Error(), "rfsd redrive --failed-documents") {
					t.Errorf("%v", err)
				}
				if len(w.target.docs) != 0 {
					t.Errorf("%d documents arrived all the same", len(w.target.docs))
				}
			})
		})
	}
}
