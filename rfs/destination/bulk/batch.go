package bulk

import (
	"bytes"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// item is one document in a body: body[start:source] is its action line,
// body[source:end] its source line, both with their line breaks. A document that is deleted has no source line.
type item struct {
	ordinal            int64
	key                uint64 // of its index and id, with Options.Ordered
	start, source, end uint32 // a body is shorter than 4 GiB
	index              uint32 // into batch.indices; reducedBit states that the source may lack parts
}

const reducedBit = 1 << 31

// reduced reports whether the source may lack parts.
func (it item) reduced() bool { return it.index&reducedBit != 0 }

// indexOf returns the number of the index of an item.
func (it item) indexOf() int { return int(it.index &^ reducedBit) }

// size returns the length of both lines.
func (it item) size() int { return int(it.end - it.start) }

// sent returns the source as it was sent; nil without a source line.
func (it item) sent(body []byte) []byte {
	if it.source == it.end {
		return nil
	}
	return body[it.source : it.end-1]
}

// batch is a range of ordinals that is done or not done as a whole, with the body of
// its documents. The producer fills it, then one goroutine owns it.
type batch struct {
	from, to int64 // ordinals [from, to); guarded by Loader.mu
	done     bool  // guarded by Loader.mu
	end      int64 // becomes to when the batch is flushed; used by the producer only
	opened   time.Time

	body     []byte
	items    []item
	indices  []indexCount
	index    int    // of the last item, into indices
	changes  uint32 // lines.changes of its action line
	failures []doc.Failure
	weight   int    // bytes of body and failures
	release  func() // of the memory of a long document; nil: none
	counts   Counts
	resent   int64 // documents sent again
	// keys are the Options.Ordered keys of the items. The producer writes them before the batch is sent.
	keys    map[uint64]struct{}
	repeats bool // two items have the same key
}

// indexCount is the number of documents of a batch for one index.
type indexCount struct {
	name []byte
	sent int64
}

func (b *batch) reset() {
	*b = batch{body: b.body[:0], items: b.items[:0], indices: b.indices[:0]}
}

// append adds a document. body is the batch's body followed by the action line of the document, for the index with the number
// changes. key is the Options.Ordered key, 0 without it.
func (b *batch) append(d *doc.Document, body []byte, changes uint32, key uint64) {
	start, source := len(b.body), len(body)
	if d.Delete {
		b.counts.Deleted++
	} else {
		body = append(append(body, d.Source...), '\n')
	}
	b.body = body
	if b.changes != changes || len(b.items) == 0 {
		b.index, b.changes = b.indexOf(d.Index), changes
	}
	b.indices[b.index].sent++
	b.items = append(b.items, item{}) // set in place: a copy of fields that were just written waits for them
	it := &b.items[len(b.items)-1]
	it.ordinal, it.key, it.index = d.Ordinal, key, uint32(b.index)
	it.start, it.source, it.end = uint32(start), uint32(source), uint32(len(body))
	b.weight += len(body) - start
	if key != 0 {
		b.take(key)
	}
	b.counts.Live++
	b.counts.Bytes += int64(len(d.Source))
	if d.Reduced {
		it.index |= reducedBit
		b.counts.Reduced++
	}
	if d.Rebuilt {
		b.counts.Rebuilt++
	}
	if d.KeptLast {
		b.counts.KeptLast++
	}
	b.extend(d.Ordinal)
}

// reserve ensures capacity for size more bytes in the body. Beyond a small body it allocates a full one, most bytes,
// immediately, and the items likewise: growing by a quarter each time would copy and discard four times as much.
func (b *batch) reserve(size, most int) {
	n, small := len(b.body), most/smallBody
	if n+size <= small {
		b.body = slices.Grow(b.body, max(size, min(n, small-n)))
		return
	}
	if n := len(b.items); n > 0 {
		b.items = slices.Grow(b.items, n*most/max(len(b.body), 1)-n+1)
	}
	b.body = slices.Grow(b.body, max(size, most-n))
}

// usualLine is the memory reserved for an action line, in bytes. A longer line grows the body.
const usualLine = 1 << 10

// smallBody is the part of a full body, one smallBody-th, up to which a body is small.
const smallBody = 16

// extend extends the range of the batch to an ordinal.
func (b *batch) extend(ordinal int64) { b.end = max(b.end, ordinal+1) }

func (b *batch) indexOf(name []byte) int {
	for i := len(b.indices) - 1; i >= 0; i-- {
		if bytes.Equal(b.indices[i].name, name) {
			return i
		}
	}
	b.indices = append(b.indices, indexCount{name: bytes.Clone(name)})
	return len(b.indices) - 1
}

// indexName returns the name of the index of an item.
func (b *batch) indexName(it item) []byte { return b.indices[it.indexOf()].name }

// compact moves the items at the given positions together, to the start of the first item, so that they are
// one contiguous body. Positions are ascending.
func (b *batch) compact(items []item, keep []int) []item {
	at := items[0].start
	for n, pos := range keep {
		it := items[pos]
		copy(b.body[at:], b.body[it.start:it.end])
		it.source += at - it.start
		it.end += at - it.start
		it.start = at
		at = it.end
		items[n] = it
	}
	return items[:len(keep)]
}

// keep counts an item that the target has already.
func (b *batch) keep(it item) {
	b.counts.Kept++
	if it.reduced() {
		b.counts.Reduced--
	}
}

// fail records an item as a failure, with a copy of its source.
func (b *batch) fail(it item, shard, status int, reason doc.Reason, detail string) error {
	a, err := parseAction(b.body[it.start:it.source])
	if err != nil {
		return err
	}
	if it.reduced() {
		b.counts.Reduced--
	}
	b.failures = append(b.failures, doc.Failure{
		Index: a.Index, ID: a.ID, Type: a.Type, Routing: a.Routing, Shard: shard, Ordinal: it.ordinal,
		Reason: reason, Detail: detail, Status: status, Version: a.Version,
		Source: bytes.Clone(it.sent(b.body)),
	})
	return nil
}
