package gossip

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Note is something one node tells all others. It is forgotten when its time to live has passed
// since it arrived, by each node's own monotonic clock.
type Note struct {
	Origin  string          `json:"o"` // node that said it; filled by Tell
	Kind    string          `json:"k"`
	Key     string          `json:"i,omitempty"` // the same origin, kind and key: the newer note replaces the older
	Seq     uint64          `json:"n"`           // filled by Tell
	TTL     int             `json:"t"`           // seconds, 1 to 3600
	Payload json.RawMessage `json:"p,omitempty"` // at most 512 bytes
}

const (
	maxPayload   = 512
	maxNote      = 1024 // bytes in JSON; it must fit a packet of 1,400
	maxNotes     = 8192 // of all nodes together; beyond, the ones that expire first go
	maxNoteTTL   = 3600
	maxNoteState = 384 << 10 // bytes of the notes that a node which joins gets, in JSON
)

type noteKey struct{ origin, kind, key string }

type noteEntry struct {
	note    Note
	expires time.Time // with the monotonic clock
}

// notes are the notes this node knows, and the queue of those it passes on.
type notes struct {
	origin string

	mu         sync.Mutex
	known      map[noteKey]noteEntry // those that have expired, too, until room is needed
	evictedSeq map[string]uint64     // by origin: the highest number that was taken out of known
	seq        uint64
	arrived    chan struct{} // closed when a note of another node comes
	queue      *memberlist.TransmitLimitedQueue
}

func newNotes(origin string, size func() int) *notes {
	return &notes{
		origin: origin, known: map[noteKey]noteEntry{}, evictedSeq: map[string]uint64{}, arrived: make(chan struct{}),
		// A node that starts again goes on beyond what it said before.
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
	if err != nil || len(b) > maxNote {
		return fmt.Errorf("note %s/%s of %d bytes: %w: %w", n.Kind, n.Key, len(b), err, fault.ErrConfig)
	}
	s.add(n, b)
	return nil
}

// receive takes a note from another node; a note that is wrong, old or known already goes no further.
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

// acquire keeps a note if it is news, and queues it for the others.
func (s *notes) add(n Note, b []byte) {
	key := noteKey{n.Origin, n.Kind, n.Key}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	// A number that was seen before is a replay, also when its note has expired. Each start of a node is
	// another origin, so its numbers only rise.
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

// evict takes out what has expired, and then what expires first, while there is too much.
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

// remove takes a note out and remembers that numbers up to its own are old.
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

// nextArrival is closed when another node's note comes.
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

// state is every note with the time that is left of it, for a node that has just come.
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

// broadcast is a note on its way. A newer note of the same key does not take it out of the queue:
// memberlist 0.6.0 then numbers its entries anew and loses one of two of equal length. The older
// one goes out as well and is known to be old where it arrives.
type broadcast struct{ body []byte }

// UniqueBroadcast tells memberlist not to look for notes that this one replaces.
func (b *broadcast) UniqueBroadcast()                      {}
func (b *broadcast) Invalidates(memberlist.Broadcast) bool { return false }
func (b *broadcast) Message() []byte                       { return b.body }
func (b *broadcast) Finished()                             {}

// delegate answers memberlist. None of its methods waits for anything.
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
