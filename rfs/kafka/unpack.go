package kafka

import (
	"errors"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// errUnpacked leaves the rest of an answer to the next request, which begins behind what was unpacked. The client takes it for a
// batch that the broker has cut off, which is what the ends of answers are.
var errUnpacked = errors.New("enough of the answer is unpacked")

// unpacker bounds what the batches of one answer take unpacked: a few compressed bytes may become any number. The client has one
// request for messages under way at a time.
type unpacker struct {
	kgo.Decompressor       // bounds each batch
	most             int64 // bytes, after which no further batch of the answer is unpacked
	unpacked         atomic.Int64
}

// OnBrokerRead begins a new answer. It is called by the client.
func (u *unpacker) OnBrokerRead(_ kgo.BrokerMetadata, key int16, _ int, _, _ time.Duration, _ error) {
	if key == int16(kmsg.Fetch) {
		u.unpacked.Store(0)
	}
}

// Decompress unpacks a batch; errUnpacked when those before it took enough.
func (u *unpacker) Decompress(packed []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return packed, nil
	}
	if u.unpacked.Load() >= u.most {
		return nil, errUnpacked
	}
	b, err := u.Decompressor.Decompress(packed, codec)
	u.unpacked.Add(int64(len(b)))
	return b, err
}
