package fleet

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/store"
)

// kindMirror are the parts of the leader's reading of the coordination store.
const kindMirror = "mirror"

const (
	// mirrorBudget is the number of bytes per second that the nodes without a copy of the hints may request, all together,
	// while no operator asks them.
	mirrorBudget = 200 << 10
	// smallFleet is the number of nodes up to which each holds the leader's reading, asked or not.
	smallFleet = 20
	// maxTorn is the number of consecutive incomplete copies before a copy is read anew: a leader may be writing it.
	maxTorn = 4
)

// reading is this node's copy of the leader's reading.
type reading struct {
	mu    sync.Mutex
	of    store.Cluster
	copy  *mirror.Copy
	index uint64    // of Raft's log, up to which the copy has all changes
	due   time.Time // of the next request that no operator wants
	at    time.Time // of the reading that was returned last
	torn  int

	published atomic.Int64 // time of the reading that this node published last as the leader, in epoch ms; 0: none
}

func (r *reading) reset(of store.Cluster) {
	r.of, r.copy, r.index, r.at, r.torn = of, &mirror.Copy{}, 0, time.Time{}, 0
}

// Mirrors reports whether this node is the leader and has a copy of the hints, so that it publishes its readings.
func (f *Fleet) Mirrors() bool {
	s := f.hintStore()
	return f.IsLeader() && s != nil && s.Member() && s.Leader() != ""
}

// PublishReading replicates the changes of a reading of the coordination store. It is called by the leader only.
func (f *Fleet) PublishReading(ctx context.Context, is *progress.Reading) error {
	s, r := f.hintStore(), &f.reading
	if s == nil || !s.Member() {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, err := f.pull(s); err != nil {
		return err
	}
	now := time.Now()
	parts, err := r.copy.Changes(is, now)
	if err != nil {
		return err
	}
	hints := make([]store.Hint, 0, len(parts))
	for _, p := range parts {
		hints = append(hints, store.Hint{Kind: kindMirror, Key: p.Key, Expires: now.Add(p.TTL).UnixMilli(), Payload: p.Payload})
	}
	if err := s.Put(ctx, hints...); err != nil {
		return err
	}
	r.published.Store(is.At.UnixMilli())
	return nil
}

// Published returns the time of the reading that the leader published last, by the store's clock; zero if this node has not heard
// of one.
func (f *Fleet) Published() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard.published
}

// Reading returns the leader's reading of the coordination store, nil if none is newer than the last returned one. A node
// without a copy of the hints asks for changes; in a large fleet only if an operator asked it.
func (f *Fleet) Reading(asked bool) (*progress.Reading, error) {
	s, r := f.hintStore(), &f.reading
	if s == nil {
		return nil, store.ErrNotLeader
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	nodes, now, member := len(f.gossip.Members()), f.now(), s.Member()
	if !member && !asked && (r.index == 0 && nodes > smallFleet || now.Before(r.due)) {
		return nil, nil
	}
	bytes, err := f.pull(s)
	r.due = now.Add(time.Duration(float64(bytes) * float64(nodes) / mirrorBudget * float64(time.Second)))
	if err != nil || !r.copy.At().After(r.at) {
		return nil, err
	}
	is, err := r.copy.Reading()
	switch {
	case err == nil:
		r.at, r.torn = is.At, 0
	case errors.Is(err, mirror.ErrIncomplete):
		if r.torn++; r.torn > maxTorn {
			r.reset(r.of)
		}
	}
	return is, err
}

// pull takes the changes since the last pull and returns how many bytes they had.
func (f *Fleet) pull(s *store.Store) (bytes int, err error) {
	r := &f.reading
	if r.copy == nil || r.of != s.Cluster() {
		r.reset(s.Cluster())
	}
	if s.Member() {
		return r.take(func(since uint64) (store.Changes, error) { return s.Changes(kindMirror, since) })
	}
	err = store.ErrNotLeader
	voters := f.voters()
	rand.Shuffle(len(voters), func(i, k int) { voters[i], voters[k] = voters[k], voters[i] })
	for _, voter := range voters {
		var some int
		some, err = r.take(func(since uint64) (store.Changes, error) { return s.ChangesFrom(voter, kindMirror, since) })
		if bytes += some; err == nil {
			return bytes, nil
		}
	}
	return bytes, err
}

// maxPages limits the requests of one pull, so that a faulty voter cannot prolong it indefinitely.
const maxPages = 64

func (r *reading) take(changes func(since uint64) (store.Changes, error)) (bytes int, err error) {
	for range maxPages {
		c, err := changes(r.index)
		if err != nil {
			return bytes, err
		}
		for _, h := range c.Hints {
			bytes += len(h.Key) + len(h.Payload)
			r.copy.Put(h.Key, h.Payload, time.UnixMilli(h.Expires))
		}
		if c.Index < r.index { // this voter is behind
			return bytes, store.ErrNotLeader
		}
		if r.index = c.Index; !c.More {
			break
		}
	}
	return bytes, nil
}
