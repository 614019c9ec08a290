package snapshot

import (
	"context"
	"io"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/repo"
)

// distant is a repository of which each request takes a round trip.
type distant struct{ memory }

const roundTrip = 50 * time.Millisecond

func (d distant) Open(ctx context.Context, name string, off, n int64) (io.ReadCloser, error) {
	time.Sleep(roundTrip)
	return d.memory.Open(ctx, name, off, n)
}

func (d distant) List(ctx context.Context, prefix string) iter.Seq2[repo.Blob, error] {
	time.Sleep(roundTrip)
	return d.memory.List(ctx, prefix)
}

func TestTheCatalogTakesTwoRoundTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		c, err := OpenCatalog(t.Context(), distant{memory{"index.latest": make([]byte, 8), "index-0": []byte(`{"snapshots":[],"indices":{}}`)}})
		if err != nil || len(c.Warnings) > 0 {
			t.Fatalf("%v, %q", err, c.Warnings)
		}
		if n := time.Since(began) / roundTrip; n != 2 {
			t.Errorf("%d round trips", n)
		}
	})
}
