package cms_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// hanging is a store whose requests block until their context ends, while it hangs.
type hanging struct {
	cms.Store
	on atomic.Bool
}

func (h *hanging) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if h.on.Load() {
		<-ctx.Done()
		return time.Time{}, 0, errors.Join(ctx.Err(), fault.ErrUnavailable)
	}
	return h.Store.Now(ctx)
}

func TestRecordLease(t *testing.T) {
	begin := func(t *testing.T) (*hanging, *cms.Coordinator, *session.PhaseLease) {
		t.Helper()
		s := boltstore.Open(t)
		h := &hanging{Store: s}
		c := cms.New(cms.Config{Store: h, Creator: "test"})
		l, err := session.PhasesOf(c).Acquire(t.Context(), session.MetadataPhase, "w")
		if err != nil {
			t.Fatal(err)
		}
		return h, c, l
	}
	t.Run("the work ends before the lease does while the store hangs", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			h, _, l := begin(t)
			start := time.Now()
			err := l.Run(t.Context(), func(ctx context.Context) error {
				h.on.Store(true)
				<-ctx.Done()
				return ctx.Err()
			})
			if took := time.Since(start); took >= time.Minute || !errors.Is(err, fault.ErrLeaseLost) {
				t.Errorf("the work ended after %s of a minute: %v", took, err)
			}
		})
	})
	t.Run("it is renewed as long as the work lasts, and then released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			_, c, l := begin(t)
			err := l.Run(t.Context(), func(ctx context.Context) error {
				select {
				case <-time.After(time.Hour):
					return nil
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := session.PhasesOf(c).Acquire(t.Context(), session.MetadataPhase, "other"); err == nil {
				t.Fatal("leased twice")
			}
			if err := l.Release(t.Context(), cms.CauseDrain, ""); err != nil {
				t.Fatal(err)
			}
			if next, err := session.PhasesOf(c).Acquire(t.Context(), session.MetadataPhase, "other"); err != nil || next.Phase.Attempts != 1 {
				t.Errorf("%+v %v", next, err)
			}
		})
	})
}
