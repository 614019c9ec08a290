package consume

import (
	"context"
	"maps"
	"sync"
	"time"
)

// commitInterval is the interval between commits of offsets.
const commitInterval = 2 * time.Second

// durable are the offsets below which every message of a partition is in the target, or recorded as failed.
type durable struct {
	mu        sync.Mutex
	marks     map[int]int64
	committed map[int]int64
}

// note sets the durable offset of a partition.
func (d *durable) note(partition int, offset int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.marks == nil {
		d.marks, d.committed = map[int]int64{}, map[int]int64{}
	}
	d.marks[partition] = offset
}

// due returns the offsets that are not committed yet.
func (d *durable) due() map[int]int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	due := maps.Clone(d.marks)
	maps.DeleteFunc(due, func(partition int, offset int64) bool {
		was, ok := d.committed[partition]
		return ok && was == offset
	})
	return due
}

// did records committed offsets.
func (d *durable) did(offsets map[int]int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	maps.Copy(d.committed, offsets)
}

// commit commits offsets periodically until ctx is done, and then once more. A failed commit is only retried, since offsets are for
// other tools.
func (t *Task) commit(ctx context.Context) {
	for t.Clock.Sleep(ctx, commitInterval) == nil {
		t.commitOnce(ctx)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	t.commitOnce(last)
}

// commitOnce commits the offsets that are due. It leaves out a partition if its next holder has committed a later offset.
func (t *Task) commitOnce(ctx context.Context) {
	due := t.durable.due()
	if len(due) == 0 {
		return
	}
	committed, err := t.Stream.Committed(ctx)
	ahead := maps.Clone(due)
	maps.DeleteFunc(ahead, func(partition int, offset int64) bool { return offset < committed[partition] })
	if err == nil && len(ahead) > 0 {
		err = t.Stream.Commit(ctx, ahead)
	}
	if err != nil {
		t.Log.Warn("offsets are not committed: Kafka's tools show a lag that is too large", "group", t.Group, "error", err)
		return
	}
	t.durable.did(due)
}
