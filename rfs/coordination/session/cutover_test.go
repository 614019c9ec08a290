package session_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestCutovers_Order: before any round, while an order is in progress, and after the end.
func TestCutovers_Order(t *testing.T) {
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	s, rounds, ctx := session.CutoversOf(c), session.RoundsOf(c), t.Context()
	order := func() error {
		_, err := s.Order(ctx, session.CutoverOptions{MaxOutage: 1000}, "me")
		return err
	}
	if _, err := s.Return(ctx, "x"); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a return without an order: %v", err)
	}
	if err := order(); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("before the first round: %v", err)
	}
	if _, err := rounds.Start(ctx, session.Round{}); err != nil {
		t.Fatal(err)
	}
	if err := order(); err != nil {
		t.Error(err)
	}
	if err := order(); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a second order: %v", err)
	}
	if is, err := s.Return(ctx, "not now"); err != nil || is.State != session.CutoverReturned || is.Reason != "not now" || is.Open() || is.Outage() != 0 {
		t.Errorf("a return before the outage: %+v, %v", is, err)
	}
	if err := order(); err != nil {
		t.Error(err)
	}
	now := func() session.Cutover {
		is, _, err := s.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		return is
	}
	former, blocked := now(), now()
	former.Ordered--
	if _, err := s.Move(ctx, former, func(*session.Cutover, int64) {}); !errors.Is(err, session.ErrCutoverMoved) {
		t.Errorf("an earlier order was moved: %v", err)
	}
	blocked.State = session.CutoverBlocked
	if _, err := s.Move(ctx, blocked, func(*session.Cutover, int64) {}); !errors.Is(err, session.ErrCutoverMoved) {
		t.Errorf("moved from a state that it is not in: %v", err)
	}
	_, err := s.Move(ctx, now(), func(c *session.Cutover, _ int64) {
		for i := range 20_001 {
			c.Blocks = append(c.Blocks, fmt.Sprint(i))
		}
	})
	if !errors.Is(err, fault.ErrConfig) {
		t.Errorf("too many indices: %v", err)
	}
	_, err = s.Move(ctx, now(), func(c *session.Cutover, now int64) {
		c.State, c.Blocked, c.Blocks = session.CutoverBlocked, now-5000, []string{"b", "a", "b"}
	})
	if err != nil {
		t.Error(err)
	}
	is, err := s.Return(ctx, "too slow")
	if err != nil || is.State != session.CutoverReturning || len(is.Blocks) != 2 || !is.Open() {
		t.Errorf("a return with blocks: %+v, %v", is, err)
	}
	if again, err := s.Return(ctx, "again"); err != nil || again.Reason != "too slow" {
		t.Errorf("%+v, %v", again, err)
	}
	is, err = s.Move(ctx, now(), func(c *session.Cutover, now int64) { c.State, c.Ended = session.CutoverReturned, now })
	if err != nil || is.Outage() < 5*time.Second || is.Outage() > time.Minute {
		t.Errorf("outage of %s, %v", is.Outage(), err)
	}
	if err := rounds.Finish(ctx); err != nil {
		t.Fatal(err)
	}
	if err := order(); !errors.Is(err, session.ErrFinished) {
		t.Errorf("after the end: %v", err)
	}
}

// TestCheckEnded refuses a followed session until it is finished or undone, and a cut-over in each open state.
func TestCheckEnded(t *testing.T) {
	for _, x := range []struct {
		state  session.CutoverState // "": none was ordered
		words  string               // of the refusal of the cut-over
		finish bool
		undo   bool
	}{
		{state: ""}, {state: session.CutoverReturned}, {state: "", finish: true}, {state: "", undo: true},
		{state: session.CutoverOrdered, words: "by me is ORDERED; end it first"}, {state: session.CutoverBlocked, words: "or return from it (rfsctl cutover --abort)"},
		{state: session.CutoverReturning, words: "with the options of the session):"}, {state: session.CutoverFinishing, words: "with the options of the session):", finish: true},
		{state: session.CutoverDone, finish: true},
	} {
		t.Run(fmt.Sprint(x), func(t *testing.T) {
			store := boltstore.Open(t)
			c := cms.New(cms.Config{Store: store, Creator: "test"})
			must := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			rounds, cutovers, identity := session.RoundsOf(c), session.CutoversOf(c), session.IdentityOf(c)
			must(rounds.CheckEnded(t.Context())) // nothing was followed yet
			_, err := identity.Init(t.Context(), session.Meta{Settings: map[string]string{"snapshot": "a"}})
			must(err)
			_, err = rounds.Start(t.Context(), session.Round{Snapshot: "a"})
			must(err)
			if x.state != "" {
				is, err := cutovers.Order(t.Context(), session.CutoverOptions{MaxOutage: 1000}, "me")
				must(err)
				_, err = cutovers.Move(t.Context(), is, func(c *session.Cutover, _ int64) { c.State = x.state })
				must(err)
			}
			if x.finish {
				must(rounds.Finish(t.Context()))
			}
			if x.undo {
				must(identity.BeginUndo(t.Context()))
			}
			if err := cutovers.CheckEnded(t.Context()); (err != nil) != (x.words != "") || err != nil && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), x.words)) {
				t.Errorf("the cut-over: %v", err)
			}
			if err := rounds.CheckEnded(t.Context()); (err == nil) != (x.finish || x.undo) || err != nil && !errors.Is(err, fault.ErrConfig) {
				t.Errorf("the rounds: %v", err)
			}
		})
	}
}
