package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxChanges is the size of a list of changes from which on it ends with the command that it has reached. A command is at most
// maxBatch hints, so that a list stays below maxMessage.
const maxChanges = 1 << 20

// Changes are the unexpired hints of a kind that were put after some index of Raft's log, in the order of the log. Hints that
// expired or were evicted are not among them: what depends on that is told by a hint.
type Changes struct {
	Hints []Hint
	Index uint64 // up to which these are all; below the asked one on a node that is behind
	More  bool   // there are later ones
}

const (
	// changesRate is how many bytes of changes per second a node sends others, beyond changesBurst: large fleets have five voters.
	changesRate  = 128 << 10
	changesBurst = 32 << 20
)

func (c Changes) size() (n int) {
	for _, h := range c.Hints {
		n += int(h.size())
	}
	return n
}

// Changes returns the hints of a kind that were put after an index, from this node's copy. 0 asks for all.
func (s *Store) Changes(kind string, since uint64) (Changes, error) {
	return s.fsm.changes(kind, since, time.Now())
}

func (m *fsm) changes(kind string, since uint64, now time.Time) (c Changes, err error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	err = m.db.View(func(tx *bbolt.Tx) error {
		c.Index = number(tx, keyIndex)
		hints, cursor, size := tx.Bucket(bucketHints), tx.Bucket(bucketChanges).Cursor(), int64(0)
		last := uint64(0)
		for k, _ := cursor.Seek(binary.BigEndian.AppendUint64(nil, since+1)); len(k) > 8; k, _ = cursor.Next() {
			index := binary.BigEndian.Uint64(k)
			if size >= maxChanges && index > last {
				c.Index, c.More = last, true
				return nil
			}
			last = index
			var h stored
			if b := hints.Get(k[8:]); b == nil || json.Unmarshal(b, &h) != nil || h.Index != index {
				continue
			}
			if h.Kind == kind && h.alive(now) {
				c.Hints, size = append(c.Hints, h.Hint), size+h.size()
			}
		}
		return nil
	})
	if err != nil {
		return Changes{}, fmt.Errorf("changes of kind %s: %w: %w", kind, err, fault.ErrUnavailable)
	}
	return c, nil
}

// ChangesFrom is Changes of another node's copy, for nodes without one.
func (s *Store) ChangesFrom(address, kind string, since uint64) (Changes, error) {
	r, err := s.request(address, purposeChanges, changesQuestion{Kind: kind, Since: since})
	if err != nil {
		return Changes{}, err
	}
	return Changes{Hints: live(r.Hints, kind), Index: r.Index, More: r.More}, nil
}

// changesQuestion asks for Changes.
type changesQuestion struct {
	Kind  string `json:"kind"`
	Since uint64 `json:"since"`
}

// live returns the hints of an answer that are within bounds, of the kind and not expired.
func live(hints []Hint, kind string) []Hint {
	now, all := time.Now(), hints[:0]
	for _, h := range hints {
		if h.check() == nil && h.Kind == kind && h.alive(now) {
			all = append(all, h)
		}
	}
	return all
}
