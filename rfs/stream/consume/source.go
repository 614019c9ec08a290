package consume

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// part is the source of the item of a partition: its messages from an offset.
type part struct{ *Task }

// Bytes returns 0, since the size of a partition is unknown.
func (part) Bytes(cms.ItemID) int64 { return 0 }

// reading is an open partition.
type reading struct {
	*Task
	reader
	messages Messages
	next     []Message
}

// Open opens the partition at the offset opts.From.
func (p part) Open(ctx context.Context, id cms.ItemID, opts *bulk.Options) (engine.Reading, error) {
	opts.Index, opts.Shard, opts.Ordered, opts.Existing = p.Name, id.Shard, true, bulk.Overwrite
	if opts.MaxAge = p.Linger; opts.MaxAge <= 0 {
		opts.MaxAge = time.Second
	}
	d, err := p.Stream.Describe(ctx)
	if err == nil {
		err = p.same(d)
	}
	if err != nil {
		return nil, err
	}
	if err := p.within(d, id.Shard, opts.From); err != nil {
		return nil, err
	}
	messages, err := p.Stream.Open(ctx, id.Shard, opts.From)
	if err != nil {
		return nil, err
	}
	p.durable.note(id.Shard, opts.From) // the previous holder may have died before it committed this
	return &reading{
		Task: p.Task, messages: messages,
		reader: reader{topic: p.Name, partition: id.Shard, format: p.Format, index: []byte(p.Index), system: p.IncludeSystem, longest: p.MaxSource},
	}, nil
}

// Wrap makes the records of failed documents name their messages, and measures the bodies.
func (r *reading) Wrap(opts *bulk.Options) {
	opts.Sender = paced{opts.Sender, r.pace}
	opts.Recorder = &recorder{Recorder: opts.Recorder, r: &reader{topic: r.topic, partition: r.partition}, task: r.Task}
}

// Next passes the next message to the sink. If none arrives for a moment, it sends the buffered documents.
func (r *reading) Next(ctx context.Context, to *engine.Sink, _ int) (err error) {
	if len(r.next) == 0 {
		if r.next, err = r.messages.Next(ctx); err != nil {
			return err
		}
		if len(r.next) == 0 {
			return to.SendNow(ctx, func() {})
		}
	}
	m := r.next[0]
	r.next = r.next[1:]
	if m.Mark {
		to.Pass(m.Offset)
		return nil
	}
	to.Read(m.Offset)
	r.seen.documents.Add(1)
	r.seen.bytes.Add(int64(len(m.Value)))
	switch is, d, failure := r.read(m); is {
	case filtered:
		return to.Filter(ctx, m.Offset)
	case failing:
		return to.Fail(ctx, failure)
	default:
		if err := r.Indices.Ensure(ctx, d.Index); err != nil {
			return err
		}
		return to.Add(ctx, d)
	}
}

// End returns engine.Unknown, since a stream has no end.
func (*reading) End() int64 { return engine.Unknown }

// Checks records the watermark, which is durable, for the next commit. It returns no checks.
func (r *reading) Checks(watermark int64, _, _ time.Duration) (json.RawMessage, error) {
	r.durable.note(r.partition, watermark)
	return nil, nil
}

// Close closes the partition.
func (r *reading) Close() error {
	r.messages.Close()
	return nil
}

// recorder adds the positions of messages to rejections of the target.
type recorder struct {
	bulk.Recorder
	r    *reader
	task *Task
}

// Record records the failures.
func (r *recorder) Record(ctx context.Context, failures []doc.Failure) error {
	for i := range failures {
		if failures[i].Status != 0 {
			failures[i].Detail = r.r.place(failures[i].Ordinal) + failures[i].Detail
		}
	}
	if err := r.Recorder.Record(ctx, failures); err != nil {
		return err
	}
	r.task.seen.failed.Add(int64(len(failures)))
	return nil
}

// within returns an error for an offset that the partition does not have any more, or not yet: messages were lost, or the topic was
// replaced.
func (t *Task) within(d Description, partition int, from int64) error {
	if partition >= len(d.Partitions) {
		return configError("topic %s has %d partitions, this session consumes partition %d: %s", t.Name, len(d.Partitions), partition, otherTopic)
	}
	switch r := d.Partitions[partition]; {
	case from > r.End:
		return configError("partition %d of topic %s ends at offset %d, this session has consumed it up to %d: %s", partition, t.Name, r.End, from, otherTopic)
	case from < r.Begin:
		return configError("offsets %d to %d of partition %d of topic %s were deleted before they were consumed (retention): restore them, or start another session, which starts at offset %d, with another --session-name",
			from, r.Begin-1, partition, t.Name, r.Begin)
	}
	return nil
}

const otherTopic = "the topic was deleted and made again, or messages were lost. No message is skipped: start another session with another --session-name"

// same returns an error for a topic with another id than the session's.
func (t *Task) same(d Description) error {
	if d.ID == t.topicID {
		return nil
	}
	return configError("topic %s has the id %s, this session consumes the one with %s: %s", t.Name, d.ID, t.topicID, otherTopic)
}

// configError returns an error of the category fault.ErrConfig.
func configError(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, errConfig)...)
}
