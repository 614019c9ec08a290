package kafka

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// errUnpacked leaves the rest of an answer to the next request, which starts after the decompressed messages. The client treats it like
// a truncated batch at the end of an answer.
var errUnpacked = errors.New("enough of the answer is unpacked")

// unfolding limits the memory of the messages of all partitions, as records of the client: a few compressed bytes may become many.
type unfolding struct {
	*budget.Budget

	most int64
	turn chan struct{} // mutex of decompression, since the memory of a batch is known only afterwards
}

// extra is the memory for records in addition to the longest batch, in bytes.
const extra = 64 << 20

func newUnfolding(longest int64) *unfolding {
	most := longest + extra
	return &unfolding{Budget: budget.New(most, 0), most: most, turn: make(chan struct{}, 1)}
}

// unpacker limits the memory of the answers for one partition. The client has one request for messages in flight at a time.
type unpacker struct {
	kgo.Decompressor            // limits each batch
	most             int64      // decompressed bytes after which no further batch of the answer is decompressed
	shared           *unfolding // of all partitions
	ctx              context.Context
	partition        int
	refuse           func(error) error // stores a permanent error; see Topic.refuse

	mu       sync.Mutex
	unpacked int64
	stated   map[uint32]batch // compressed batches of the answer, by the checksum of the compressed bytes
	held     []*budget.Share  // memory of the current answer
}

// answer is called with each answer before the client reads it. It releases the memory of the previous answer, whose messages were
// consumed, and blocks until the budget has memory for this one. It returns an error for an answer that must not be read.
func (u *unpacker) answer(body []byte, version int16) error {
	u.mu.Lock()
	u.unpacked, u.stated = 0, map[uint32]batch{}
	u.mu.Unlock()
	u.free()
	in, ok := withoutHeader(body, version)
	res := kmsg.NewPtrFetchResponse()
	res.SetVersion(version)
	if !ok || res.UnsafeReadFrom(in) != nil {
		return nil // the client reports the error
	}
	sum, largest, at := int64(len(body)), int64(0), batch{offset: -1}
	var damaged error
	for _, topic := range res.Topics {
		for _, p := range topic.Partitions {
			batches(p.RecordBatches, func(b batch) {
				if b.packed {
					u.state(b)
					return
				}
				n := int64(recordCost)
				if b.body != nil {
					n = cost(b.body, max(b.records, 0))
					if damaged == nil {
						damaged = b.damage(b.body)
					}
				}
				if sum += n; n > largest {
					largest, at = n, b
				}
			})
		}
	}
	switch {
	case sum > u.shared.most:
		return u.tooLarge(at, sum)
	case damaged != nil:
		return u.refuse(fmt.Errorf("partition %d: %w", u.partition, damaged))
	}
	return u.take(sum)
}

// state records a compressed batch. Of several with the same checksum, the one with the most records is kept.
func (u *unpacker) state(b batch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := crc32.ChecksumIEEE(b.body)
	if was, known := u.stated[sum]; !known || b.records > was.records {
		u.stated[sum] = b
	}
}

// withoutHeader returns an answer without its header, which since version 12 has tagged fields.
func withoutHeader(in []byte, version int16) ([]byte, bool) {
	if version < 12 {
		return in, true
	}
	fields, in, ok := uvarint(in)
	for ; ok && fields > 0; fields-- {
		var length uint64
		if _, in, ok = uvarint(in); ok {
			length, in, ok = uvarint(in)
		}
		if ok = ok && length <= uint64(len(in)); ok {
			in = in[length:]
		}
	}
	return in, ok
}

// take blocks until the budget has n bytes, and holds them for the current answer.
func (u *unpacker) take(n int64) error {
	s, err := u.shared.Take(u.ctx, n)
	if err != nil {
		return err
	}
	u.hold(s)
	return nil
}

func (u *unpacker) hold(s *budget.Share) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.held = append(u.held, s)
}

// free releases the memory of the answers so far.
func (u *unpacker) free() {
	u.mu.Lock()
	held := u.held
	u.held = nil
	u.mu.Unlock()
	for _, s := range held {
		s.Release()
	}
}

// tooLarge returns, and stores, the permanent error for a batch that needs n bytes of memory.
func (u *unpacker) tooLarge(b batch, n int64) error {
	at := "" // a message of an earlier format: only its length is known
	if b.offset >= 0 {
		at = fmt.Sprintf(" at offset %d, of %d messages,", b.offset, b.records)
	}
	return u.refuse(fmt.Errorf("partition %d: the batch of messages%s takes %d bytes of memory with its messages and headers, and all partitions together may take %d: "+
		"raise --max-batch-size, or skip it (a group committed behind it, with another --session-name): %w", u.partition, at, n, u.shared.most, fault.ErrConfig))
}

// damage returns an error for a batch with fewer records than it states, which the client would request again endlessly.
func (b batch) damage(records []byte) error {
	if b.records <= 0 {
		return nil
	}
	if n, _ := walk(records, b.records); n < b.records {
		return fmt.Errorf("the batch of messages at offset %d states %d messages, and %d can be read: skip it (a group committed behind it, with another --session-name): %w",
			b.offset, b.records, n, fault.ErrCorrupt)
	}
	return nil
}

// Decompress decompresses a batch. It returns errUnpacked if the previous batches reach the limit, or the budget has no memory for
// another one.
func (u *unpacker) Decompress(packed []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return packed, nil
	}
	u.mu.Lock()
	first, enough := u.unpacked == 0, u.unpacked >= u.most
	u.mu.Unlock()
	if enough {
		return nil, errUnpacked
	}
	select {
	case u.shared.turn <- struct{}{}:
		defer func() { <-u.shared.turn }()
	case <-u.ctx.Done():
		return nil, context.Cause(u.ctx)
	}
	out, err := u.Decompressor.Decompress(packed, codec)
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	b, known := u.stated[crc32.ChecksumIEEE(packed)]
	u.mu.Unlock()
	if !known {
		b = batch{offset: -1, records: -1}
	}
	n, damaged := int64(len(out))+cost(out, b.records), b.damage(out)
	switch {
	case first && n > u.shared.most:
		return nil, u.tooLarge(b, n)
	case first && damaged != nil:
		return nil, u.refuse(fmt.Errorf("partition %d: %w", u.partition, damaged))
	case damaged != nil: // first return the previous batches
		return nil, errUnpacked
	case first:
		err = u.take(n)
	default: // blocking while holding memory could deadlock
		s, ok := u.shared.Try(n)
		if !ok {
			return nil, errUnpacked
		}
		u.hold(s)
	}
	if err != nil {
		return nil, err
	}
	u.mu.Lock()
	u.unpacked += max(int64(len(out)), 1)
	u.mu.Unlock()
	return out, nil
}
