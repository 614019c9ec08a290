package worker_test

import (
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestTimeSeriesWithoutStoredIds: Elasticsearch 9.5 stores no ids in time series; they are computed as the cluster does. In
// the other index of the snapshot, which is columnar, they lie in doc values as all fields do.
func TestTimeSeriesWithoutStoredIds(t *testing.T) {
	s := &migrationtest.Sink{Docs: map[string][32]byte{}}
	sum, err := runOnce(t, t.TempDir(), filepath.Join("..", "..", "..", "testing", "fixtures", "9.5.3-timeseries-stored"), "state.db", s, 0)
	if err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	if c := sum.Totals; c.Live != 60 || c.Indexed != 60 || c.Failed != 0 || len(s.Docs) != 60 {
		t.Errorf("live %d, indexed %d, failed %d, %d ids; want 60 documents", c.Live, c.Indexed, c.Failed, len(s.Docs))
	}
	reduced := map[string]string{"tsdb-stored": "", "columnar": "synthetic source (columnar); rebuilt as the cluster answers it: 3 fields exact"}
	for _, x := range sum.Indices {
		if want, ok := reduced[x.Index]; !ok || x.Reduced != want {
			t.Errorf("%s: reduced source %q, want %q", x.Index, x.Reduced, want)
		}
	}
	if len(sum.Indices) != len(reduced) {
		t.Errorf("%d indices", len(sum.Indices))
	}
}
