package shards

import (
	"github.com/rfsd/rfsd/rfs/migration/plan"

	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// TestADocumentOfTheWorkerAllocatesNothing decodes and names documents whose sources are stored in one line.
func TestADocumentOfTheWorkerAllocatesNothing(t *testing.T) {
	of := newDocuments(plan.Entry{Naming: plan.Naming{Index: "logs"}}, 0, nil, nil)
	rec := &lucene.Record{IDKind: lucene.IDString, ID: []byte("1"), HasSource: true, Source: []byte(`{"a":1}`)}
	if n := testing.AllocsPerRun(100, func() {
		if _, keep, failure, err := of.of(t.Context(), rec); !keep || failure != nil || err != nil {
			t.Fatal(keep, failure, err)
		}
	}); n > 0 {
		t.Errorf("%.0f allocations for a document", n)
	}
}
