// Package rawbatch produces batches of Kafka messages that no ordinary producer makes: small ones that take a multiple of their size
// as messages.
package rawbatch

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// Records returns n records with empty keys and a number of empty headers each.
func Records(n, headers int, value string) []byte {
	var all, one []byte
	for i := range n {
		one = append(one[:0], 0)                          // attributes
		one = binary.AppendVarint(one, 0)                 // time
		one = binary.AppendVarint(one, int64(i))          // offset
		one = binary.AppendVarint(one, 0)                 // key
		one = binary.AppendVarint(one, int64(len(value))) // value
		one = append(one, value...)
		one = binary.AppendVarint(one, int64(headers))
		one = append(one, make([]byte, 2*headers)...)
		all = binary.AppendVarint(all, int64(len(one)))
		all = append(all, one...)
	}
	return all
}

// Batch is records as a producer states them, which need not be true.
type Batch struct {
	Records []byte
	Stated  int32
	Codec   kgo.CompressionCodec
}

// Produce sends a batch to a partition and returns its length in bytes.
func Produce(ctx context.Context, brokers []string, topicName string, partition int32, x Batch) (wire int, err error) {
	packed, kind := x.Records, kgo.CodecNone
	if x.Codec != kgo.NoCompression() {
		z, err := kgo.DefaultCompressor(x.Codec)
		if err != nil {
			return 0, err
		}
		packed, kind = z.Compress(new(bytes.Buffer), x.Records)
	}
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, Attributes: int16(kind), LastOffsetDelta: x.Stated - 1, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: x.Stated, Records: packed}
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[8:], uint32(len(raw)-12))
	binary.BigEndian.PutUint32(raw[17:], crc32.Checksum(raw[21:], crc32.MakeTable(crc32.Castagnoli)))
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.MaxVersions(kversion.V3_9_0()), kgo.BrokerMaxWriteBytes(256<<20))
	if err != nil {
		return 0, err
	}
	defer client.Close()
	ask := kmsg.NewPtrProduceRequest()
	ask.Acks, ask.TimeoutMillis = -1, 10_000
	topic := kmsg.NewProduceRequestTopic()
	topic.Topic = topicName
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, raw
	topic.Partitions = append(topic.Partitions, p)
	ask.Topics = append(ask.Topics, topic)
	told, err := ask.RequestWith(ctx, client)
	if err != nil {
		return 0, err
	}
	return len(raw), kerr.ErrorForCode(told.Topics[0].Partitions[0].ErrorCode)
}
