package session_test

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func TestWhateverADeadProcessHeldIsFreeAtOnce(t *testing.T) {
	c := intentCoordinator(t)
	ctx := t.Context()
	id := cms.ItemID{Index: "logs"}
	if _, err := c.SeedItems(ctx, func(yield func(cms.ItemID) bool) { yield(id) }); err != nil {
		t.Fatal(err)
	}
	hold := func(holder string) {
		t.Helper()
		if _, err := c.AcquireSetup(ctx, holder); err != nil {
			t.Fatal(err)
		}
		if _, err := session.PhasesOf(c).Acquire(ctx, session.SnapshotPhase, holder); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AcquireNext(ctx, holder, nil); err != nil {
			t.Fatal(err)
		}
	}
	hold("a")
	const a, aa = `{"holder":"a_00112233445566778899aabbccddeeff","part":7,"expire":9}`, `{"holder":"aa_00112233445566778899aabbccddeeff","part":7,"expire":9}`
	parts := func() (text string) {
		t.Helper()
		for _, id := range []string{"permits:rate", "permits:read-rate"} {
			r, err := c.Store().Record(ctx, id)
			if err != nil {
				t.Fatal(err)
			}
			text += string(r.Body)
		}
		return text
	}
	for _, id := range []string{"permits:rate", "permits:read-rate"} {
		if _, err := c.Store().Put(ctx, cms.Record{ID: id, Kind: "permits", Body: []byte(`{"permits":[` + a + "," + aa + `]}`)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, other := range []string{"b", "a_a", ""} { // another process, or none
		if err := session.HeldOf(c).ReleaseDead(ctx, other, cms.CauseKilled); err != nil {
			t.Fatal(err)
		}
		if it, err := c.Item(ctx, id); err != nil || it.Holder == "" {
			t.Fatalf("%+v, %v: the lease of a living process was taken by %q", it, err, other)
		}
		if both := `{"permits":[` + a + "," + aa + `]}`; parts() != both+both {
			t.Fatalf("%q released parts of the rates: %s", other, parts())
		}
	}
	if err := session.HeldOf(c).ReleaseDead(ctx, "a", cms.CauseKilled); err != nil {
		t.Fatal(err)
	}
	if left := `{"permits":[` + aa + `]}`; parts() != left+left {
		t.Errorf("parts of the rates: %s", parts())
	}
	it, err := c.Item(ctx, id)
	if err != nil || it.Holder != "" || it.Attempts != 0 {
		t.Errorf("%+v, %v", it, err)
	}
	p, err := session.PhasesOf(c).Read(ctx, session.SnapshotPhase)
	if err != nil || p.Holder != "" || p.Attempts != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	hold("b")
}
