package bulk

import (
	"context"
	"slices"
	"sync"
	"time"
)

// maxProbeBackoff is the longest pause of the one waiter that probes for the end of an outage.
const maxProbeBackoff = 3 * time.Second

// Recovery ends the pauses of the Loaders of a process when the target accepts requests again. A pause belongs to the index that
// was rejected, and an accepted request ends all pauses of its own index. For each other rejected index it allows one early
// attempt. If that is rejected as well, the index itself is overloaded, and requests accepted elsewhere no longer matter to it.
// While all indices are rejected, one request of the process is retried more often than the others. It is safe for concurrent use;
// the zero value is ready.
type Recovery struct {
	mu      sync.Mutex
	indices map[string]*refusedIndex // rejected since their last accepted request
	probing bool                     // a waiter of the indices that are not alone makes short pauses
}

// refusedIndex is an index without an accepted request since its last rejection.
type refusedIndex struct {
	waiting []*waiter // longest wait first
	others  bool      // another index was accepted
	tried   bool      // one waiter was woken because another index was accepted
	alone   bool      // it was rejected after that, too: the index itself is overloaded
	probing bool      // with alone: one of its waiters makes short pauses
}

type waiter struct {
	loader   *Loader
	wake     context.CancelFunc // ends the pause, but not the target's Retry-After
	accepted context.CancelFunc // ends the whole pause
}

// accepted records an accepted request of an index: it ends the pauses of the index and wakes one waiter of each other index.
func (r *Recovery) accepted(index string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if x := r.indices[index]; x != nil {
		delete(r.indices, index)
		for _, w := range x.waiting {
			w.accepted()
		}
	}
	for _, x := range r.indices {
		x.others = true
		if !x.tried && len(x.waiting) > 0 {
			x.tried = true
			x.waiting[0].wake()
		}
	}
}

// overloaded reports whether an index was rejected and, since then, only other indices were accepted.
func (r *Recovery) overloaded(index string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := r.indices[index]
	return x != nil && x.others
}

// Waiting returns the number of Loaders with a body that waits for a retry.
func (r *Recovery) Waiting() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	loaders := map[*Loader]struct{}{}
	for _, x := range r.indices {
		for _, w := range x.waiting {
			loaders[w.loader] = struct{}{}
		}
	}
	return len(loaders)
}

// wait blocks for d, or until the target accepts a request. It blocks at least for atLeast, the target's Retry-After, unless the
// target accepts a request of the same index before. It returns the error of ctx if that is done first.
func (r *Recovery) wait(ctx context.Context, l *Loader, index string, d, atLeast time.Duration) error {
	asked, accepted := context.WithCancel(ctx)
	defer accepted()
	asleep, wake := context.WithCancel(asked)
	defer wake()
	probes, leave := r.enter(index, &waiter{l, wake, accepted})
	defer leave()
	if probes {
		d = min(d, maxProbeBackoff)
	}
	if atLeast > 0 {
		if err := l.opts.Pause(asked, atLeast); err != nil {
			return ctx.Err()
		}
	}
	if d > atLeast && asleep.Err() == nil {
		if err := l.opts.Pause(asleep, d-atLeast); err != nil {
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// enter adds a waiter of an index, and reports whether it probes with short pauses. The caller must call leave.
func (r *Recovery) enter(index string, w *waiter) (probes bool, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.indices == nil {
		r.indices = map[string]*refusedIndex{}
	}
	x := r.indices[index]
	if x == nil {
		x = &refusedIndex{}
		r.indices[index] = x
	}
	x.alone = x.tried
	x.waiting = append(x.waiting, w)
	probing := &r.probing
	if x.alone {
		probing = &x.probing
	}
	probes = !*probing
	if probes {
		*probing = true
	}
	return probes, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if i := slices.Index(x.waiting, w); i >= 0 {
			x.waiting = slices.Delete(x.waiting, i, i+1)
		}
		if probes {
			*probing = false
		}
	}
}
