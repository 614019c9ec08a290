package cms_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// eighth is a random source whose numbers are about an eighth of their range.
type eighth struct{}

func (eighth) Uint64() uint64 { return 1<<61 + 99991 }

// silent is a store that answers no search before a given time.
type silent struct {
	cms.Store
	until time.Time
}

func (s silent) Candidates(ctx context.Context, grace time.Duration, n int) ([]cms.Item, error) {
	if time.Now().Before(s.until) {
		return nil, fmt.Errorf("circuit_breaking_exception: %w", fault.ErrUnavailable)
	}
	return s.Store.Candidates(ctx, grace, n)
}

// TestShortPausesDoNotShortenAnOutage: a request is retried for a minute, however short its random pauses are, and not indefinitely.
func TestShortPausesDoNotShortenAnOutage(t *testing.T) {
	for _, c := range []struct {
		name      string
		outage    time.Duration
		contended int
		arrives   bool
	}{
		{"55 seconds", 55 * time.Second, 0, true},
		{"55 seconds, among many", 55 * time.Second, 2, true},
		{"two minutes", 2 * time.Minute, 0, false},
		{"two minutes, among many", 2 * time.Minute, 2, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bolt := boltstore.Open(t)
				begin := time.Now()
				coordinator := cms.New(cms.Config{Store: silent{bolt, begin.Add(c.outage)}, Creator: "test", Tries: c.contended, Rand: rand.New(eighth{})})
				if _, err := coordinator.SeedItems(t.Context(), func(yield func(cms.ItemID) bool) { yield(cms.ItemID{Index: "logs"}) }); err != nil {
					t.Fatal(err)
				}
				l, err := coordinator.AcquireNext(t.Context(), "w", nil)
				took := time.Since(begin)
				if (err == nil) != c.arrives || (l != nil) != c.arrives || took < min(c.outage, time.Minute) || took > 80*time.Second {
					t.Errorf("after %v: %v, %v", took, l, err)
				}
			})
		})
	}
}
