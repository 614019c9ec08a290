package bulk

import (
	"hash/maphash"
	"slices"
)

// keySeed makes keys unpredictable for the authors of documents.
var keySeed = maphash.MakeSeed()

// keyOf returns the key of a document, a hash of its index and id. It is never 0.
func keyOf(index, id []byte) uint64 {
	var h maphash.Hash
	h.SetSeed(keySeed)
	_, _ = h.Write(index) // never fails
	_ = h.WriteByte(0)
	_, _ = h.Write(id)
	return max(h.Sum64(), 1)
}

// inFlight reports whether a batch that was sent and is not done has the key.
func (l *Loader) inFlight(key uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.queue, func(b *batch) bool {
		_, there := b.keys[key]
		return there && b != l.cur && !b.done
	})
}

// addKey adds the key of a document to the batch.
func (b *batch) addKey(key uint64) {
	if b.keys == nil {
		b.keys = map[uint64]struct{}{}
	}
	if _, there := b.keys[key]; there {
		b.repeats = true
	}
	b.keys[key] = struct{}{}
}

// withLater returns the positions keep of items to be sent again, and the positions of all later items of the same keys that the target
// has accepted, which must take effect after them. Positions are ascending.
func withLater(items []item, keep []int, res Result) []int {
	again := make(map[uint64]struct{}, len(keep))
	refused := make(map[int]struct{}, len(res.Refused))
	for _, r := range res.Refused {
		refused[r.Pos] = struct{}{}
	}
	var all []int
	for pos, it := range items {
		_, kept := slices.BinarySearch(keep, pos)
		_, no := refused[pos]
		_, later := again[it.key]
		if kept {
			again[it.key] = struct{}{}
		}
		if kept || later && !no {
			all = append(all, pos)
		}
	}
	return all
}
