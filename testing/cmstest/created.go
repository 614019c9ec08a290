package cmstest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func created(t *testing.T, s cms.Store) {
	c, ctx := Coordinator(t, s, time.Minute), t.Context()
	if _, err := session.IdentityOf(c).Init(ctx, session.Meta{}); err != nil {
		t.Fatal(err)
	}
	mark, err := session.IdentityOf(c).Mark(ctx)
	if err != nil || mark == "" {
		t.Fatalf("mark of the session: %q, %v", mark, err)
	}
	if again, err := session.IdentityOf(Coordinator(t, s, time.Minute)).Mark(ctx); err != nil || again != mark {
		t.Errorf("another process has the mark %q, %v, not %q", again, err, mark)
	}
	long := strings.Repeat("ä", 300)
	for _, name := range []string{"a", long} {
		for _, state := range []string{session.CreationIntended, session.CreationDone} {
			changed, err := session.CreatedOf(c).Change(ctx, "index", name, func(was session.Creation, now time.Time) (session.Creation, bool) {
				if state == session.CreationIntended && was.State != "" || now.IsZero() || was.Since.IsZero() {
					t.Errorf("before the intent: %+v", was)
				}
				was.State, was.Body = state, json.RawMessage(`{"uuid":"u"}`)
				return was, true
			})
			if err != nil || !changed {
				t.Fatalf("%s %s: %v, %v", name, state, changed, err)
			}
		}
	}
	if changed, err := session.CreatedOf(c).Change(ctx, "template", "a", func(was session.Creation, _ time.Time) (session.Creation, bool) { return was, false }); err != nil || changed {
		t.Errorf("left alone: %v, %v", changed, err)
	}
	if x, err := session.CreatedOf(c).Read(ctx, "index", long); err != nil || x.Name != long || x.State != session.CreationDone || string(x.Body) != `{"uuid":"u"}` {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := session.CreatedOf(c).Read(ctx, "template", "a"); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("another kind of the same name: %v", err)
	}
	for range 2 {
		if err := session.CreatedOf(c).Forget(ctx, "index", long); err != nil {
			t.Errorf("forget: %v", err)
		}
	}
	var names []string
	for x, err := range session.CreatedOf(c).All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Kind+" "+x.Name)
	}
	if strings.Join(names, ",") != "index a" {
		t.Errorf("left: %q", names)
	}
	if err := session.HeldOf(c).Busy(ctx); err != nil {
		t.Errorf("no worker is active: %v", err)
	}
	lease, err := session.PhasesOf(c).Acquire(ctx, session.MetadataPhase, "w")
	if err != nil {
		t.Fatal(err)
	}
	var busy *cms.NoneAvailable
	if err := session.HeldOf(c).Busy(ctx); !errors.As(err, &busy) || busy.Holder != lease.Phase.Holder {
		t.Errorf("a phase is leased: %v", err)
	}
	if err := lease.Release(ctx, cms.CauseDrain, ""); err != nil {
		t.Fatal(err)
	}
	if err := session.HeldOf(c).Busy(ctx); err != nil {
		t.Errorf("the lease was released: %v", err)
	}
	for range 2 {
		if err := session.IdentityOf(c).BeginUndo(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := session.IdentityOf(c).CheckUndone(ctx); !errors.Is(err, session.ErrUndone) {
		t.Errorf("undone: %v", err)
	}
	if _, err := session.IdentityOf(c).Init(ctx, session.Meta{}); !errors.Is(err, session.ErrUndone) {
		t.Errorf("joined: %v", err)
	}
}
