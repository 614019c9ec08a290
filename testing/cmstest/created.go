package cmstest

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

func created(t *testing.T, s cms.Store) {
	c, ctx := Coordinator(t, s, time.Minute), t.Context()
	if _, err := c.Init(ctx, cms.Meta{}); err != nil {
		t.Fatal(err)
	}
	mark, err := c.Mark(ctx)
	if err != nil || mark == "" {
		t.Fatalf("mark of the session: %q, %v", mark, err)
	}
	if again, err := Coordinator(t, s, time.Minute).Mark(ctx); err != nil || again != mark {
		t.Errorf("another process has the mark %q, %v, not %q", again, err, mark)
	}
	long := strings.Repeat("ä", 300)
	for _, name := range []string{"a", long} {
		for _, state := range []string{cms.CreationIntended, cms.CreationDone} {
			changed, err := c.ChangeCreation(ctx, "index", name, func(was cms.Creation, now time.Time) (cms.Creation, bool) {
				if state == cms.CreationIntended && was.State != "" || now.IsZero() || was.Since.IsZero() {
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
	if changed, err := c.ChangeCreation(ctx, "template", "a", func(was cms.Creation, _ time.Time) (cms.Creation, bool) { return was, false }); err != nil || changed {
		t.Errorf("left alone: %v, %v", changed, err)
	}
	if x, err := c.Creation(ctx, "index", long); err != nil || x.Name != long || x.State != cms.CreationDone || string(x.Body) != `{"uuid":"u"}` {
		t.Errorf("%+v, %v", x, err)
	}
	if _, err := c.Creation(ctx, "template", "a"); !errors.Is(err, cms.ErrNotFound) {
		t.Errorf("another kind of the same name: %v", err)
	}
	for range 2 {
		if err := c.ForgetCreation(ctx, "index", long); err != nil {
			t.Errorf("forget: %v", err)
		}
	}
	var names []string
	for x, err := range c.Creations(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, x.Kind+" "+x.Name)
	}
	if strings.Join(names, ",") != "index a" {
		t.Errorf("left: %q", names)
	}
	if err := c.Busy(ctx); err != nil {
		t.Errorf("no worker is active: %v", err)
	}
	lease, err := c.AcquirePhase(ctx, cms.MetadataPhase, "w")
	if err != nil {
		t.Fatal(err)
	}
	var busy *cms.NoneAvailable
	if err := c.Busy(ctx); !errors.As(err, &busy) || busy.Holder != lease.Phase.Holder {
		t.Errorf("a phase is leased: %v", err)
	}
	if err := lease.Release(ctx, cms.CauseDrain, ""); err != nil {
		t.Fatal(err)
	}
	if err := c.Busy(ctx); err != nil {
		t.Errorf("the lease was given back: %v", err)
	}
	for range 2 {
		if err := c.BeginUndo(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.CheckUndone(ctx); !errors.Is(err, cms.ErrUndone) {
		t.Errorf("undone: %v", err)
	}
	if _, err := c.Init(ctx, cms.Meta{AcceptChange: true}); !errors.Is(err, cms.ErrUndone) {
		t.Errorf("joined: %v", err)
	}
}
