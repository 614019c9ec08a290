package kafka

import (
	"context"
	"errors"
	"fmt"
	"net"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

// messages is an open partition, with connections of its own, so that a partition whose messages are not consumed does not block
// others. It requests at most one answer ahead.
type messages struct {
	topic     *Topic
	partition int
	client    *kgo.Client
	unpack    *unpacker
	end       context.CancelFunc // ends the wait for memory
	batch     []consume.Message
}

// Open opens a partition at an offset.
func (t *Topic) Open(_ context.Context, partition int, from int64) (consume.Messages, error) {
	bounded, ok := t.client.OptValue(kgo.WithDecompressor).(kgo.Decompressor)
	if !ok {
		return nil, fmt.Errorf("kafka: the client has no decompressor: %w", fault.ErrConfig)
	}
	ctx, end := context.WithCancel(context.Background())
	unpack := &unpacker{Decompressor: bounded, most: t.conf.Fetch, shared: t.unfold, ctx: ctx, partition: partition}
	unpack.refuse = func(err error) error { return t.refuse(fmt.Errorf("topic %s, %w", t.conf.Topic, err)) }
	watched := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := t.dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &watchedConn{Conn: conn, most: t.readBytes(), answer: unpack.answer, fetches: map[uint32]int16{}}, nil
	}
	client, err := kgo.NewClient(append(t.options(), kgo.Dialer(watched),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{t.conf.Topic: {int32(partition): kgo.NewOffset().At(from)}}),
		kgo.ConsumeStartOffset(kgo.NoResetOffset()), kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(), kgo.MaxConcurrentFetches(1),
		kgo.WithDecompressor(unpack),
	)...)
	if err != nil {
		end()
		return nil, fmt.Errorf("kafka: %w: %w", err, fault.ErrConfig)
	}
	return &messages{topic: t, partition: partition, client: client, unpack: unpack, end: end}, nil
}

// Next returns the next messages, or none if none arrived within pollTimeout.
func (m *messages) Next(ctx context.Context) ([]consume.Message, error) {
	if refused := m.topic.refused.Load(); refused != nil {
		return nil, *refused
	}
	polling, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	fetched := m.client.PollRecords(polling, maxPoll)
	var failed error
	fetched.EachError(func(_ string, _ int32, err error) {
		if failed == nil && (polling.Err() == nil || !errors.Is(err, polling.Err())) {
			failed = err
		}
	})
	if failed == nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if failed != nil && !errors.Is(failed, errUnpacked) { // that answer had no messages, except for example aborted ones: the next answer continues
		return nil, m.classify(ctx, failed)
	}
	m.batch = m.batch[:0]
	fetched.EachRecord(func(r *kgo.Record) {
		m.batch = append(m.batch, consume.Message{Offset: r.Offset, Key: r.Key, Value: r.Value, Mark: r.Attrs.IsControl()})
	})
	return m.batch, nil
}

func (m *messages) classify(ctx context.Context, err error) error {
	var loss *kgo.ErrDataLoss
	var large *kgo.ErrDecompressTooLarge
	switch {
	case errors.As(err, &loss):
		return fmt.Errorf("partition %d of topic %s: the brokers lost messages that were read before: %w: %w", m.partition, m.topic.conf.Topic, err, fault.ErrConfig)
	case errors.As(err, &large):
		return fmt.Errorf("partition %d of topic %s: the batch of messages at offset %d is longer than --max-batch-size, %d bytes, when unpacked: raise it: %w",
			m.partition, m.topic.conf.Topic, large.Offset, m.topic.conf.Batch, fault.ErrConfig)
	}
	return m.topic.classify(ctx, fmt.Errorf("partition %d: %w", m.partition, err))
}

// Close closes the connections.
func (m *messages) Close() {
	m.end()
	m.client.Close()
	m.unpack.free()
}
