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

// errUnpacked leaves the rest of an answer to the next request, which starts behind the unpacked messages. The client takes it for a
// batch that the broker has cut off, as the ends of answers are.
var errUnpacked = errors.New("enough of the answer is unpacked")

// unfolding bounds what the messages of all partitions take in memory, as records of the client: a few bytes may become any number.
type unfolding struct {
	*budget.Budget

	most int64
	turn chan struct{} // held while a batch is unpacked: how much it takes is known afterwards
}

// beside is the memory that records of messages may take in addition to the longest batch, in bytes.
const beside = 64 << 20

func newUnfolding(longest int64) *unfolding {
	most := longest + beside
	return &unfolding{Budget: budget.New(most, 0), most: most, turn: make(chan struct{}, 1)}
}

// unpacker bounds what the answers for one partition unfold to. The client has one request for messages in flight at a time.
type unpacker struct {
	kgo.Decompressor            // bounds each batch
	most             int64      // unpacked bytes, after which no further batch of the answer is unpacked
	shared           *unfolding // of all partitions
	ctx              context.Context
	partition        int
	refuse           func(error) error // ends the process by name

	mu       sync.Mutex
	unpacked int64
	stated   map[uint32]batch // packed batches of the answer, by the checksum of the packed bytes
	held     []*budget.Share  // of the answer at hand
}

// answer is called with each answer before the client sees it. It returns an error for an answer that may not be read, and blocks until
// other partitions leave room for it. What the answer before held is free again: its messages were passed on.
func (u *unpacker) answer(body []byte, version int16) error {
	u.mu.Lock()
	u.unpacked, u.stated = 0, map[uint32]batch{}
	u.mu.Unlock()
	u.free()
	in, ok := withoutHeader(body, version)
	told := kmsg.NewPtrFetchResponse()
	told.SetVersion(version)
	if !ok || told.UnsafeReadFrom(in) != nil {
		return nil // the client reports why it cannot read it
	}
	sum, largest, at := int64(len(body)), int64(0), batch{offset: -1}
	var damaged error
	for _, topic := range told.Topics {
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

// state notes the header of a packed batch. Of several with the same checksum, the header with the most records counts.
func (u *unpacker) state(b batch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	sum := crc32.ChecksumIEEE(b.body)
	if was, known := u.stated[sum]; !known || b.records > was.records {
		u.stated[sum] = b
	}
}

// withoutHeader returns an answer behind its correlation id and, from version 12 on, tagged fields.
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

// take blocks until n bytes are free.
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

// tooLarge ends the process by the name of a batch.
func (u *unpacker) tooLarge(b batch, n int64) error {
	at := "" // a message of a former format: only its bytes are known
	if b.offset >= 0 {
		at = fmt.Sprintf(" at offset %d, of %d messages,", b.offset, b.records)
	}
	return u.refuse(fmt.Errorf("partition %d: the batch of messages%s takes %d bytes of memory with its messages and headers, and all partitions together may take %d: "+
		"raise --max-batch-size, or skip it (a group committed behind it, with another --session-name): %w", u.partition, at, n, u.shared.most, fault.ErrConfig))
}

// damage returns an error for a batch that does not hold the records it states: the client would ask for it again without end.
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

// Decompress unpacks a batch; errUnpacked when those before it took enough, or nothing is free for a further one.
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
	case damaged != nil: // those before it are passed on first
		return nil, errUnpacked
	case first:
		err = u.take(n)
	default: // with what it holds, it would wait for others that wait for it
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
