package importer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// TestTheItemsOfADeadProcessAreFreeAtOnce kills a process in its item: the account shows the item and what is done of it, a
// daemon that saw the death frees it, and the next process need not wait until the lease runs out.
func TestTheItemsOfADeadProcessAreFreeAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		if a := w.account(); a.Began || a.Complete {
			t.Fatalf("before the start: %+v", a)
		}
		text := ""
		for n := range 60 {
			text += fmt.Sprintf(`{"index":{"_index":"i","_id":"%d"}}`+"\n"+`{"n":%d,"fill":"%060d"}`+"\n", n, n, n)
		}
		w.write("x.ndjson", text)
		w.target.takes = 30 * time.Second
		slow := func(i *importer.Import) {
			i.Workers, i.Lease, i.Bulk.MaxBytes, i.Bulk.MaxInFlight, i.Window = 1, 10*time.Minute, 600, 1, 1<<20
		}
		ctx, kill := context.WithCancel(t.Context())
		m := &mortal{Store: w.store, target: w.target, kill: kill, left: 1 << 30}
		var holds []importer.Hold
		ended := make(chan error)
		go func() {
			_, err := w.node(slow, func(i *importer.Import) {
				i.Store, i.Token, i.Tell = m, "host_1.example_pid7", func(h importer.Hold) { holds = append(holds, h) }
				i.Destination = engine.ToCluster(m, engine.Limits{Connections: 64})
			}).Run(ctx)
			ended <- err
		}()
		time.Sleep(2*time.Minute + 5*time.Second) // the progress was recorded
		m.die()
		<-ended
		a := w.account()
		if len(a.Windows) != 1 || a.Complete || !a.Began || !a.Listed {
			t.Fatalf("%+v", a)
		}
		x := a.Windows[0]
		if x.Counts.Indexed == 0 || x.Done() <= 0 || x.Done() >= a.Size || x.Expiration == 0 || a.FileBytes != x.Done() || a.Indexed != x.Counts.Indexed {
			t.Errorf("%+v", a)
		}
		if len(holds) != 2 || holds[0].Window != x.Item.ID || holds[0].Holder != x.Holder || holds[0].File != "x.ndjson" || holds[0].Left <= 0 || holds[1] != (importer.Hold{}) {
			t.Errorf("the item is %s of %s, told was %+v", x.Item.ID, x.Holder, holds)
		}
		c := w.coordinator()
		for _, token := range []string{"host_1.example_pid", "host_1.example_pid70", "other"} {
			if err := session.HeldOf(c).ReleaseDead(t.Context(), token, cms.CauseKilled); err != nil {
				t.Error(err)
			}
		}
		if got := w.account().Windows[0]; got.Holder != x.Holder {
			t.Error("an item of another process was freed")
		}
		if err := session.HeldOf(c).ReleaseDead(t.Context(), "host_1.example_pid7", cms.CauseKilled); err != nil {
			t.Error(err)
		}
		w.target.takes = 0
		began, claimed := time.Now(), time.Duration(0)
		s := run(t, w.node(slow, func(i *importer.Import) {
			i.Tell = func(importer.Hold) { claimed = max(claimed, time.Since(began)) }
		}))
		if claimed > time.Minute { // virtual time; the lease ran for 10 minutes
			t.Errorf("the item was leased after %v", claimed)
		}
		if !s.Complete || s.Indexed != 60 || s.GivenUp != 0 {
			t.Errorf("%+v", s)
		}
		if a := w.account(); !a.Complete || len(a.Windows) != 1 || a.FileBytes != a.Size || a.Totals.Windows != 1 {
			t.Errorf("at the end: %+v", a)
		}
	})
}
