package fleet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/rfsd/rfsd/daemon/mirror"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/store"
)

// Peers sends requests to other nodes, given by the addresses of their APIs, in turn until one answers.
type Peers interface {
	// Hints returns a node's copy of the hints of a kind, as JSON.
	Hints(ctx context.Context, nodes []string, kind string) ([]byte, error)
	// Reading returns a node's copy of the leader's packed reading of the coordination store; empty if it is not newer than after.
	Reading(ctx context.Context, nodes []string, after time.Time) ([]byte, error)
}

const (
	// unaskedRate is the number of bytes per second that all nodes without a copy of the hints request together, while no operator asks
	// them. questionSize is the size of a request with an empty response.
	unaskedRate  = 200 << 10
	questionSize = 6 << 10
	// smallFleet is the number of nodes up to which each node has the leader's reading, even if no operator asks.
	smallFleet = 20
	// serveRate is the number of bytes per second of readings that a node sends to others, beyond serveBurst.
	serveRate  = 2 << 20
	serveBurst = 4 * mirror.MaxPacked
)

// reading is this node's copy of the leader's reading.
type reading struct {
	served    *rate.Limiter
	published atomic.Int64 // time of the last reading that this node published as the leader, in epoch ms; 0: none

	mu     sync.Mutex
	packed []byte // for other nodes
	at     time.Time
	due    time.Time // time of the next request without an operator's
}

// set replaces the copy with a newer one.
func (r *reading) set(packed []byte, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.packed, r.at = packed, at
}

// Mirrors reports whether this node publishes its readings: it is the leader and has a copy of the hints.
func (f *Fleet) Mirrors() bool {
	s := f.hintStore()
	return f.IsLeader() && s != nil && s.Member() && s.Leader() != ""
}

// PublishReading packs a reading of the coordination store for the other nodes. Only the leader calls it.
func (f *Fleet) PublishReading(is *progress.Reading) error {
	packed, err := mirror.Pack(is)
	if err != nil {
		return err
	}
	f.reading.set(packed, is.At)
	f.reading.published.Store(is.At.UnixMilli())
	return nil
}

// Published returns the time of the leader's last published reading, by the store's clock; zero if this node knows of none.
func (f *Fleet) Published() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.heard.published
}

// PackedReading returns this node's copy of the leader's reading, for another node; empty if it is not newer than after. It returns
// fault.ErrUnavailable if other nodes have requested too much.
func (f *Fleet) PackedReading(after time.Time) ([]byte, error) {
	r := &f.reading
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.After(after) {
		return nil, nil
	}
	if !r.served.AllowN(time.Now(), len(r.packed)) {
		return nil, fmt.Errorf("other nodes have asked for too many readings: %w", fault.ErrUnavailable)
	}
	return r.packed, nil
}

// Reading returns the leader's reading of the coordination store, or nil if none is newer than the last one. Raft's voters always request
// it, and other nodes in a small fleet; in a large fleet, other nodes do so only if an operator asked.
func (f *Fleet) Reading(ctx context.Context, asked bool) (*progress.Reading, error) {
	r, s, now, nodes := &f.reading, f.hintStore(), f.now(), len(f.gossip.Members())
	if s == nil {
		return nil, store.ErrNotLeader
	}
	r.mu.Lock()
	at, due, size := r.at, r.due, len(r.packed)
	r.mu.Unlock()
	if !s.Member() && !asked && (nodes > smallFleet || now.Before(due)) {
		return nil, nil
	}
	voters := f.voters()
	if len(voters) == 0 {
		return nil, nil
	}
	packed, err := f.conf.Peers.Reading(ctx, voters, at)
	r.mu.Lock()
	r.due = now.Add(time.Duration(float64(questionSize+max(size, len(packed))) * float64(nodes) / unaskedRate * float64(time.Second)))
	r.mu.Unlock()
	if err != nil || len(packed) == 0 {
		return nil, err
	}
	is, err := mirror.Unpack(packed)
	if err != nil || !is.At.After(at) {
		return nil, err
	}
	r.set(packed, is.At)
	return is, nil
}

// voters returns the API addresses of other nodes that have a copy of the hints: Raft's leader first if known, the others in random order.
func (f *Fleet) voters() []string {
	leader, first := "", []string(nil)
	if s := f.hintStore(); s != nil {
		leader = s.Leader()
	}
	var others []string
	for _, m := range f.gossip.Members() {
		switch {
		case m.Meta.API == "" || m.Name == f.gossip.Name():
		case m.Name == leader:
			first = []string{m.Meta.API}
		case m.Meta.Voter:
			others = append(others, m.Meta.API)
		}
	}
	rand.Shuffle(len(others), func(i, k int) { others[i], others[k] = others[k], others[i] })
	return append(first, others...)
}
