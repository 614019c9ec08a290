package status

import (
	"context"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

// StreamPhase is the name of the one phase of a session that consumes a stream.
const StreamPhase = "consume"

// ReadStream reads a session that consumes a stream from its store. Its items are partitions.
func ReadStream(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	r, err := ReadStreamStore(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	return sumStream(r)
}

// ReadStreamStore reads the contents of the store for a session that consumes a stream.
func ReadStreamStore(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error) {
	r, err := progress.ReadHead(ctx, store)
	if err != nil {
		return nil, err
	}
	s, err := consume.ReadStored(ctx, store)
	if err != nil {
		return nil, err
	}
	r.Kind, r.Seeded, r.Phases, r.Items = consume.Kind, len(s.Records) > 0, s.Records, s.Items
	return r, nil
}

// sumStream is Sum for a stream. Its items are partitions.
func sumStream(r *progress.Reading) (*progress.Migration, []Item, error) {
	m := headOf(r)
	a, err := consume.Stored{Records: r.Phases, Items: r.Items}.Account()
	if err != nil {
		return nil, nil, err
	}
	m.Seeded = a.Began
	m.Totals = progress.Counts{
		Items: int64(len(a.Partitions)), ItemsOpen: int64(len(a.Partitions) - a.GivenUp), ItemsBad: int64(a.GivenUp),
		Indexed: a.Counts.Indexed, Failed: a.Counts.Failed, Filtered: a.Counts.Filtered, SourceBytes: a.Counts.Bytes, Retried: a.Counts.Retried,
	}
	m.Totals.Redrive(r.Redrives().TakeAll(m.Totals.Failed))
	m.Phases = []progress.Phase{{Name: StreamPhase, State: progress.NotStarted, Unit: "messages"}}
	if !a.Began {
		return m, nil, nil
	}
	p := &m.Phases[0]
	p.State, p.Done, p.Total = progress.InProgress, a.Counts.Live, a.Counts.Live+a.Lag
	m.Stream = &progress.Stream{Topic: a.Topic, Group: a.Group, Lag: a.Lag, Nodes: int64(len(a.Plan.Nodes)), Assignments: a.Plan.Changes, Idle: []string{}}
	for _, n := range a.Plan.Idle() {
		m.Stream.Idle = append(m.Stream.Idle, n.Token)
	}
	items := make([]Item, 0, len(a.Partitions))
	var activity progress.Activity
	for _, p := range a.Partitions {
		activity.Add(p.Item, m.ReadAt)
		x := partitionItem(p, m.ReadAt)
		items = append(items, x)
		countLease(&m.Totals, x.State)
		if p.FailedItem() {
			m.Failures = append(m.Failures, progress.Failure{Reason: p.Failure, Count: 1, Examples: []string{fmt.Sprintf("%s, partition %d, offset %d", a.Topic, p.Number, p.Watermark)}})
		}
	}
	activity.Set(m)
	inOrder(items)
	return m, items, nil
}

// partitionItem returns the item of a partition: its topic is the index, the partition the shard.
func partitionItem(p consume.Partition, now time.Time) Item {
	x, _ := itemOf(p.Item, now) // its id was decoded before
	return x
}
