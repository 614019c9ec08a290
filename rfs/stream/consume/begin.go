package consume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// stateID and planID are the ids of the records of a session's stream: its state and its plan.
const (
	stateID = "consume:state"
	planID  = "consume:plan"
	// stateVersion is the version of both.
	stateVersion = 1
)

// state describes the stream that a session consumes.
type state struct {
	Version int     `json:"v"`
	Topic   string  `json:"topic"`
	ID      string  `json:"topic_id"`
	Group   string  `json:"group"`
	Begins  []int64 `json:"begins"` // the offset at which the session started each partition
}

// item returns the item of a partition.
func (s *state) item(partition int) cms.ItemID {
	return cms.ItemID{Kind: Kind, Index: s.Topic, Shard: partition, Cursor: s.Begins[partition]}
}

// readState returns the state of a session, or nil if it has not started.
func readState(ctx context.Context, store cms.Records) (*state, error) {
	r, err := store.Record(ctx, stateID)
	if errors.Is(err, cms.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state of the stream: %w", err)
	}
	return decodeState(r)
}

func decodeState(r cms.Record) (*state, error) {
	s := new(state)
	if err := json.Unmarshal(r.Body, s); err != nil {
		return nil, fmt.Errorf("state of the stream: %w: %w", err, fault.ErrCorrupt)
	}
	if s.Version != stateVersion {
		return nil, configError("this session was started by another version of rfsd (its state is of version %d, this one knows %d): continue it with that version, or start another session with a new --session-name", s.Version, stateVersion)
	}
	if len(s.Begins) > MaxPartitions {
		return nil, fmt.Errorf("state of the stream: %d partitions: %w", len(s.Begins), fault.ErrCorrupt)
	}
	return s, nil
}

// bind binds the session to the stream, and creates the missing items of its partitions.
func (t *Task) bind(ctx context.Context) error {
	d, err := t.Stream.Describe(ctx)
	if err != nil {
		return err
	}
	meta := session.Meta{
		Settings: map[string]string{"task": Kind, "topic": t.Name, "group": t.Group, "format": string(t.Format), "index": t.Index},
		Identity: t.Identity,
	}
	if _, err := t.Session.Init(ctx, meta); err != nil {
		return err
	}
	if err := t.Session.Bind(ctx, meta.Identity); err != nil {
		return err
	}
	s, err := t.cover(ctx, d)
	if err != nil {
		return err
	}
	t.topicID = s.ID
	t.begins.Store(&s.Begins)
	if err := t.same(d); err != nil {
		return err
	}
	t.until = t.until[:0]
	for _, r := range d.Partitions {
		t.until = append(t.until, r.End)
	}
	return t.items.SeedOnce(ctx, t.Token, func(ctx context.Context) error { return t.seed(ctx, s) }, nil)
}

// cover records the partitions of the stream that are not recorded yet, with the start offset of each: the offset that the
// group has committed, else the partition's start or end. It returns the recorded state.
func (t *Task) cover(ctx context.Context, d Description) (*state, error) {
	s, err := readState(ctx, t.Store)
	if err != nil || s != nil && len(s.Begins) >= len(d.Partitions) {
		return s, err
	}
	if len(d.Partitions) > MaxPartitions {
		return nil, configError("topic %s has %d partitions: at most %d are consumed", t.Name, len(d.Partitions), MaxPartitions)
	}
	committed, err := t.Stream.Committed(ctx)
	if err != nil {
		return nil, err
	}
	is := &state{Version: stateVersion, Topic: t.Name, ID: d.ID, Group: t.Group}
	err = cms.NewLeases(t.Store, t.Clock, nil).Change(ctx, stateID, Kind, func(_ context.Context, r cms.Record, _ time.Time, _ time.Duration) (cms.Record, cms.Result, error) {
		fresh := len(r.Body) == 0
		if !fresh {
			was, err := decodeState(r)
			if err != nil {
				return r, cms.Already, err
			}
			is = was
		}
		if len(is.Begins) >= len(d.Partitions) {
			return r, cms.Already, nil
		}
		for p := len(is.Begins); p < len(d.Partitions); p++ {
			begin := d.Partitions[p].Begin
			if offset, ok := committed[p]; ok {
				begin = offset
			} else if fresh && t.Latest { // a partition that is added later is consumed from its beginning
				begin = d.Partitions[p].End
			}
			is.Begins = append(is.Begins, begin)
		}
		var err error
		r.Body, err = json.Marshal(is)
		return r, cms.Applied, err
	})
	return is, err
}

// seed creates the items of all partitions.
func (t *Task) seed(ctx context.Context, s *state) error {
	_, err := t.items.SeedItems(ctx, func(yield func(cms.ItemID) bool) {
		for p := range s.Begins {
			if !yield(s.item(p)) {
				return
			}
		}
	})
	return err
}
