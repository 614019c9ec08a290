package bulk

import (
	"bytes"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// item is one document in a body: body[start:source] is its action line,
// body[source:end] its source line, both with their line breaks. A deletion has no source line.
type item struct {
	ordinal            int64
	key                uint64 // of its index and id, with Options.Ordered
	start, source, end uint32 // a body is shorter than 4 GiB
	index              uint32 // into batch.indices; reducedBit states that the source may lack parts
}

const reducedBit = 1 << 31

func (it item) reduced() bool { return it.index&reducedBit != 0 }

// indexOf returns the position of the item's index in batch.indices.
func (it item) indexOf() int { return int(it.index &^ reducedBit) }

// size returns the length of both lines.
func (it item) size() int { return int(it.end - it.start) }

// sent returns the source as it was sent, without the line break; nil for a deletion.
func (it item) sent(body []byte) []byte {
	if it.source == it.end {
		return nil
	}
	return body[it.source : it.end-1]
}

// batch is a range of ordinals that is done as a whole or not at all, with the body of
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
	release  func() // called when the batch is settled, see SendNow; nil: none
	counts   Counts
	resent   int64 // documents sent again
	// keys are the Options.Ordered keys of the items. The producer writes them before the batch is sent.
	keys    map[uint64]struct{}
	repeats bool // two items have the same key
}

// indexCount counts the documents of a batch for one index.
type indexCount struct {
	name []byte
	sent int64
}

func (b *batch) reset() {
	*b = batch{body: b.body[:0], items: b.items[:0], indices: b.indices[:0]}
}

// append adds a document. body is the batch's body followed by the document's action line; changes is lines.changes after that
// line, which detects a new index. key is the result of keyOf with Options.Ordered, else 0.
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
	b.items = append(b.items, item{}) // set in place: copying a struct just after its fields were written stalls on store forwarding
	it := &b.items[len(b.items)-1]
	it.ordinal, it.key, it.index = d.Ordinal, key, uint32(b.index)
	it.start, it.source, it.end = uint32(start), uint32(source), uint32(len(body))
	b.weight += len(body) - start
	if key != 0 {
		b.addKey(key)
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

// reserve ensures capacity for size more bytes in the body. A body that is not small any more grows immediately to most bytes, the
// length of a full one, and the items likewise: growth by a quarter each time would copy and discard four times as much.
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

// smallBody divides the length of a full body: up to the quotient a body is small.
const smallBody = 16

// extend extends the range of the batch to include an ordinal.
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

func (b *batch) indexName(it item) []byte { return b.indices[it.indexOf()].name }

// compact moves the items at the positions keep, which are ascending, to the start of the first item, so that they form one
// contiguous body, and returns them.
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

// keep counts an item whose document the target keeps as it is.
func (b *batch) keep(it item) {
	b.counts.Kept++
	if it.reduced() {
		b.counts.Reduced--
	}
}

// fail adds an item to the failures of the batch, with a copy of its source.
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
