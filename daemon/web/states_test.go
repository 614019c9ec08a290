package web_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
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

// running makes the same session while half of it is done.
func running() status.Report {
	r := ended()
	m := r.Migration
	left := 75.0
	r.Node.State, r.Node.Running, m.Complete, m.Phases[3] = "running", 2, false, progress.Phase{Name: "documents", State: progress.InProgress, Done: 2, Total: 4, Unit: "items"}
	x := &m.Indices[1]
	x.State, x.Counts = progress.InProgress, progress.Counts{Indexed: 10, Bytes: 2000, BytesDone: 500}
	x.Shards[0].State, x.Shards[0].Fraction, x.Shards[0].Counts = progress.InProgress, 0.5, progress.Counts{Indexed: 10, Bytes: 1000, BytesDone: 500}
	x.Shards[1] = progress.Shard{Number: 1, State: progress.NotStarted, Bytes: 1000}
	m.Totals = progress.Counts{Shards: 4, ShardsDone: 2, Leased: 1, Indexed: 90, Bytes: 4000, BytesDone: 2500}
	r.Progress = progress.View{State: progress.StateWorking, Documents: 90, Share: 0.625, Rate: 645, Mean: 512, ByteRate: 2 << 20, Left: &left}
	r.Workers = []status.Worker{
		{Slot: 0, PID: 100, State: "working", Phase: "documents", PhaseState: progress.InProgress, Item: "i", Index: "orders", Rate: 645, Indexed: 10, Resident: 180 << 20},
		{Slot: 1, State: "waiting"},
	}
	return r
}

// followed makes a session of which three rounds have arrived, one of them with failed documents, and a fourth is in progress.
func followed() status.Report {
	r := ended()
	now, lag := r.Migration.ReadAt, 912.0
	at := func(ago time.Duration) time.Time { return now.Add(-ago) }
	arrived := func(ago time.Duration) *time.Time { return new(at(ago)) }
	r.Migration.Lag = &lag
	r.Migration.Rounds = &progress.Following{Rounds: []progress.Round{
		{Number: 0, Snapshot: "rfs-live", Started: at(3 * time.Hour), Arrived: arrived(time.Hour), Account: session.Account{Inserted: 160}},
		{Number: 1, Snapshot: "rfs-live-round-1", Started: at(30 * time.Minute), Arrived: arrived(29 * time.Minute), Account: session.Account{Inserted: 20, Updated: 7, Deleted: 3}},
		{Number: 2, Snapshot: "rfs-live-round-2", Started: at(912 * time.Second), Arrived: arrived(15 * time.Minute), Account: session.Account{Inserted: 5, Updated: 90}},
		{Number: 3, Started: at(12 * time.Second)},
	}}
	return r
}

// failing makes six documents of orders fail.
func failing(r *status.Report) {
	r.Progress.State, r.Progress.Failed = progress.StateLosses, 6
	x := &r.Migration.Indices[1]
	x.Counts.Failed, x.Shards[0].Counts.Failed = 6, 6
}

// TestThePageShowsTheWorst: text and colours of the page show the worst event, and losses come first. In each state, on a desktop and on a
// phone, light and dark, every control can be reached by keyboard, and axe-core finds no problem.
func TestThePageShowsTheWorst(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	type look struct{ State, Class, Bar, Facts, Phase, First, FirstCell, Silence, Losses, Alarm string }
	for _, c := range []struct {
		name   string
		start  func() status.Report
		change func(r *status.Report)
		want   look // parts of the texts, and classes
	}{
		{"running", running, func(*status.Report) {}, look{"running", "state doing", "bar doing", "645 (mean 512)", "doing", "catalogue", "shard done", "", "", ""}},
		{"waiting", running, func(r *status.Report) {
			r.Node.Running, r.Migration.Totals.Leased, r.Workers[0] = 0, 0, status.Worker{Slot: 0, State: "backing off", Restarts: 3, LastExit: "signal: killed"}
			r.Progress.State, r.Progress.Rate, r.Progress.Left = progress.StateWaiting, 0, nil
		}, look{"waiting", "state wait", "bar wait", "unknown", "doing", "catalogue", "shard done", "no worker holds any of it", "", ""}},
		{"paused", running, func(r *status.Report) {
			r.Node.State, r.Node.Reason, r.Progress.State, r.Progress.Left = "paused", "by ann", progress.StatePaused, nil
		}, look{"paused", "state wait", "bar wait", "unknown", "doing", "catalogue", "shard done", "", "", ""}},
		{"complete", ended, func(*status.Report) {}, look{"complete", "state done", "bar done", "4 of 4", "done", "catalogue", "shard done", "", "", ""}},
		{"documents failed", ended, failing, look{"complete with losses, 6 documents failed", "state lossy", "bar lossy", "4 of 4", "lossy", "orders", "shard done lossy", "", "orders6strict_mapping", ""}},
		{"documents failed so far", running, func(r *status.Report) {
			failing(r)
			r.Progress.State = progress.StateWorking
		}, look{"running, 6 documents failed", "state lossy", "bar lossy", "645", "doing", "orders", "shard doing lossy", "", "PUT orders/_mapping", ""}},
		{"a shard is lost", ended, func(r *status.Report) {
			r.Progress.State, r.Progress.GivenUp, r.Progress.Undelivered, r.Progress.ShardsFailed, r.Progress.Share = progress.StateLosses, 1, 38, 1, 0.75
			r.Migration.Totals.ShardsDone, r.Migration.Totals.ShardsFailed, r.Migration.Totals.Undelivered = 3, 1, 38
			r.Migration.Failures = []progress.Failure{{Reason: "corrupt blob", Count: 1, Examples: []string{"orders/0"}}}
			x := &r.Migration.Indices[1]
			x.State, x.Error = progress.Failed, "corrupt blob"
			x.Shards[0] = progress.Shard{State: progress.Failed, Bytes: 1000, Error: "corrupt blob"}
		}, look{"complete with losses, 1 given up, at most 38 documents not delivered", "state bad", "bar bad", "3 of 4, 1 failed", "bad", "orders", "shard bad", "", "corrupt blob1orders/0", ""}},
		{"no process is at work", running, func(r *status.Report) {
			last := r.Migration.ReadAt.Add(-45 * time.Second)
			r.Migration.LastReport = &last
			r.Migration.Holders = []progress.Holder{{Name: "vm_pid7549", Items: 1, Expiry: r.Migration.ReadAt.Add(10 * time.Minute)}}
			r.Progress = progress.View{State: progress.StateSilent, Silent: 45, Share: 0.5, Documents: 80}
		}, look{"running, no report of a worker", "state wait", "bar wait", "unknown", "doing", "catalogue", "shard done", "vm_pid7549 holds 1 item until", "", ""}},
		{"failed", running, func(r *status.Report) {
			r.Node.State, r.Node.Reason, r.Node.Running = "failed", "aliases of orders: rejected", 0
			r.Progress = progress.View{State: progress.StateWaiting, Share: 0.99, Documents: 160}
		}, look{"failed", "state bad", "bar bad", "unknown", "doing", "catalogue", "shard done", "", "", ""}},
		{"store lost", running, func(r *status.Report) {
			r.Stale, r.StoreError = 75, "coordination store: no answer"
		}, look{"running, the store cannot be read", "state bad", "bar bad", "645", "doing", "catalogue", "shard done", "", "", "no answer"}},
		{"dead", running, nil, look{"no answer", "state bad", "bar bad", "645", "doing", "catalogue", "shard done", "", "", "The node does not answer. Its last answer came at "}},
		{"documents failed in a round", followed, func(r *status.Report) {
			r.Migration.Rounds.Failed = 4
		}, look{"following, 15 min 12 s behind the source, 4 documents failed in the rounds so far", "state lossy", "bar lossy", "4 of 4", "done", "catalogue", "shard done", "", "", ""}},
		{"following", followed, func(*status.Report) {}, look{"following, 15 min 12 s behind the source", "state done", "bar done", "4 of 4", "done", "catalogue", "shard done", "", "", ""}},
		{"following, paused while rounds fail", followed, func(r *status.Report) {
			r.Migration.Rounds.Failures, r.Migration.Rounds.Failure = 3, "shard 0 is damaged"
			r.Node.State, r.Node.Reason = "paused", "by ann"
		}, look{"paused, 15 min 12 s behind the source", "state wait", "bar wait", "4 of 4", "done", "catalogue", "shard done", "", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.start()
			if c.change != nil {
				c.change(&r)
			}
			s := newSite(t, r, []status.Event{{Time: time.Now(), Subject: "fleet", Code: "intent", Detail: "pause by ann"}})
			s.failed = []status.RefusedGroup{{Index: "orders", Class: "strict_mapping", Reason: "strict_dynamic_mapping_exception", Count: 6, Remedy: `PUT orders/_mapping {"dynamic":true}`}}
			must(t, b.Look(ctx, 1280, 900, false))
			must(t, b.Open(ctx, s.URL+"/"))
			must(t, b.Wait(ctx, "document.querySelectorAll('.shard').length === 4 && document.querySelectorAll('#events tbody tr').length === 1"))
			if c.change == nil {
				s.die()
				must(t, b.Wait(ctx, "!document.getElementById('alarm').hidden"))
			}
			if c.want.Losses != "" {
				must(t, b.Wait(ctx, "document.querySelectorAll('#losses tbody tr').length > 0"))
				must(t, b.Wait(ctx, "!/[a-z]+6$/.test(document.getElementById('groups').tBodies[0].textContent)")) // the node has answered
			}
			var got look
			must(t, b.Eval(ctx, `({State: document.getElementById('state').textContent, Class: document.getElementById('state').className, Bar: document.getElementById('all').className,
				Facts: document.getElementById('facts').textContent, Phase: document.querySelector('#phases li:last-child').className, First: document.querySelector('#indices .name').textContent,
				FirstCell: document.querySelector('#indices .shard').className.trim(), Silence: document.getElementById('silence').textContent, Alarm: document.getElementById('alarm').textContent,
				Losses: document.getElementById('losses').hidden ? '' : [...document.querySelectorAll('#losses tbody')].map((t) => t.textContent).join('')})`, &got))
			if got.State != c.want.State || got.Class != c.want.Class || got.Bar != c.want.Bar || !strings.Contains(got.Facts, c.want.Facts) || got.Phase != c.want.Phase ||
				got.First != c.want.First || got.FirstCell != c.want.FirstCell {
				t.Errorf("%+v\nwant %+v", got, c.want)
			}
			for _, text := range [][2]string{{got.Silence, c.want.Silence}, {got.Losses, c.want.Losses}, {got.Alarm, c.want.Alarm}} {
				if !strings.Contains(text[0], text[1]) || text[1] == "" && text[0] != "" {
					t.Errorf("%q, want %q", text[0], text[1])
				}
			}
			if m := r.Migration; m.Rounds != nil {
				failing, want := "", ""
				if m.Rounds.Failures > 0 {
					want = "3 attempts failed since a round arrived last; the last one: shard 0 is damaged"
				}
				if must(t, b.Eval(ctx, "document.getElementById('failing').textContent", &failing)); failing != want {
					t.Errorf("%q, want %q", failing, want)
				}
				var rounds []string
				must(t, b.Eval(ctx, "[...document.querySelectorAll('#rounds tbody tr')].map((r) => [...r.cells].map((c, i) => i === 2 || i === 3 ? '' : c.textContent).join())", &rounds))
				rows := []string{"3,,,,,,,,", "2,rfs-live-round-2,,,12 s,5,90,0,0", "1,rfs-live-round-1,,,1 min 0 s,20,7,3,0", "0,rfs-live,,,2 h 0 min,160,0,0,0"}
				if bars := 0; !slices.Equal(rounds, rows) {
					t.Errorf("rounds %q, want %q", rounds, rows)
				} else if must(t, b.Eval(ctx, "document.querySelectorAll('#timeline rect').length", &bars)); bars != len(rows) {
					t.Errorf("the timeline has %d rounds, want %d", bars, len(rows))
				}
			}
			inspect(t, ctx, b, strings.ReplaceAll(c.name, " ", "-"))
		})
	}
}

// TestThePageShowsThatItsNodeIsDead: after its node was killed, or stops sending, the page shows that with the time of the last response.
// It continues when a node answers at the same address. The end of a process whose work is complete is not an alarm.
func TestThePageShowsThatItsNodeIsDead(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	b := chromium(t, ctx)
	s := newSite(t, running(), nil)
	must(t, b.Look(ctx, 1280, 900, false))
	must(t, b.Open(ctx, s.URL+"/"))
	shows := func(state, class string) {
		t.Helper()
		must(t, b.Wait(ctx, "document.getElementById('state').textContent.startsWith('"+state+"') && document.getElementById('state').className === 'state "+class+"'"))
	}
	alarm := func() (text string) {
		t.Helper()
		must(t, b.Eval(ctx, "document.getElementById('alarm').hidden ? '' : document.getElementById('alarm').textContent", &text))
		return text
	}
	last := regexp.MustCompile(`^The node does not answer\. Its last answer came at [0-2][0-9]:[0-5][0-9]:[0-5][0-9] \S+\.$`)

	shows("running", "doing")
	must(t, b.Eval(ctx, "answerTimeout = 1500, true", new(bool))) // it sends nothing for so long
	shows("no answer", "bad")
	if text := alarm(); !last.MatchString(text) {
		t.Errorf("%q", text)
	}
	must(t, b.Eval(ctx, "answerTimeout = 60000, true", new(bool)))
	s.tell(running())
	shows("running", "doing")
	if text := alarm(); text != "" {
		t.Errorf("the node answers, and the alarm stays: %q", text)
	}

	s.die()
	shows("no answer", "bad")
	if text := alarm(); !last.MatchString(text) {
		t.Errorf("%q", text)
	}
	var title string
	must(t, b.Eval(ctx, "document.title", &title))
	if title != "! 62.5 % rfsd no answer" {
		t.Errorf("title %q", title)
	}
	s = siteAt(t, s.Listener.Addr().String(), ended(), nil)
	shows("complete", "done")

	s.die()
	must(t, b.Wait(ctx, "/came at [0-9:]+ /.test(document.getElementById('ended').textContent)"))
	shows("complete", "done")
	if text := alarm(); text != "" {
		t.Errorf("the end of a complete migration is an alarm: %q", text)
	}

	// A process that follows answers also between two rounds, but for a moment.
	s = siteAt(t, s.Listener.Addr().String(), followed(), nil)
	shows("following, 15 min", "done")
	s.die()
	must(t, b.Wait(ctx, "broken"))
	shows("following, 15 min", "done")
	must(t, b.Eval(ctx, "roundGap = 0, true", new(bool)))
	shows("following, no answer", "wait")
}
