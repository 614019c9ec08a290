package snapshot

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/testing/repotest"
)

const roundTrip = 50 * time.Millisecond

func TestTheCatalogTakesTwoRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, err := OpenCatalog(t.Context(), repotest.Distant{Reader: memory{"index.latest": make([]byte, 8), "index-0": []byte(`{"snapshots":[],"indices":{}}`)}, Delay: roundTrip})
		if err != nil || len(c.Warnings) > 0 {
			t.Fatalf("%v, %q", err, c.Warnings)
		}
		if n := time.Since(began) / roundTrip; n != 2 {
			t.Errorf("%d round trips", n)
		}
	})
}
