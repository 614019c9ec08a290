package gossip

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Note is a message from one node to all others. Each node drops it when its time to live has elapsed since its arrival, by the node's own
// monotonic clock.
type Note struct {
	Origin  string          `json:"o"` // name of the sender; set by Broadcast
	Kind    string          `json:"k"`
	Key     string          `json:"i,omitempty"` // a newer note of the same origin, kind and key replaces the older one
	Seq     uint64          `json:"n"`           // set by Broadcast
	TTL     int             `json:"t"`           // seconds, 1 to 3600
	Payload json.RawMessage `json:"p,omitempty"` // at most 512 bytes
}

const (
	maxPayload   = 512
	maxNote      = 1024 // bytes in JSON; it must fit a packet of 1,400
	maxNotes     = 8192 // of all nodes; beyond this, those that expire first are evicted
	maxNoteTTL   = 3600
	maxNoteState = 384 << 10 // bytes of the JSON with all notes that a joining node receives
)

type noteKey struct{ origin, kind, key string }

type noteEntry struct {
	note    Note
	expires time.Time // with the monotonic clock
}

// notes holds the notes that this node knows, and the queue of notes to retransmit.
type notes struct {
	origin string

	mu         sync.Mutex
	known      map[noteKey]noteEntry // including expired ones, until space is needed
	evictedSeq map[string]uint64     // by origin: the highest sequence number removed from known
	seq        uint64
	arrived    chan struct{} // closed when a note of another node arrives
	queue      *memberlist.TransmitLimitedQueue
}

func newNotes(origin string, size func() int) *notes {
	return &notes{
		origin: origin, known: map[noteKey]noteEntry{}, evictedSeq: map[string]uint64{}, arrived: make(chan struct{}),
		// Sequence numbers increase across restarts.
		seq:   uint64(time.Now().UnixMilli()) << 8,
		queue: &memberlist.TransmitLimitedQueue{NumNodes: size, RetransmitMult: 3},
	}
}

func (s *notes) publish(n Note) error {
	if n.TTL < 1 || n.TTL > maxNoteTTL || len(n.Payload) > maxPayload || n.Kind == "" {
		return fmt.Errorf("note %s/%s: time to live %d s, %d bytes: %w", n.Kind, n.Key, n.TTL, len(n.Payload), fault.ErrConfig)
	}
	s.mu.Lock()
	s.seq++
	n.Origin, n.Seq = s.origin, s.seq
	s.mu.Unlock()
	b, err := json.Marshal(n)
	if err == nil && len(b) > maxNote {
		err = fmt.Errorf("%d bytes, more than %d", len(b), maxNote)
	}
	if err != nil {
		return fmt.Errorf("note %s/%s: %w: %w", n.Kind, n.Key, err, fault.ErrConfig)
	}
	s.add(n, b)
	return nil
}

// receive adds a note from another node; invalid, outdated and known notes are ignored.
func (s *notes) receive(b []byte) {
	var n Note
	if len(b) > maxNote || json.Unmarshal(b, &n) != nil {
		return
	}
	if n.Kind == "" || n.Origin == "" || n.Origin == s.origin || n.TTL < 1 || n.TTL > maxNoteTTL || len(n.Payload) > maxPayload {
		return
	}
	s.add(n, slices.Clone(b))
}

// add stores a note if it is new, and queues it for retransmission.
func (s *notes) add(n Note, b []byte) {
	key := noteKey{n.Origin, n.Kind, n.Key}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A sequence number seen before is a replay, even if its note has expired. Each start of a node uses another origin, so the numbers of
	// an origin only increase.
	if was, ok := s.known[key]; ok && was.note.Seq >= n.Seq || !ok && n.Seq <= s.evictedSeq[n.Origin] {
		return
	}
	if n.Origin != s.origin {
		close(s.arrived)
		s.arrived = make(chan struct{})
	}
	s.known[key] = noteEntry{n, now.Add(time.Duration(n.TTL) * time.Second)}
	s.evict(now)
	s.queue.QueueBroadcast(&broadcast{b})
	s.queue.Prune(maxNotes)
}

// evict removes expired notes, then the notes that expire first, until at most maxNotes are left.
func (s *notes) evict(now time.Time) {
	if len(s.known) <= maxNotes {
		return
	}
	for k, h := range s.known {
		if h.expires.Before(now) {
			s.remove(k, h)
		}
	}
	for len(s.known) > maxNotes {
		var first noteKey
		var until time.Time
		for k, h := range s.known {
			if until.IsZero() || h.expires.Before(until) {
				first, until = k, h.expires
			}
		}
		s.remove(first, s.known[first])
	}
}

// remove removes a note and records its sequence number, so that it is not accepted again.
func (s *notes) remove(k noteKey, h noteEntry) {
	delete(s.known, k)
	s.evictedSeq[k.origin] = max(s.evictedSeq[k.origin], h.note.Seq)
	if len(s.evictedSeq) <= maxNotes {
		return
	}
	oldest := k.origin
	for origin, seq := range s.evictedSeq {
		if seq < s.evictedSeq[oldest] {
			oldest = origin
		}
	}
	delete(s.evictedSeq, oldest)
}

// nextArrival returns a channel that is closed when a note from another node arrives.
func (s *notes) nextArrival() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.arrived
}

func (s *notes) list(kind string) []Note {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Note
	for k, h := range s.known {
		if k.kind == kind && !h.expires.Before(now) {
			all = append(all, h.note)
		}
	}
	slices.SortFunc(all, func(a, b Note) int { return cmp.Or(cmp.Compare(a.Origin, b.Origin), cmp.Compare(a.Key, b.Key)) })
	return all
}

// state returns all notes with their remaining time to live, for a joining node.
func (s *notes) state() []byte {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []Note
	size := 2
	for _, h := range s.known {
		n := h.note
		if n.TTL = int(h.expires.Sub(now) / time.Second); n.TTL < 1 {
			continue
		}
		if size += len(n.Payload) + len(n.Origin) + len(n.Kind) + len(n.Key) + 64; size > maxNoteState {
			break
		}
		all = append(all, n)
	}
	b, err := json.Marshal(all)
	if err != nil {
		return nil
	}
	return b
}

func (s *notes) merge(b []byte) {
	var all []json.RawMessage
	if len(b) > 2*maxNoteState || json.Unmarshal(b, &all) != nil || len(all) > maxNotes {
		return
	}
	for _, n := range all {
		s.receive(n)
	}
}

// broadcast is a queued note. A newer note of the same key does not remove it from the queue: memberlist
// 0.6.0 would renumber its entries and lose one of two of equal length. Receivers ignore the older one.
type broadcast struct{ body []byte }

// UniqueBroadcast marks a broadcast that invalidates no other one.
func (b *broadcast) UniqueBroadcast()                      {}
func (b *broadcast) Invalidates(memberlist.Broadcast) bool { return false }
func (b *broadcast) Message() []byte                       { return b.body }
func (b *broadcast) Finished()                             {}

// delegate implements memberlist.Delegate. Its methods do not block.
type delegate struct{ g *Gossip }

func (d delegate) NodeMeta(limit int) []byte {
	b, err := d.g.currentMeta().encode(limit)
	if err != nil {
		return nil
	}
	return b
}
func (d delegate) NotifyMsg(b []byte) { d.g.notes.receive(b) }
func (d delegate) GetBroadcasts(overhead, limit int) [][]byte {
	return d.g.notes.queue.GetBroadcasts(overhead, limit)
}
func (d delegate) LocalState(bool) []byte            { return d.g.notes.state() }
func (d delegate) MergeRemoteState(b []byte, _ bool) { d.g.notes.merge(b) }

type events struct{ g *Gossip }

func (e events) NotifyJoin(n *memberlist.Node)   { e.g.addMember(n) }
func (e events) NotifyLeave(n *memberlist.Node)  { e.g.removeMember(n) }
func (e events) NotifyUpdate(n *memberlist.Node) { e.g.addMember(n) }
