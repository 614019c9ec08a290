package limits_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/limits"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestLimits_TheWholeRateIsThereAfterwards checks that the comparison at the end of a migration can read after the permit was released.
// Waiting for a permit, it would never end.
func TestLimits_TheWholeRateIsThereAfterwards(t *testing.T) {
	store := boltstore.Open(t)
	const rate = 100 << 20
	bucket := throttle.New(rate)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stop := limits.New(limits.Options{MaxReadRate: rate, Slots: 1, Reading: bucket}).Hold(ctx, store, "", slog.New(slog.DiscardHandler))
	if err := bucket.Take(ctx, 1000); err != nil {
		t.Errorf("with a permit: %v", err)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
	if n := bucket.InUse(); n != rate {
		t.Errorf("%d of %d bytes per second afterwards", n, rate)
	}
	if err := bucket.Take(ctx, 1000); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
