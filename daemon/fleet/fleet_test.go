package fleet

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

type tcp struct{ net.Listener }

func (tcp) Dial(address string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", address, timeout)
}

type testFleet struct {
	t     *testing.T
	store *boltcms.Store
	nodes map[string]*testNode
	dirs  map[string]string
	begun time.Time

	mu   sync.Mutex
	apis map[string]*testNode // by the addresses of their APIs
}

// left returns the state of a migration that reads a MB and ten documents each second.
func (f *testFleet) left() (schedule.Remaining, bool) {
	done := int64(time.Since(f.begun) / time.Millisecond)
	return schedule.Remaining{
		Items: 50, ItemsOpen: 40, ItemsFailed: 1, Shards: 90, ShardsDone: 9, Indexed: done / 100, Failed: 3, Filtered: 4,
		Bytes: 1 << 40, BytesDone: 1000 * done,
	}, true
}

// lockCounter counts reads of the leader's lock, and refuses requests while the store is away.
type lockCounter struct {
	*boltcms.Store
	reads atomic.Int64
	away  atomic.Bool
}

func (c *lockCounter) Now(ctx context.Context) (time.Time, time.Duration, error) {
	if c.away.Load() {
		return time.Time{}, 0, fault.ErrUnavailable
	}
	return c.Store.Now(ctx)
}

func (c *lockCounter) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if c.away.Load() {
		return cms.Revision{}, fault.ErrUnavailable
	}
	return c.Store.Put(ctx, r)
}

func (c *lockCounter) Record(ctx context.Context, id string) (cms.Record, error) {
	if c.away.Load() {
		return cms.Record{}, fault.ErrUnavailable
	}
	if id == "lock:leader/fleet" {
		c.reads.Add(1)
	}
	return c.Store.Record(ctx, id)
}

type testNode struct {
	*Fleet
	store  *lockCounter
	sched  *schedule.Scheduler
	wished atomic.Int64
}

func newTestFleet(t *testing.T) *testFleet {
	t.Helper()
	s, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	f := &testFleet{t: t, store: s, nodes: map[string]*testNode{}, dirs: map[string]string{}, apis: map[string]*testNode{}, begun: time.Now()}
	t.Cleanup(func() {
		for name := range f.nodes {
			f.stop(name)
		}
		_ = s.Close()
	})
	return f
}

func shards(n int) (all []schedule.Shard) {
	for i := range n {
		all = append(all, schedule.Shard{Index: "logs", Shard: i, Bytes: int64(1000 + i)})
	}
	return all
}

func (f *testFleet) start(name string) *testNode { return f.startWith(name, true) }

func (f *testFleet) startWith(name string, raft bool) *testNode {
	f.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.t.Fatal(err)
	}
	address := l.Addr().String()
	first := true
	streams := func() (store.Streams, error) {
		if first {
			first = false
			return tcp{l}, nil
		}
		again, err := net.Listen("tcp", address)
		return tcp{again}, err
	}
	if !raft {
		streams = nil
		_ = l.Close()
	}
	if f.dirs[name] == "" {
		f.dirs[name] = f.t.TempDir()
	}
	n := &testNode{sched: &schedule.Scheduler{}, store: &lockCounter{Store: f.store}}
	n.Fleet, err = Start(f.t.Context(), Config{
		Store: n.store, Clock: timing.SystemClock(), Dir: f.dirs[name], Streams: streams, RaftAddress: address, Peers: f, Quick: true,
		Gossip: gossip.Config{
			Fleet: "blue", Name: name, Bind: "127.0.0.1:0", Keys: gossip.Keys{make([]byte, 32)}, RejoinInterval: 500 * time.Millisecond,
			Meta: gossip.Meta{API: name + ":1", Version: "1", Zone: name, Started: 1}, Log: slog.New(slog.DiscardHandler),
		},
		Shards:        func(context.Context) ([]schedule.Shard, error) { return shards(90), nil },
		Workers:       func() int { return 2 },
		Load:          testLoad,
		Remaining:     f.left,
		IntentChanged: func() { n.wished.Add(1) },
		Scheduler:     n.sched, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	f.nodes[name] = n
	f.mu.Lock()
	defer f.mu.Unlock()
	f.apis[name+":1"] = n
	return n
}

// Hints and Reading return the result of the first of the nodes that exists and answers.
func (f *testFleet) Hints(_ context.Context, nodes []string, kind string) (hints []byte, err error) {
	err = fault.ErrUnavailable
	for _, n := range f.answering(nodes) {
		if hints, err = n.Hints(kind); err == nil {
			return hints, nil
		}
	}
	return nil, err
}

func (f *testFleet) Reading(_ context.Context, nodes []string, after time.Time) (packed []byte, err error) {
	err = fault.ErrUnavailable
	for _, n := range f.answering(nodes) {
		if packed, err = n.PackedReading(after); err == nil {
			return packed, nil
		}
	}
	return nil, err
}

func (f *testFleet) answering(nodes []string) (all []*testNode) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, api := range nodes {
		if n := f.apis[api]; n != nil {
			all = append(all, n)
		}
	}
	return all
}

func (f *testFleet) stop(name string) {
	f.t.Helper()
	if err := f.nodes[name].Close(); err != nil {
		f.t.Logf("%s: %v", name, err)
	}
	delete(f.nodes, name)
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.apis, name+":1")
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(3 * time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// agree waits until all nodes know each other, one leads, and each proposes its own share of the catalogue.
func (f *testFleet) agree() {
	f.t.Helper()
	eventually(f.t, "all know all", func() bool {
		for _, n := range f.nodes {
			if _, count := n.Share(); count != len(f.nodes) {
				return false
			}
		}
		return true
	})
	eventually(f.t, "exactly one leads", func() bool {
		leaders := 0
		for _, n := range f.nodes {
			if n.IsLeader() {
				leaders++
			}
		}
		return leaders == 1
	})
	eventually(f.t, "each shard is proposed by one node", func() bool {
		seen, twice := map[string]bool{}, false
		for _, n := range f.nodes {
			for _, id := range n.sched.Propose(time.Now(), 100) {
				twice = twice || seen[id]
				seen[id] = true
			}
		}
		return len(seen) == 90 && !twice
	})
}

func TestNodesMeetByTheStoreAndShareTheCatalogue(t *testing.T) {
	f := newTestFleet(t)
	for i := range 3 {
		f.start(fmt.Sprint("n", i))
	}
	f.agree()
	if got := f.nodes["n0"].Nodes(); len(got) != 3 || got[1].Address != "n1:1" || got[1].Zone != "n1" {
		t.Errorf("nodes %+v", got)
	}
	eventually(t, "the version of the intent that each follows is known", func() bool {
		return !slices.ContainsFunc(f.nodes["n0"].Nodes(), func(n status.Node) bool { return n.Order != testLoad().Intent })
	})
	eventually(t, "three vote about hints", func() bool { return len(f.nodes["n0"].hintStore().Servers()) == 3 })

	before := f.nodes["n2"].hintStore().Cluster().Epoch
	if before != 1 {
		t.Errorf("hints started %d times while all was well", before)
	}
	// The majority of voters goes for good: hints begin anew, empty, and are filled again.
	for _, gone := range []string{"n0", "n1"} {
		f.stop(gone)
	}
	f.start("n3")
	f.agree()
	eventually(t, "hints started anew", func() bool { s := f.nodes["n2"].hintStore(); return s != nil && s.Cluster().Epoch > before })

	// Every directory is wiped while all are down.
	for name := range f.nodes {
		f.stop(name)
		if err := os.RemoveAll(f.dirs[name]); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(f.dirs[name], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"n2", "n3"} {
		f.start(name)
	}
	f.agree()
}

// TestLeader: three of four nodes are voters. The Raft leader has the lock; no other node competes for it until no voter is left.
func TestLeader(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	for i := range 4 {
		f.start(fmt.Sprint("n", i))
	}
	leads := func() (leader string) {
		for name, n := range f.nodes {
			if s := n.hintStore(); n.IsLeader() && s != nil && s.IsLeader() {
				leader = name
			}
		}
		return leader
	}
	voters := func() (all []string) {
		for name, n := range f.nodes {
			if s := n.hintStore(); s != nil && s.Member() && s.Leader() != "" {
				all = append(all, name)
			}
		}
		return all
	}
	for i := range 2 { // the second time the leader has left
		eventually(t, "three vote, and one of them has the lock and leads them", func() bool {
			all := voters()
			return len(all) == 3 && slices.Contains(all, leads())
		})
		eventually(t, "the leader asks for the lock, others do not", func() bool { // nodes that were waiting for the lock cease soon
			before := map[string]int64{}
			for name, n := range f.nodes {
				before[name] = n.store.reads.Load()
			}
			leader := leads()
			time.Sleep(2 * quickIntervals.leaderTTL)
			for name, n := range f.nodes {
				if name != leader && n.store.reads.Load() > before[name] {
					return false
				}
			}
			return leader != "" && leader == leads()
		})
		if i == 0 {
			f.stop(leads())
			f.start("n9")
		}
	}
	var all []string
	eventually(t, "three of four vote", func() bool { all = voters(); return len(all) == 3 })
	left := ""
	for name := range f.nodes {
		if !slices.Contains(all, name) {
			left = name
		}
	}
	for _, name := range all {
		f.stop(name)
	}
	eventually(t, "the one that is left leads", f.nodes[left].IsLeader)
}

// TestLeader_WithoutTheStore: the Raft leader cannot reach the coordination store. Another voter leads in its place.
func TestLeader_WithoutTheStore(t *testing.T) {
	t.Parallel()
	f := newTestFleet(t)
	for i := range 3 {
		f.start(fmt.Sprint("n", i))
	}
	leads := func() (leader string) {
		for name, n := range f.nodes {
			if s := n.hintStore(); n.IsLeader() && s != nil && s.IsLeader() && len(s.Servers()) == 3 {
				leader = name
			}
		}
		return leader
	}
	cut := ""
	eventually(t, "one leads", func() bool { cut = leads(); return cut != "" })
	f.nodes[cut].store.away.Store(true)
	eventually(t, "another one leads", func() bool { next := leads(); return next != "" && next != cut })
}

func TestWithoutRaftANodeStillKnowsItsPlace(t *testing.T) {
	f := newTestFleet(t)
	for _, name := range []string{"a", "b"} {
		f.startWith(name, false)
	}
	for _, name := range []string{"a", "b"} { // each learns of the other by itself
		eventually(t, "two", func() bool { _, count := f.nodes[name].Share(); return count == 2 })
	}
	if p, count := f.nodes["b"].Share(); p != 1 || count != 2 {
		t.Errorf("b is %d of %d", p, count)
	}
}
