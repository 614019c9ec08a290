package snapshot_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// TestNestedTermsUntil61: the version that created an index decides what its nested documents carry, whatever wrote to it.
func TestNestedTermsUntil61(t *testing.T) {
	for created, want := range map[int64]bool{
		0: false, 2_04_06_99: true, 5_06_16_99: true, 6_00_01_99: true, 6_01_00_99: false, 6_08_23_99: false, 8_536_00_0: false,
		135_217_827 + 2_19_04_99: false, // OpenSearch
	} {
		if got := (snapshot.Locator{Created: created}).NestedTerms(); got != want {
			t.Errorf("created by %d: %v", created, got)
		}
	}
}
