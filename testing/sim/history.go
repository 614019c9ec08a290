package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// History records the requests of workers about items and the responses.
type History struct {
	mu   sync.Mutex
	step int64 // total order of events
	ops  []*op
}

type op struct {
	client   int
	id       string
	t        cms.Transition
	call     int64
	effects  []int64 // when the server applied it: never, once, or several times
	answered int64
	it       cms.Item
	v        cms.Result
}

func (h *History) tick() int64 { h.step++; return h.step }

func (h *History) begin(id string, t cms.Transition) *op {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := &op{client: len(h.ops), id: id, t: t, call: h.tick()}
	h.ops = append(h.ops, o)
	return o
}

func (h *History) effect(o *op) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.effects = append(o.effects, h.tick())
}

func (h *History) end(o *op, it cms.Item, v cms.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.answered, o.it, o.v = h.tick(), it, v
}

// input is a request; output a response, or nil if the response was lost.
type input struct {
	id string
	t  cms.Transition
}

type output struct {
	it cms.Item
	v  cms.Result
}

// operations converts the history into porcupine's format. A request that was applied again after its response counts as another request
// with an unknown outcome.
func (h *History) operations() []porcupine.Operation {
	var out []porcupine.Operation
	for _, o := range h.ops {
		in := input{o.id, o.t}
		effects := o.effects
		if o.answered != 0 {
			out = append(out, porcupine.Operation{ClientId: len(out), Input: in, Call: o.call, Output: output{o.it, o.v}, Return: o.answered})
			effects = effects[1:]
		}
		for _, e := range effects {
			out = append(out, porcupine.Operation{ClientId: len(out), Input: in, Call: o.call, Output: output{}, Return: e})
		}
	}
	return out
}

// lease is the lease state of one item.
type lease struct {
	holder string
	end    int64 // epoch ms; -1: unknown
	done   bool
	failed bool
	succ   string
}

// leases is the sequential model: an item is a register with a holder.
func leases(grace time.Duration) porcupine.Model {
	m := porcupine.NondeterministicModel{
		Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
			by := map[string]int{}
			var out [][]porcupine.Operation
			for _, o := range history {
				id := o.Input.(input).id
				n, ok := by[id]
				if !ok {
					n = len(out)
					by[id] = n
					out = append(out, nil)
				}
				out[n] = append(out[n], o)
			}
			return out
		},
		Init: func() []any { return []any{lease{}} },
		Step: func(state, in, out any) []any {
			s, i, o := state.(lease), in.(input), out.(output)
			if o.v == 0 {
				return append([]any{s}, unknown(s, i.t)...)
			}
			if next, ok := known(s, i.t, o, grace.Milliseconds()); ok {
				return []any{next}
			}
			return nil
		},
		Equal: func(a, b any) bool { return a.(lease) == b.(lease) },
		DescribeOperation: func(in, out any) string {
			return fmt.Sprintf("%s %+v -> %v", in.(input).t.Name(), in.(input).t, out.(output).v)
		},
	}
	return m.ToModel()
}

// unknown returns the possible states after a request whose response was lost, if it was applied.
func unknown(s lease, t cms.Transition) []any {
	if s.done {
		return nil
	}
	switch t := t.(type) {
	case cms.Acquire:
		s.holder, s.end = t.Holder, -1
		return []any{s}
	case cms.SetSuccessors:
		if s.holder == t.Holder && s.succ == "" {
			s.succ = t.Successors
			return []any{s}
		}
	case cms.Complete:
		if s.holder == t.Holder && s.succ == t.Successors {
			s.done = true
			return []any{s}
		}
	case cms.Release:
		if s.holder == t.Holder {
			s.holder, s.end = "", 0
			return []any{s}
		}
	case cms.Fail:
		s.done, s.failed = true, true
		return []any{s}
	}
	return nil
}

// known returns the state after a request with a response; ok is false if the response is wrong.
func known(s lease, t cms.Transition, o output, grace int64) (lease, bool) {
	switch t := t.(type) {
	case cms.Acquire:
		switch o.v {
		case cms.Applied:
			ok := !s.done && (s.end == -1 || s.end+grace < o.it.AcquiredAt)
			s.holder, s.end = t.Holder, o.it.Expiration*1000
			return s, ok
		case cms.Held:
			return s, !s.done && s.holder != t.Holder && s.end != 0
		case cms.Already:
			return s, !s.done && s.holder == t.Holder
		case cms.Done:
			return s, s.done
		}
		return s, o.v == cms.Skewed
	case cms.Progress:
		return s, held(s, t.Holder, o.v, s.succ == "", "")
	case cms.SetSuccessors:
		ok := held(s, t.Holder, o.v, s.succ == "", t.Successors)
		if o.v == cms.Applied {
			s.succ = t.Successors
		}
		return s, ok
	case cms.Complete:
		if o.v == cms.NoSuccessors {
			return s, s.holder == t.Holder && s.succ == ""
		}
		ok := held(s, t.Holder, o.v, s.succ == t.Successors, t.Successors)
		if o.v == cms.Applied {
			s.done = true
		}
		return s, ok
	case cms.Release:
		ok := held(s, t.Holder, o.v, true, "")
		if o.v == cms.Applied {
			s.holder, s.end = "", 0
		}
		return s, ok
	case cms.Fail:
		switch o.v {
		case cms.Applied:
			ok := !s.done && s.succ == "" && s.holder == t.Holder
			s.done, s.failed = true, true
			return s, ok
		case cms.Already:
			return s, s.failed
		}
		return s, o.v == cms.Done && s.done || o.v == cms.Mismatch && s.succ != "" || o.v == cms.Held && s.holder != t.Holder
	}
	return s, false
}

// held reports whether the response to a request of holder is consistent with the state; free reports whether the successors permit it.
func held(s lease, holder string, v cms.Result, free bool, succ string) bool {
	switch v {
	case cms.Applied:
		return !s.done && s.holder == holder && free
	case cms.Already:
		return s.holder == holder && (s.succ == succ || succ == "")
	case cms.Lost:
		return s.holder != holder
	case cms.Done:
		return s.done && s.holder == holder
	case cms.Mismatch:
		return s.holder == holder && !free
	}
	return false
}
