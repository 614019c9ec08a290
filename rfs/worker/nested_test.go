package worker

import (
	"path/filepath"
	"testing"
)

// TestNestedDocumentsOfOldIndices: nested documents of an index created before Elasticsearch 6.1 carry _primary_term
// as root documents do. They must be neither counted nor reported as documents without an id.
func TestNestedDocumentsOfOldIndices(t *testing.T) {
	s := &sink{docs: map[string][32]byte{}}
	sum, err := runOnce(t, t.TempDir(), filepath.Join("..", "..", "testing", "fixtures", "6.0.1-nested"), "state.db", s, 0)
	if err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	if c := sum.Totals; c.Live != 1500 || c.Indexed != 1500 || c.Failed != 0 || len(s.docs) != 1500 {
		t.Errorf("live %d, indexed %d, failed %d, %d ids; want 1500 documents", c.Live, c.Indexed, c.Failed, len(s.docs))
	}
}
