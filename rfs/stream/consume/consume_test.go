package consume_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestEveryMessageArrivesWhileProcessesComeAndGo kills, adds and ends processes while messages come, and takes the brokers away for a
// while. The account equals the messages, no commit was ahead of the target, and a process that joins has its part soon.
func TestEveryMessageArrivesWhileProcessesComeAndGo(t *testing.T) {
	inBubble(t, 12, func(w *world) {
		w.topic.ahead = func(partition int, offset int64) string {
			for o := range offset {
				if id := fmt.Sprintf("%d-%d", partition, o); !w.target.has(id) {
					return fmt.Sprintf("%d of partition %d was committed, %s is not in the target", offset, partition, id)
				}
			}
			return ""
		}
		sum := 0
		fill := func(n int) {
			for range n {
				p := sum % 12
				w.topic.add(p, fmt.Sprintf("%d-%d", p, len(w.topic.parts[p])), "{}")
				sum++
			}
		}
		fill(600)
		all := []*process{w.start(), w.start(), w.start()}
		for step := range 20 {
			time.Sleep(5 * time.Second)
			fill(100)
			switch step {
			case 3:
				all = append(all, w.start())
			case 6:
				all[1].end()
				all = append(all[:1], all[2:]...)
			case 9, 15:
				w.topic.mu.Lock()
				w.topic.away = step == 9
				w.topic.mu.Unlock()
			}
			i := step % len(all)
			all[i].kill()
			all[i] = w.start()
		}
		time.Sleep(2 * time.Minute)
		a := w.account()
		if len(a.Plan.Nodes) != 3 || a.Counts.Live != int64(sum) || a.Counts.Indexed != int64(sum) || a.Lag != 0 || w.target.size() != sum {
			t.Errorf("%d nodes, account %+v, lag %d, %d of %d documents", len(a.Plan.Nodes), a.Counts, a.Lag, w.target.size(), sum)
		}
		for _, n := range a.Plan.Nodes {
			if len(n.Partitions) != 4 {
				t.Errorf("%s has %v", n.Token, n.Partitions)
			}
		}
		if w.topic.wrong != "" {
			t.Error(w.topic.wrong)
		}
		for _, p := range all {
			p.end()
			if p.err != nil {
				t.Error(p.err)
			}
		}
		committed := int64(0)
		for _, o := range w.topic.committed {
			committed += o
		}
		if committed != int64(sum) {
			t.Errorf("%d are committed, want %d", committed, sum)
		}
		if a := w.account(); len(a.Plan.Idle()) != 0 || w.target.sent < sum {
			t.Errorf("%d idle", len(a.Plan.Idle()))
		}
	})
}

// TestCommits_NeverGoBack: two processes take over partitions of a third at different moments after its start. What it has not
// committed of these by then, it does not commit over what they have.
func TestCommits_NeverGoBack(t *testing.T) {
	inBubble(t, 12, func(w *world) {
		sum := 0
		for round := range 8 {
			for range 12000 {
				p := sum % 12
				w.topic.add(p, fmt.Sprintf("%d-%d", p, len(w.topic.parts[p])), "{}")
				sum++
			}
			all := []*process{w.start()}
			time.Sleep(time.Duration(round) * 300 * time.Millisecond)
			all = append(all, w.start(), w.start())
			time.Sleep(30 * time.Second)
			for _, p := range all {
				p.end()
			}
			committed := int64(0)
			for _, o := range w.topic.committed {
				committed += o
			}
			if w.topic.wrong != "" || committed != int64(sum) {
				t.Errorf("round %d: %d are committed, want %d; %s", round, committed, sum, w.topic.wrong)
				return
			}
		}
	})
}

// TestAStoreThatHangsEndsNoProcess: what is asked of it ends by the deadlines of leases and locks, which waiting mends.
func TestAStoreThatHangsEndsNoProcess(t *testing.T) {
	inBubble(t, 4, func(w *world) {
		all := []*process{w.start(), w.start(), w.start()}
		const hangs = 40
		for hang := range hangs {
			for i := range 40 {
				w.topic.add(i%4, fmt.Sprintf("%d-%d", hang, i), `{}`)
			}
			time.Sleep(time.Duration(15_000+270*hang) * time.Millisecond) // each meets the leases at another time
			w.hangs.Store(true)
			time.Sleep(6 * time.Second)
			w.hangs.Store(false)
		}
		time.Sleep(time.Minute)
		for i, p := range all {
			select {
			case <-p.done:
				t.Errorf("process %d ended: %v", i, p.err)
			default:
				p.end()
			}
		}
		if a := w.account(); w.target.size() != 40*hangs || a.Counts.Indexed != 40*hangs {
			t.Errorf("%d documents are in the target, the account states %d", w.target.size(), a.Counts.Indexed)
		}
	})
}

// TestAKillRepeatsWhatWasSentInASecond kills a process at different times since its progress was recorded: what the next one sends
// again is at most what was sent in the last second and a half, and was under way.
func TestAKillRepeatsWhatWasSentInASecond(t *testing.T) {
	const window, underWay = 1500 * time.Millisecond, 4 * 3 * 10
	for _, at := range []time.Duration{5 * time.Second, 7400 * time.Millisecond, 8900 * time.Millisecond, 11300 * time.Millisecond} {
		t.Run(at.String(), func(t *testing.T) {
			inBubble(t, 4, func(w *world) {
				const each = 8000
				for p := range 4 {
					for o := range each {
						w.topic.add(p, fmt.Sprintf("%d-%d", p, o), "{}")
					}
				}
				slow := func(x *consume.Task) { x.Lease = consume.DefaultLease }
				first := w.start(slow)
				time.Sleep(at - window)
				before := w.target.count()
				time.Sleep(window)
				first.kill()
				sent := w.target.count()
				second := w.start(slow)
				time.Sleep(2 * time.Minute)
				second.end()
				again, most := w.target.count()-4*each, sent-before+underWay
				if w.target.size() != 4*each || sent >= 4*each || again > most {
					t.Errorf("%d of %d documents, %d of %d sent again, want at most %d", w.target.size(), 4*each, again, sent, most)
				}
			})
		})
	}
}

// TestATargetThatIsSlowIsSentWhatItAnswersWithinALease has a target that takes minutes for what the processes have read: were all of
// it sent at once, each lease would end before an answer, and everything would be sent again and again. The processes are killed, too.
func TestATargetThatIsSlowIsSentWhatItAnswersWithinALease(t *testing.T) {
	const partitions, each = 12, 2000
	for _, kills := range []int{0, 20} {
		t.Run(fmt.Sprint(kills, " kills"), func(t *testing.T) {
			inBubble(t, partitions, func(w *world) {
				w.target.each = 1200 * time.Microsecond
				for p := range partitions {
					for o := range each {
						w.topic.add(p, fmt.Sprintf("%d-%d", p, o), `{"text":"`+strings.Repeat("x", 400)+`"}`)
					}
				}
				short := func(x *consume.Task) { x.Lease, x.Bulk = 5*time.Second, bulk.Options{} }
				all := []*process{w.start(short), w.start(short), w.start(short)}
				begin := time.Now()
				for n := 0; w.account().Counts.Indexed < partitions*each && time.Since(begin) < 5*time.Minute; n++ {
					time.Sleep(5 * time.Second)
					if n < kills {
						all[n%3].kill()
						all[n%3] = w.start(short)
					}
				}
				took := time.Since(begin)
				for _, p := range all {
					p.end()
				}
				sent := w.target.count()
				if w.target.size() != partitions*each || sent > partitions*each*5/4 || took > 2*time.Minute {
					t.Errorf("%d of %d documents after %v, %d were sent", w.target.size(), partitions*each, took, sent)
				}
				t.Logf("%d documents in %v, %d sent again", partitions*each, took, sent-partitions*each)
			})
		})
	}
}

// TestAStreamThatCannotBeDividedHasOneHolder: of three processes one works on the only partition, the others are idle. When it is
// killed another one goes on where it was, and no other works beside it.
func TestAStreamThatCannotBeDividedHasOneHolder(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		all := []*process{w.start(), w.start(), w.start()}
		holder := func() (h *process) {
			for _, p := range all {
				if p.Own().Running > 0 {
					if h != nil {
						w.t.Error("two processes work on the partition")
					}
					h = p
				}
			}
			return h
		}
		sent := 0
		for round := range 4 {
			for range 300 {
				w.topic.add(0, fmt.Sprint(sent), `{}`)
				sent++
			}
			for range 300 {
				time.Sleep(100 * time.Millisecond)
				holder()
			}
			a, h := w.account(), holder()
			if h == nil || len(a.Plan.Idle()) != 2 || a.Lag != 0 || w.target.size() != sent {
				w.t.Fatalf("round %d: %d of %d documents, lag %d, %d idle", round, w.target.size(), sent, a.Lag, len(a.Plan.Idle()))
			}
			h.kill()
			all = append(slices.DeleteFunc(all, func(p *process) bool { return p == h }), w.start())
		}
		for _, p := range all {
			p.end()
		}
	})
}

// TestAProcessThatJoinsAndOneThatLeaves measures how long partitions wait for another process.
func TestAProcessThatJoinsAndOneThatLeaves(t *testing.T) {
	inBubble(t, 3, func(w *world) {
		var all []*process
		for range 4 {
			all = append(all, w.start())
			time.Sleep(15 * time.Second)
		}
		if a := w.account(); len(a.Plan.Idle()) != 1 || len(a.Plan.Nodes) != 4 {
			t.Errorf("%+v", a.Plan)
		}
		shares := func() (busy, running int64) {
			for _, p := range all {
				if n := p.Own().Running; n > 0 {
					busy, running = busy+1, running+n
				}
			}
			return busy, running
		}
		if busy, running := shares(); busy != 3 || running != 3 {
			t.Errorf("%d processes have %d partitions", busy, running)
		}
		for i, p := range all[:2] {
			if i == 0 {
				p.end()
			} else {
				p.kill()
			}
			time.Sleep(40 * time.Second)
			for part := range 3 {
				w.topic.add(part, fmt.Sprintf("%d-%d", part, i), "{}")
			}
			time.Sleep(5 * time.Second)
			if got := w.target.size(); got != 3*(i+1) {
				t.Errorf("%d of %d messages arrived", got, 3*(i+1))
			}
		}
		for _, p := range all[2:] {
			p.end()
		}
	})
}

func TestASessionGoesOnFromItsRecords(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		for i := range 40 {
			w.topic.add(i%2, fmt.Sprint(i), "{}")
		}
		w.topic.committed[0] = 15 // by another tool, before the session
		until := func(t *consume.Task) { t.UntilEnd = true }
		p := w.start(until)
		<-p.done
		if p.err != nil || p.account.Counts.Live != 25 || w.target.size() != 25 {
			t.Errorf("%v, %+v", p.err, p.account.Counts)
		}
		w.topic.add(0, "more", "")
		w.topic.add(1, "1", "")
		w.topic.committed[0], w.topic.committed[1] = 0, 0 // by another tool, since
		p = w.start(until)
		<-p.done
		if p.err != nil || p.account.Counts.Live != 27 || w.target.sent != 27 || w.target.has("1") {
			t.Errorf("%v, %+v, sent %d", p.err, p.account.Counts, w.target.sent)
		}
	})
}

// TestAStreamThatIsAnotherOne: what would lose messages without a word ends the process, and nothing is passed over.
func TestAStreamThatIsAnotherOne(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*topic)
		says   string
	}{
		{"the topic was made again", func(s *topic) { s.id = "second" }, "deleted and made again"},
		{"the partition ends earlier", func(s *topic) { s.parts[0] = s.parts[0][:3] }, "ends at offset 3, this session has consumed it up to 10"},
		{"messages were deleted", func(s *topic) { s.begins[0] = 12 }, "offsets 10 to 11 of partition 0"},
		{"fewer partitions", func(s *topic) { s.parts = s.parts[:1] }, "this session consumes partition 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inBubble(t, 2, func(w *world) {
				for i := range 20 {
					w.topic.add(i%2, fmt.Sprint(i), "{}")
				}
				p := w.start()
				time.Sleep(time.Minute)
				w.topic.mu.Lock()
				for i := range 4 {
					w.topic.parts[0] = append(w.topic.parts[0], consume.Message{Offset: int64(10 + i), Key: []byte(fmt.Sprint("late", i)), Value: []byte("{}")})
				}
				w.topic.mu.Unlock()
				p.end()
				before := w.account()
				w.topic.mu.Lock()
				c.change(w.topic)
				w.topic.mu.Unlock()
				p = w.start()
				<-p.done
				if !errors.Is(p.err, fault.ErrConfig) || !strings.Contains(p.err.Error(), c.says) {
					t.Errorf("%v, want %q", p.err, c.says)
				}
				if a := w.account(); a.Partitions[0].Watermark != before.Partitions[0].Watermark {
					t.Errorf("partition 0 moved from %d to %d", before.Partitions[0].Watermark, a.Partitions[0].Watermark)
				}
			})
		})
	}
}

// TestMorePartitions: those that are added are consumed from their beginnings.
func TestMorePartitions(t *testing.T) {
	inBubble(t, 1, func(w *world) {
		p := w.start(func(t *consume.Task) { t.Latest = true })
		time.Sleep(30 * time.Second)
		w.topic.mu.Lock()
		w.topic.parts, w.topic.begins = append(w.topic.parts, []consume.Message{{Key: []byte("new"), Value: []byte("{}")}}), append(w.topic.begins, 0)
		w.topic.mu.Unlock()
		time.Sleep(30 * time.Second)
		if !w.target.has("new") {
			t.Errorf("%+v", w.account())
		}
		p.end()
	})
}

func TestAPausedSessionTakesNothing(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		p := w.start()
		time.Sleep(20 * time.Second)
		c := cms.New(cms.Config{Store: w.store, Clock: cmstest.Clock{Start: time.Now()}})
		for _, order := range []session.OrderKind{session.OrderPause, session.OrderResume} {
			if _, err := session.OrdersOf(c).Issue(w.t.Context(), session.Order{Kind: order, Who: "operator"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(20 * time.Second)
			w.topic.add(0, "1", "{}")
			time.Sleep(20 * time.Second)
			if got := w.target.has("1"); got != (order == session.OrderResume) {
				t.Errorf("%s: %v", order, got)
			}
		}
		p.end()
	})
}

// fastClock is ten minutes ahead.
type fastClock struct{ timing.Clock }

func (c fastClock) Read() timing.Reading {
	r := c.Clock.Read()
	r.Wall = r.Wall.Add(10 * time.Minute)
	return r
}

func TestTask_RefusesAClockThatIsWrong(t *testing.T) {
	inBubble(t, 2, func(w *world) {
		w.topic.add(0, "1", "{}")
		p := w.start(func(task *consume.Task) {
			task.Clock, task.SkewTolerance = fastClock{task.Clock}, timing.DefaultTolerance
		})
		time.Sleep(time.Minute)
		p.end()
		if !errors.Is(p.err, cms.ErrClockSkew) || !strings.Contains(p.err.Error(), "10m0s off") || w.target.has("1") {
			t.Errorf("%v; a document was sent: %v", p.err, w.target.has("1"))
		}
	})
}
