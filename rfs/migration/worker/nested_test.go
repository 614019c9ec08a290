package worker_test

import (
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestNestedDocumentsOfOldIndices: nested documents of an index created before Elasticsearch 6.1 carry _primary_term
// as root documents do, whatever version wrote them. They must be neither counted nor reported as documents without an id.
func TestNestedDocumentsOfOldIndices(t *testing.T) {
	for name, want := range map[string]int64{"6.0.1-nested": 1500, "in-place-2-5": 360, "in-place-5-6": 360} {
		t.Run(name, func(t *testing.T) {
			s := &migrationtest.Sink{Docs: map[string][32]byte{}}
			sum, err := runOnce(t, t.TempDir(), filepath.Join("..", "..", "..", "testing", "fixtures", name), "state.db", s, 0)
			if err != nil || !sum.Complete {
				t.Fatalf("%+v, %v", sum, err)
			}
			if c := sum.Totals; c.Live != want || c.Indexed != want || c.Failed != 0 {
				t.Errorf("live %d, indexed %d, failed %d; want %d documents", c.Live, c.Indexed, c.Failed, want)
			}
		})
	}
}
