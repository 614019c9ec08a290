package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// Member is this node's membership of the fleet. Until Begin has succeeded, it has no fleet and reports itself as the only node.
type Member struct {
	// Begin starts the fleet. It is called again after a failure. done is called after the fleet was closed.
	Begin func(ctx context.Context) (f *Fleet, done func(), err error)
	// Keys reads the gossip keys again; nil: no keys.
	Keys func() (gossip.Keys, error)
	Load func() schedule.Load // of this node
	Log  *slog.Logger

	mu    sync.Mutex
	fleet *Fleet
}

func (m *Member) current() *Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet
}

// Share returns this node's position among the live nodes, and their number.
func (m *Member) Share() (position, count int) {
	if f := m.current(); f != nil {
		return f.Share()
	}
	return 0, 1
}

// Nodes returns the live nodes, by the names that their operators gave them.
func (m *Member) Nodes() []status.Node {
	f := m.current()
	if f == nil {
		return nil
	}
	all := f.Nodes()
	for i := range all {
		all[i].Name = nodeName(all[i].Name)
	}
	return all
}

// Gone returns the nodes that have left or failed, by the names that their operators gave them.
func (m *Member) Gone() []status.Node {
	f := m.current()
	if f == nil {
		return nil
	}
	all := f.Gone()
	for i := range all {
		all[i].Name = nodeName(all[i].Name)
	}
	return all
}

// nodeName returns the name of a node without the suffix that distinguishes its starts in gossip.
func nodeName(member string) string {
	if i := len(member) - owner.SuffixLength - 1; i > 0 && member[i] == '-' {
		return member[:i]
	}
	return member
}

// Plan returns the fleet's proposal to this node.
func (m *Member) Plan() schedule.Plan {
	if f := m.current(); f != nil {
		return f.Plan()
	}
	return schedule.Plan{}
}

// Loads returns the loads of all nodes, or of this node alone before it has joined.
func (m *Member) Loads() []schedule.Load {
	if f := m.current(); f != nil {
		return f.Loads()
	}
	return []schedule.Load{m.Load()}
}

// IntentChanged announces to the other nodes that the intent in the store has changed.
func (m *Member) IntentChanged() {
	if f := m.current(); f != nil {
		f.IntentChanged()
	}
}

// IntentFollowed announces to the other nodes that this node follows another version of the intent.
func (m *Member) IntentFollowed() {
	if f := m.current(); f != nil {
		f.IntentFollowed()
	}
}

// ItemPoisoned announces to the other nodes that an item crashed a worker here.
func (m *Member) ItemPoisoned(item string) {
	if f := m.current(); f != nil {
		f.ItemPoisoned(item)
	}
}

// Mirrors reports whether this node reads the store for the whole fleet.
func (m *Member) Mirrors() bool {
	f := m.current()
	return f != nil && f.Mirrors()
}

// PublishReading makes a reading of the store available to the other nodes.
func (m *Member) PublishReading(r *progress.Reading) error {
	if f := m.current(); f != nil {
		return f.PublishReading(r)
	}
	return nil
}

// Reading returns the leader's reading if there is a newer one.
func (m *Member) Reading(ctx context.Context, asked bool) (*progress.Reading, error) {
	if f := m.current(); f != nil {
		return f.Reading(ctx, asked)
	}
	return nil, nil
}

// errNoFleet is the response to other nodes before this node has joined the fleet.
var errNoFleet = fmt.Errorf("this node has not joined the fleet yet: %w", fault.ErrUnavailable)

// PackedReading returns the leader's reading for another node.
func (m *Member) PackedReading(after time.Time) ([]byte, error) {
	if f := m.current(); f != nil {
		return f.PackedReading(after)
	}
	return nil, errNoFleet
}

// Hints returns the hints of a kind for another node.
func (m *Member) Hints(kind string) ([]byte, error) {
	if f := m.current(); f != nil {
		return f.Hints(kind)
	}
	return nil, errNoFleet
}

// Published returns the time of the leader's last published reading.
func (m *Member) Published() time.Time {
	if f := m.current(); f != nil {
		return f.Published()
	}
	return time.Time{}
}

// Rotate reads the gossip keys again.
func (m *Member) Rotate() error {
	f := m.current()
	if f == nil || m.Keys == nil {
		return nil
	}
	keys, err := m.Keys()
	if err != nil {
		return err
	}
	return f.Rotate(keys)
}

// retryBegin is the time between two attempts to start the fleet.
const retryBegin = 5 * time.Second

// Run keeps the node in the fleet until ctx is done. Failures are logged and retried: work continues without the fleet.
func (m *Member) Run(ctx context.Context) error {
	for {
		f, done, err := m.Begin(ctx)
		if err == nil {
			m.mu.Lock()
			m.fleet = f
			m.mu.Unlock()
			<-ctx.Done()
			err := f.Close()
			done()
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		m.Log.Warn("this node works without its fleet for now", "error", fault.Text(err))
		if timing.SystemClock().Sleep(ctx, retryBegin) != nil {
			return nil
		}
	}
}
