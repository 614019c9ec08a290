package web_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// ended makes a session of two indices with two shards each that has ended.
func ended() status.Report {
	m := &progress.Migration{Session: "night", ReadAt: time.Now(), Complete: true, Intent: progress.Intent{State: "run"}}
	for _, name := range []string{"snapshot", "metadata", "indices", "documents"} {
		m.Phases = append(m.Phases, progress.Phase{Name: name, State: progress.Completed})
	}
	for _, name := range []string{"catalogue", "orders"} {
		x := progress.Index{Name: name, State: progress.Completed, Targets: []string{name}, Counts: progress.Counts{Indexed: 80, Bytes: 2000, BytesDone: 2000}}
		for n := range 2 {
			x.Shards = append(x.Shards, progress.Shard{Number: n, State: progress.Completed, Bytes: 1000, Fraction: 1, Counts: progress.Counts{Indexed: 40, Bytes: 1000, BytesDone: 1000}})
		}
		m.Indices = append(m.Indices, x)
	}
	m.Totals = progress.Counts{Shards: 4, ShardsDone: 4, Indexed: 160, Bytes: 4000, BytesDone: 4000}
	return status.Report{Node: status.Node{Name: "mover-1", Version: "1.0", State: "done", Wanted: 2, Running: 0}, Migration: m,
		Progress: progress.View{State: progress.StateComplete, Documents: 160, Share: 1}, Workers: []status.Worker{}}
}

// TestThePageShowsTheWorst: words and colours of the page are those of the worst thing that happened, and losses come first.
func TestThePageShowsTheWorst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	type look struct{ State, Class, Bar, Facts, Phase, First, FirstCell, Silence string }
	for i, c := range []struct {
		name   string
		change func(r *status.Report)
		want   look // parts of the texts, and classes
	}{
		{"complete", func(*status.Report) {}, look{"complete", "state done", "bar done", "4 of 4", "done", "catalogue", "shard done", ""}},
		{"documents failed", func(r *status.Report) {
			r.Progress.State, r.Progress.Failed = progress.StateLosses, 6
			x := &r.Migration.Indices[1]
			x.Counts.Failed, x.Shards[0].Counts.Failed = 6, 6
		}, look{"complete with losses, 6 documents failed", "state lossy", "bar lossy", "4 of 4", "lossy", "orders", "shard done lossy", ""}},
		{"a shard is lost", func(r *status.Report) {
			r.Progress.State, r.Progress.GivenUp, r.Progress.Undelivered, r.Progress.ShardsFailed, r.Progress.Share = progress.StateLosses, 1, 38, 1, 0.75
			r.Migration.Totals.ShardsDone, r.Migration.Totals.ShardsFailed, r.Migration.Totals.Undelivered = 3, 1, 38
			r.Migration.Failures = []progress.Failure{{Reason: "corrupt blob", Count: 1, Examples: []string{"orders/0"}}}
			x := &r.Migration.Indices[1]
			x.State, x.Error = progress.Failed, "corrupt blob"
			x.Shards[0] = progress.Shard{State: progress.Failed, Bytes: 1000, Error: "corrupt blob"}
		}, look{"complete with losses, 1 given up, at most 38 documents not delivered", "state bad", "bar bad", "3 of 4, 1 failed", "bad", "orders", "shard bad", ""}},
		{"no process is at work", func(r *status.Report) {
			last := r.Migration.ReadAt.Add(-45 * time.Second)
			r.Node.State, r.Migration.Complete, r.Migration.LastReport = "running", false, &last
			r.Migration.Phases[3].State = progress.InProgress
			r.Migration.Holders = []progress.Holder{{Name: "vm_pid7549", Items: 1, Expiry: r.Migration.ReadAt.Add(10 * time.Minute)}}
			r.Progress = progress.View{State: progress.StateSilent, Silent: 45, Share: 0.5, Documents: 80}
		}, look{"running, no report of a worker", "state lossy", "bar ", "unknown", "doing", "catalogue", "shard done", "vm_pid7549 holds 1 item until"}},
		{"the node failed", func(r *status.Report) {
			r.Node.State, r.Node.Reason, r.Migration.Complete = "failed", "aliases of orders: rejected", false
			r.Migration.Phases[3].State = progress.InProgress
			r.Progress = progress.View{State: progress.StateWaiting, Share: 0.99, Documents: 160}
		}, look{"failed", "state failed", "bar ", "unknown", "doing", "catalogue", "shard done", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ended()
			c.change(&r)
			s := newSite(t, r, nil)
			must(t, b.Look(ctx, 1280, 900, i%2 == 1))
			must(t, b.Open(ctx, s.URL+"/"))
			must(t, b.Wait(ctx, "document.querySelectorAll('.shard').length === 4"))
			var got look
			must(t, b.Eval(ctx, `({State: document.getElementById('state').textContent, Class: document.getElementById('state').className, Bar: document.getElementById('all').className,
				Facts: document.getElementById('facts').textContent, Phase: document.querySelector('#phases li:last-child').className, First: document.querySelector('#indices .name').textContent,
				FirstCell: document.querySelector('#indices .shard').className.trim(), Silence: document.getElementById('silence').textContent})`, &got))
			if got.State != c.want.State || got.Class != c.want.Class || got.Bar != c.want.Bar || !strings.Contains(got.Facts, c.want.Facts) || got.Phase != c.want.Phase ||
				got.First != c.want.First || got.FirstCell != c.want.FirstCell || !strings.Contains(got.Silence, c.want.Silence) || c.want.Silence == "" && got.Silence != "" {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
			keep(t, ctx, b, "page-"+strings.ReplaceAll(c.name, " ", "-")+".png")
		})
	}
}
