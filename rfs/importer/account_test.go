package importer_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/importer"
)

// TestTheWindowsOfADeadProcessAreFreeAtOnce kills a process in its window: the account shows the window and what is done of
// it, a daemon that saw the death frees it, and whoever comes next need not wait until the claim runs out.
func TestTheWindowsOfADeadProcessAreFreeAtOnce(t *testing.T) {
	for _, blamed := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			if a, err := importer.Read(t.Context(), w.store); err != nil || a.Began || a.Complete {
				t.Fatalf("before the begin: %+v, %v", a, err)
			}
			text := ""
			for n := range 60 {
				text += fmt.Sprintf(`{"index":{"_index":"i","_id":"%d"}}`+"\n"+`{"n":%d,"fill":"%060d"}`+"\n", n, n, n)
			}
			w.write("x.ndjson", text)
			w.target.takes = 30 * time.Second
			const lease = 10 * time.Minute
			slow := func(i *importer.Import) {
				i.Workers, i.Lease, i.Bulk.MaxBytes, i.Bulk.MaxInFlight, i.Window = 1, lease, 600, 1, 1<<20
			}
			ctx, kill := context.WithCancel(t.Context())
			m := &mortal{store: w.store, target: w.target, kill: kill, left: 1 << 30}
			var holds []importer.Hold
			ended := make(chan error)
			go func() {
				_, err := w.node(slow, func(i *importer.Import) {
					i.Store, i.Token, i.Tell = m, "host_1.example_pid7", func(h importer.Hold) { holds = append(holds, h) }
					i.Output = func(func() error) (bulk.Sender, error) { return m, nil }
				}).Run(ctx)
				ended <- err
			}()
			time.Sleep(2*time.Minute + 5*time.Second) // the progress was reported once
			m.die()
			<-ended
			a, err := importer.Read(t.Context(), w.store)
			if err != nil || len(a.Windows) != 1 || a.Complete || !a.Began {
				t.Fatalf("%+v, %v", a, err)
			}
			x := a.Windows[0]
			if x.Counts.Indexed == 0 || x.Done() != x.Offset || x.Done() <= 0 || x.Done() >= a.Size || x.Expire.IsZero() {
				t.Errorf("%+v", x)
			}
			if len(holds) < 3 || holds[0].Window != x.ID || holds[0].Holder != x.Holder || holds[0].Left <= 0 || holds[len(holds)-1] != (importer.Hold{}) {
				t.Errorf("the window is %s of %s, told was %+v", x.ID, x.Holder, holds)
			}
			over := func(holder string) string {
				t.Helper()
				why, err := importer.Over(t.Context(), w.store, x.ID, holder)
				if err != nil {
					t.Error(err)
				}
				return why
			}
			if why := over(x.Holder); why != "" {
				t.Errorf("a claim that runs is over: %s", why)
			}
			if over("somebody") == "" {
				t.Error("another's claim is taken for its own")
			}
			for _, token := range []string{"host_1.example_pid", "host_1.example_pid70", "other"} {
				if err := importer.Free(t.Context(), w.store, token, blamed); err != nil {
					t.Error(err)
				}
			}
			if over(x.Holder) != "" {
				t.Error("a window of another process was freed")
			}
			if err := importer.Free(t.Context(), w.store, "host_1.example_pid7", blamed); err != nil {
				t.Error(err)
			}
			if over(x.Holder) == "" {
				t.Error("the window of a dead process is still its own")
			}
			w.target.takes = 0
			began, claimed := time.Now(), time.Duration(0)
			s := run(t, w.node(slow, func(i *importer.Import) {
				i.Tell = func(importer.Hold) { claimed = max(claimed, time.Since(began)) }
			}))
			if claimed == 0 || claimed > time.Minute { // virtual time; the claim ran for 10 minutes
				t.Errorf("the window was claimed after %v", claimed)
			}
			if !s.Complete || s.Indexed != 60 || s.GivenUp != 0 {
				t.Errorf("%+v", s)
			}
			if a, err := importer.Read(t.Context(), w.store); err != nil || !a.Complete || len(a.Windows) != 0 || a.FileBytes != a.Size {
				t.Errorf("at the end: %+v, %v", a, err)
			}
			if why := over(x.Holder); why == "" {
				t.Error("a window that has ended is held")
			}
		})
	}
}

// TestADeathCountsAsAnAttemptWhenItIsBlamedOnTheWindow frees a window again and again whose holders never get on.
func TestADeathCountsAsAnAttemptWhenItIsBlamedOnTheWindow(t *testing.T) {
	for _, blamed := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			w.small()
			few := func(i *importer.Import) { i.Workers, i.MaxAttempts, i.Lease, i.Token = 1, 2, 30*time.Second, "p" }
			for range 6 {
				if !w.dies(few) {
					break // the window that kills was given up
				}
				if err := importer.Free(t.Context(), w.store, "p", blamed); err != nil {
					t.Error(err)
				}
				time.Sleep(31 * time.Second) // the leader's lock
			}
			s := run(t, w.node(few))
			if want := map[bool]int64{false: 0, true: 1}[blamed]; !s.Complete || s.GivenUp != want {
				t.Errorf("blamed %v: %+v", blamed, s)
			}
		})
	}
}
