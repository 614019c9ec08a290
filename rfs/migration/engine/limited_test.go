package engine_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

func TestLimited(t *testing.T) {
	body := make([]byte, 1000)
	t.Run("all items together keep to the rate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			d := engine.Limited(engine.ToNowhere(), throttle.New(500).Take)
			begin := time.Now()
			for shard := range 4 {
				out, err := d.Open(t.Context(), cms.ItemID{Index: "i", Shard: shard}, func() error { return nil })
				if err != nil {
					t.Fatal(err)
				}
				if _, err := out.Send(t.Context(), body, 1); err != nil {
					t.Fatal(err)
				}
				if err := out.Commit(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if took := time.Since(begin); took < 7900*time.Millisecond || took > 8100*time.Millisecond {
				t.Errorf("4,000 bytes at 500 per second took %v", took)
			}
			if !d.Durable() {
				t.Error("a limit changed whether bodies are durable")
			}
		})
	})
	t.Run("a lease that ended during the wait sends nothing", func(t *testing.T) {
		over := errors.New("over")
		sent := false
		out, err := engine.Limited(probe{&sent}, func(context.Context, int) error { return nil }).Open(t.Context(), cms.ItemID{}, func() error { return over })
		if err != nil {
			t.Fatal(err)
		}
		if _, err := out.Send(t.Context(), body, 1); !errors.Is(err, over) || sent {
			t.Errorf("%v, sent %v", err, sent)
		}
	})
}

// probe notes whether a body arrived.
type probe struct{ sent *bool }

func (p probe) Open(context.Context, cms.ItemID, func() error) (engine.Output, error) { return p, nil }
func (probe) Durable() bool                                                           { return true }
func (probe) Commit(context.Context) error                                            { return nil }
func (probe) Abort() error                                                            { return nil }

func (p probe) Send(context.Context, []byte, int) (bulk.Result, error) {
	*p.sent = true
	return bulk.Result{}, nil
}
