// Package spec models the lease protocol as a state machine that is small enough to visit every state. One shard with a few
// documents is migrated by a few acquisitions. Each acquisition is an agent that may stop after any step, or continue long after
// another agent has acquired its item (unbounded clock skew and pauses), so a crash is not a separate action. The invariants are
// checked in every state.
//
// Rounds is such a model of following a cluster, with requests that arrive late.
package spec

import (
	"fmt"
	"math/bits"
)

// Size of the model. Ordinals are 0..Docs-1; an item is named by its cursor.
const (
	Docs   = 4
	Agents = 3
)

// Variant selects the faults of the environment, and a rule to break.
type Variant struct {
	Name string
	// Timely: clock skew and pauses are within margin and grace, so an item is acquired
	// only after its former holder has stopped to send. Then no agent may trespass.
	Timely bool
	// Forget is the number of its last acknowledged writes that the store may lose, once.
	Forget int

	CountCursor     bool // hand off at start + number of acknowledged documents
	CompleteFirst   bool // complete the parent before its successor is created
	NoAssertion     bool // complete a hand-off without checking the stored successor
	NoDeadline      bool // send without checking the lease
	BlindAfterLost  bool // continue as if a rejected acquisition (409) had succeeded
	NoHolderCheck   bool // the store does not check the holder of a write
	RestartAtCursor bool // ignore the recorded watermark

	// Beside: progress is recorded by separate requests, which arrive at any later time.
	Beside       bool
	RecordBeside bool // hand off and complete while a record is in flight
	// Export: documents are in files, which are published by a commit. A file of an item replaces the previous one.
	Export         bool
	NoCommit       bool // hand off without a commit
	RecordVolatile bool // record progress before the commit
	AnyPublishes   bool // an earlier attempt at an item may still publish its file (no fence)

	// Split: the shard has two parts. Any number of seeders in sequence record the border and create the roots.
	Split       bool
	SplitAgain  bool // a seeder does not use the recorded border
	NoEnd       bool // a successor does not carry its parent's end
	CompleteAny bool // the store does not compare the watermark of a completion with the end of the item
	FirstRoot   bool // the audit recreates only the first root of the shard
}

type item struct {
	exists, done, expired bool
	holder                int8 // agent + 1
	succ                  int8 // cursor of the successor, 0 = none
	mark                  int8 // recorded watermark
	end                   int8 // ordinal after the last one, 0 = the end of the shard
}

// last returns the ordinal after the last one of the item.
func (it item) last() int8 {
	if it.end == 0 {
		return Docs
	}
	return it.end
}

// Phases of an agent.
const (
	unused int8 = iota
	working
	named   // the successor is stored
	created // the successor exists
	ended
)

type agent struct {
	phase, item, start, succ int8
	end                      int8  // of the item
	acked                    uint8 // documents whose acknowledgement it received
	overdue                  bool  // its deadline has passed
	record                   int8  // watermark of the record in flight, 0 = none
	committed                int8  // ordinal up to which its file is published
}

type items [Docs]item

type state struct {
	items  items
	past   [2]items    // before the last write and before the last but one
	target uint8       // documents that arrived
	files  [Docs]uint8 // documents in the published file of each item
	agents [Agents]agent
	forgot bool
	border int8 // as recorded; 0 = none
	seeded bool // all roots were created
}

// step is a next state with the action that leads to it; bad is a violated rule.
type step = stepOf[state]

type stepOf[S any] struct {
	action string
	next   S
	bad    string
}

func (v Variant) initial() state {
	var s state
	if s.seeded = !v.Split; s.seeded {
		s.items[0] = item{exists: true, expired: true}
	}
	s.past = [2]items{s.items, s.items}
	return s
}

// write changes the items, and keeps their former states, which a failover may restore.
func (s *state) write(f func(*items)) {
	s.past[1], s.past[0] = s.past[0], s.items
	f(&s.items)
}

// steps returns every possible next state.
func (v Variant) steps(s state) (out []step) {
	add := func(next state, bad string, format string, args ...any) {
		out = append(out, step{fmt.Sprintf(format, args...), next, bad})
	}
	if !s.seeded {
		v.seed(s, add)
	}
	for i := range s.agents {
		if s.agents[i].phase == unused {
			v.acquire(s, i, add)
			break // agents are numbered in the order of their acquisitions
		}
	}
	for i, a := range s.agents {
		switch a.phase {
		case working:
			v.work(s, i, add)
		case named, created:
			v.finish(s, i, add)
		}
		if a.record != 0 {
			v.applyRecord(s, i, add)
		}
		if a.phase != unused && v.Timely && !a.overdue {
			next := s
			next.agents[i].overdue = true
			add(next, "", "deadline of agent %d", i)
		}
		if a.overdue && s.items[a.item].holder == int8(i)+1 && !s.items[a.item].expired {
			next := s
			next.items[a.item].expired = true
			add(next, "", "lease of agent %d ends", i)
		}
	}
	if v.Forget > 0 && !s.forgot {
		for n := range v.Forget {
			next := s
			next.items = s.past[n]
			next.past = [2]items{next.items, next.items}
			next.forgot = true
			add(next, "", "the store forgets %d writes", n+1)
		}
	}
	return out
}

type adder func(next state, bad string, format string, args ...any)

// seed adds the next step of seeding: record the border, create the roots of both parts, record the end. Each step may be another seeder's.
func (v Variant) seed(s state, add adder) {
	borders := []int8{Docs / 2}
	if v.SplitAgain {
		borders = append(borders, Docs/2+1)
	}
	for _, b := range borders {
		if s.border == b || s.border != 0 && !v.SplitAgain {
			continue
		}
		next := s
		next.border = b
		add(next, "", "a seeder records the border %d", b)
	}
	if s.border == 0 {
		return
	}
	if s.items[0].exists && s.items[s.border].exists {
		next := s
		next.seeded = true
		add(next, "", "seeding is complete")
	}
	for root, end := range map[int8]int8{0: s.border, s.border: Docs} {
		if s.items[root].exists {
			continue
		}
		next := s
		next.write(func(all *items) { all[root] = item{exists: true, expired: true, end: end} })
		add(next, "", "a seeder creates %d to %d", root, end)
	}
}

func (v Variant) acquire(s state, i int, add adder) {
	for c, it := range s.items {
		if !it.exists || it.done {
			continue
		}
		next := s
		a := agent{phase: working, item: int8(c), start: max(int8(c), it.mark), end: it.last()}
		if v.RestartAtCursor {
			a.start = int8(c)
		}
		if it.succ != 0 { // an interrupted hand-off: finish it
			a.phase, a.succ = named, it.succ
		}
		next.agents[i] = a
		if !v.Timely || it.expired || it.holder == 0 {
			next.write(func(all *items) {
				all[c].holder, all[c].expired = int8(i)+1, false
			})
			add(next, "", "agent %d acquires %d", i, c)
		} else if v.BlindAfterLost {
			add(next, "", "agent %d is refused %d and continues", i, c)
		}
	}
}

// prefix returns the watermark of an agent: the ordinal below which it has all acknowledgements.
func (a agent) prefix() int8 {
	w := a.start
	for w < a.end && a.acked&(1<<w) != 0 {
		w++
	}
	return w
}

func (v Variant) mine(s state, i int) bool {
	it := s.items[s.agents[i].item]
	return it.exists && !it.done && (v.NoHolderCheck || it.holder == int8(i)+1)
}

func (v Variant) work(s state, i int, add adder) {
	a := s.agents[i]
	for d := a.start; d < a.end; d++ {
		if a.acked&(1<<d) != 0 || a.overdue && !v.NoDeadline {
			continue
		}
		next := s
		if !v.Export {
			next.target |= 1 << d
		}
		next.agents[i].acked |= 1 << d
		bad := ""
		if it := s.items[a.item]; v.Timely && it.exists && !it.done && it.holder != int8(i)+1 {
			bad = fmt.Sprintf("agent %d sends for item %d, which agent %d holds", i, a.item, it.holder-1)
		}
		add(next, bad, "agent %d moves %d", i, d)
	}
	it, w := s.items[a.item], a.prefix()
	if v.Export && w > max(a.start, a.committed) && (v.AnyPublishes || s.latest(i)) {
		next := s
		next.files[a.item] = 1<<w - 1<<a.start
		next.agents[i].committed = w
		add(next, "", "agent %d publishes %d to %d", i, a.start, w)
	}
	if !v.mine(s, i) {
		return
	}
	if it.succ == 0 && w > max(it.mark, a.start) && (!v.Export || v.RecordVolatile) && a.record == 0 {
		next := s
		if v.Beside {
			next.agents[i].record = w
		} else {
			next.write(func(all *items) { all[a.item].mark = w })
		}
		add(next, "", "agent %d records %d", i, w)
	}
	if a.record != 0 && !v.RecordBeside {
		return // the lease ends after the record
	}
	if v.Export && !v.NoCommit && a.committed != w {
		return // and after the commit
	}
	if it.succ == 0 && (w == a.end || v.CompleteAny && w > a.start) {
		next := s
		next.write(func(all *items) { all[a.item].done = true })
		next.agents[i].phase = ended
		add(next, "", "agent %d completes %d", i, a.item)
	}
	cut := w
	if v.CountCursor {
		cut = a.start + int8(bits.OnesCount8(a.acked))
	}
	if cut > a.start && cut < a.end && (it.succ == 0 || it.succ == cut || v.NoHolderCheck) {
		next := s
		next.write(func(all *items) { all[a.item].succ = cut })
		next.agents[i].phase, next.agents[i].succ = named, cut
		add(next, "", "agent %d names successor %d", i, cut)
	}
}

// applyRecord delivers the request of a record. A rejected agent treats its lease as lost.
func (v Variant) applyRecord(s state, i int, add adder) {
	a := s.agents[i]
	it, next, bad := s.items[a.item], s, ""
	next.agents[i].record = 0
	switch {
	case v.mine(s, i) && it.succ == 0:
		next.write(func(all *items) { all[a.item].mark = max(it.mark, a.record) })
	case it.exists && it.holder == int8(i)+1:
		bad = fmt.Sprintf("agent %d takes the lease of %d for lost, which it holds", i, a.item)
	}
	add(next, bad, "the record %d of agent %d arrives", a.record, i)
}

// latest reports whether no later acquisition works on the item of an agent.
func (s state) latest(i int) bool {
	for _, b := range s.agents[i+1:] {
		if b.phase != unused && b.item == s.agents[i].item {
			return false
		}
	}
	return true
}

// finish adds the remaining steps of a hand-off.
func (v Variant) finish(s state, i int, add adder) {
	a := s.agents[i]
	create := func() {
		next := s
		next.write(func(all *items) {
			if it := &all[a.succ]; !it.exists {
				*it = item{exists: true, expired: true, end: all[a.item].end}
				if v.NoEnd {
					it.end = 0
				}
			}
		})
		next.agents[i].phase++
		add(next, "", "agent %d creates %d", i, a.succ)
	}
	complete := func() {
		it := s.items[a.item]
		if !v.mine(s, i) || !v.NoAssertion && it.succ != a.succ {
			return
		}
		next := s
		next.write(func(all *items) { all[a.item].done = true })
		next.agents[i].phase++
		add(next, "", "agent %d completes %d after hand-off", i, a.item)
	}
	if (a.phase == named) != v.CompleteFirst {
		create()
	} else {
		complete()
	}
}

// lost returns a document that is neither on the target nor covered by an open item, or -1. If the store may forget, a completed
// item without its successor covers the rest, since the audit recreates the successor.
func (v Variant) lost(s state) int {
	there := s.target
	for _, f := range s.files {
		there |= f
	}
	for d := range int8(Docs) {
		if there&(1<<d) != 0 {
			continue
		}
		covered := false
		for c, it := range s.items {
			switch {
			case !s.seeded:
				covered = true // seeding is repeated
			case !it.exists && v.Forget > 0 && (c == 0 && (s.border == 0 || d < s.border) || c != 0 && int8(c) == s.border && d >= s.border && !v.FirstRoot):
				covered = true
			case !it.exists || int8(c) > d || d >= it.last():
			case !it.done && (it.succ == 0 && d >= it.mark || it.succ != 0 && d >= it.succ && !s.items[it.succ].exists):
				covered = true
			case it.done && it.succ != 0 && d >= it.succ && !s.items[it.succ].exists && v.Forget > 0:
				covered = true
			}
		}
		if !covered {
			return int(d)
		}
	}
	return -1
}

// Result is the result of an exploration.
type Result struct {
	States    int
	Violation string   // the violated invariant; "" if none
	Trace     []string // the shortest sequence of steps to the violation
}

// Explore visits at most limit states, breadth first.
func (v Variant) Explore(limit int) Result {
	return explore(v.initial(), func(s state) []step {
		all := v.steps(s)
		for i := range all {
			st := &all[i]
			if v.Forget == 0 {
				st.next.past = [2]items{}
			}
			if st.bad == "" {
				st.bad = broken(s, st.next)
			}
			if d := v.lost(st.next); st.bad == "" && d >= 0 {
				st.bad = fmt.Sprintf("document %d is lost", d)
			}
		}
		return all
	}, limit)
}

// explore visits at most limit of the states that are reachable by steps, breadth first.
func explore[S comparable](initial S, steps func(S) []stepOf[S], limit int) Result {
	type node struct {
		s      S
		parent int32
		action string
	}
	nodes := []node{{s: initial, parent: -1}}
	seen := map[S]struct{}{nodes[0].s: {}}
	fail := func(n int, action, what string) Result {
		trace := []string{action}
		for ; n > 0; n = int(nodes[n].parent) {
			trace = append([]string{nodes[n].action}, trace...)
		}
		return Result{States: len(nodes), Violation: what, Trace: trace}
	}
	for n := 0; n < len(nodes); n++ {
		for _, st := range steps(nodes[n].s) {
			if st.bad != "" {
				return fail(n, st.action, st.bad)
			}
			if _, ok := seen[st.next]; ok {
				continue
			}
			if len(nodes) >= limit {
				return Result{States: len(nodes), Violation: "too many states"}
			}
			seen[st.next] = struct{}{}
			nodes = append(nodes, node{st.next, int32(n), st.action})
		}
	}
	return Result{States: len(nodes)}
}

// broken returns the rule about single items that a step violates: done items stay done, and successors are written once and are
// beyond the cursor. Lost writes are exempt.
func broken(s, next state) string {
	if next.forgot != s.forgot {
		return ""
	}
	for c := range s.items {
		was, is := s.items[c], next.items[c]
		switch {
		case was.done && !is.done:
			return fmt.Sprintf("item %d is open again", c)
		case was.succ != 0 && is.succ != was.succ && was.exists:
			return fmt.Sprintf("item %d changed its successor", c)
		case is.succ != 0 && int(is.succ) <= c:
			return fmt.Sprintf("item %d names itself or an earlier one", c)
		case is.succ != 0 && next.items[is.succ].exists && next.items[is.succ].end != is.end:
			return fmt.Sprintf("item %d ends at %d, its successor at %d", c, is.end, next.items[is.succ].end)
		}
	}
	return ""
}
