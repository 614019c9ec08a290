package follow_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// TestChain_NowOfAnUndoneSession: no round is named to a fleet after rfsctl undo, also between two rounds.
func TestChain_NowOfAnUndoneSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t)
		c := f.chain(f.store)
		next(t, c, "")
		if _, err := session.IdentityOf(f.root()).Init(t.Context(), session.Meta{}); err != nil {
			t.Fatal(err)
		}
		if err := session.IdentityOf(f.root()).BeginUndo(t.Context()); err != nil {
			t.Fatal(err)
		}
		if is, err := c.Now(t.Context(), time.Minute); !errors.Is(err, session.ErrUndone) {
			t.Errorf("%+v, %v", is, err)
		}
	})
}
