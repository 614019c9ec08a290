package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// tcp is Streams without TLS, for nodes on loopback.
type tcp struct{ net.Listener }

func (tcp) Dial(address string, timeout time.Duration) (net.Conn, error) {
	return net.DialTimeout("tcp", address, timeout)
}

func listen(t *testing.T, address string) tcp {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return tcp{l}
}

type testNode struct {
	*Store
	conf   Config
	cancel context.CancelFunc
	tends  atomic.Int64
	tended chan struct{}
}

func (n *testNode) stop(t *testing.T) {
	t.Helper()
	n.cancel()
	<-n.tended
	if err := n.Close(); err != nil {
		t.Error(err)
	}
}

type fleet struct {
	t     *testing.T
	nodes []*testNode
	known func() []Node
}

func (f *fleet) start(conf Config) *testNode {
	f.t.Helper()
	s, err := Open(conf)
	if err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(f.t.Context())
	n := &testNode{Store: s, conf: conf, cancel: cancel, tended: make(chan struct{})}
	go func() {
		defer close(n.tended)
		for tick := time.NewTicker(50 * time.Millisecond); ; {
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
				_ = s.ReconcileVoters(ctx, f.known()) // a leader that has just lost the majority cannot
				n.tends.Add(1)
			}
		}
	}()
	return n
}

func newFleet(t *testing.T, size int) *fleet {
	f := &fleet{t: t}
	var all []Node
	f.known = func() []Node { return all }
	var confs []Config
	for i := range size {
		l := listen(t, "127.0.0.1:0")
		conf := Config{
			Dir: t.TempDir(), ID: fmt.Sprintf("n%d", i), Address: l.Addr().String(), Streams: l, Cluster: Cluster{ID: "blue", Epoch: 1},
			Bootstrap: i == 0, Quick: true, Log: slog.New(slog.DiscardHandler),
		}
		confs = append(confs, conf)
		all = append(all, Node{ID: conf.ID, Address: conf.Address, Zone: fmt.Sprint("z", i%3), Started: 1})
	}
	for _, conf := range confs {
		f.nodes = append(f.nodes, f.start(conf))
	}
	return f
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.After(2 * time.Minute)
	for !is() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// put asks every node until the leader has accepted the hint.
func (f *fleet) put(h Hint) {
	f.t.Helper()
	eventually(f.t, "a leader takes the hint", func() bool {
		for _, n := range f.nodes {
			if err := n.Put(f.t.Context(), h); err == nil {
				return true
			} else if !errors.Is(err, ErrNotLeader) && !errors.Is(err, fault.ErrUnavailable) { // the leader that a node knows may be the one that was stopped
				f.t.Fatal(err)
			}
		}
		return false
	})
}

func (f *fleet) everywhere(kind, payload string) {
	f.t.Helper()
	for _, n := range f.nodes {
		eventually(f.t, n.conf.ID+" has the hint", func() bool {
			all, err := n.List(kind)
			return err == nil && len(all) == 1 && string(all[0].Payload) == payload
		})
	}
}

func TestHintsSurviveNodesAndLosingThemAllDoesNoHarm(t *testing.T) {
	f := newFleet(t, 3)
	later := time.Now().Add(time.Hour).UnixMilli()
	eventually(t, "three votes", func() bool { return len(f.nodes[0].Servers()) == 3 })
	f.put(hint("size", "a", later, "1"))
	f.everywhere("size", "1")

	// One is restarted and one is lost for a while: two of three continue.
	lost := f.nodes[0]
	lost.stop(t)
	f.nodes = f.nodes[1:]
	f.put(hint("size", "a", later, "2"))
	f.everywhere("size", "2")
	conf := lost.conf
	conf.Streams = listen(t, conf.Address)
	f.nodes = append(f.nodes, f.start(conf))
	f.everywhere("size", "2")

	// Without a majority nothing is taken, nothing hangs, and what was known is still read.
	f.nodes[0].stop(t)
	f.nodes[1].stop(t)
	alone := f.nodes[2]
	eventually(t, "no node leads", func() bool { return !alone.IsLeader() })
	if err := alone.Put(t.Context(), hint("size", "a", later, "3")); !errors.Is(err, ErrNotLeader) && !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a hint was taken without a majority: %v", err)
	}
	if all, err := alone.List("size"); err != nil || len(all) != 1 {
		t.Errorf("hints %+v, %v", all, err)
	}

	// Another epoch starts empty, in the same directory.
	alone.stop(t)
	conf = alone.conf
	conf.Cluster.Epoch, conf.Bootstrap, conf.Streams = 2, true, listen(t, conf.Address)
	f.nodes = []*testNode{f.start(conf)}
	f.put(hint("size", "b", later, "4"))
	f.everywhere("size", "4")
	// The others are believed alive, but do not answer: with votes they would take the majority away.
	tended := f.nodes[0].tends.Load()
	eventually(t, "the leader looked for voters ten times", func() bool { return f.nodes[0].tends.Load() > tended+10 })
	if err := f.nodes[0].Put(t.Context(), hint("size", "b", later, "5")); err != nil {
		t.Errorf("the leader lost its majority to nodes that are missing: %v", err)
	}
	if votes := f.nodes[0].Servers(); len(votes) != 1 {
		t.Errorf("votes %+v", votes)
	}
	if entries, err := os.ReadDir(conf.Dir); err != nil || len(entries) != 1 {
		t.Errorf("files of the former epoch are left: %v, %v", entries, err)
	}
	f.nodes[0].stop(t)
}

func TestExpiredHintsAreSwept(t *testing.T) {
	f := newFleet(t, 1)
	f.put(hint("n", "short", time.Now().Add(50*time.Millisecond).UnixMilli(), "1"))
	f.put(hint("n", "long", time.Now().Add(time.Hour).UnixMilli(), "2"))
	eventually(t, "it is gone from the file", func() bool {
		all, err := f.nodes[0].fsm.list("n", time.UnixMilli(0))
		return err == nil && len(all) == 1 && all[0].Key == "long"
	})
	f.nodes[0].stop(t)
}

func TestStore_TheLeaderTakesHintsAndMayResign(t *testing.T) {
	later := time.Now().Add(time.Hour).UnixMilli()
	f := newFleet(t, 3)
	eventually(t, "three votes", func() bool { return len(f.nodes[0].Servers()) == 3 })
	f.put(hint("size", "a", later, "1"))
	f.everywhere("size", "1")
	leaders := func() (all []*testNode) {
		for _, n := range f.nodes {
			if n.IsLeader() {
				all = append(all, n)
			}
		}
		return all
	}
	former := f.nodes[0]
	eventually(t, "it leads", former.IsLeader)
	for _, n := range f.nodes[1:] {
		if err := n.Put(t.Context(), hint("size", "a", later, "2")); !errors.Is(err, ErrNotLeader) {
			t.Errorf("a follower took a hint: %v", err)
		}
	}
	former.Resign()
	eventually(t, "another one leads", func() bool { all := leaders(); return len(all) == 1 && all[0] != former })
	f.put(hint("size", "a", later, "3"))
	f.everywhere("size", "3")
	for _, n := range f.nodes {
		n.stop(t)
	}
}

func TestStore_AFleetOfTwoHasOneCopy(t *testing.T) {
	f := newFleet(t, 2)
	f.put(hint("size", "a", time.Now().Add(time.Hour).UnixMilli(), "1"))
	if f.nodes[1].Member() {
		t.Error("the second node has a copy")
	}
	for _, n := range f.nodes {
		n.stop(t)
	}
}

// TestValid_LeavesOutWhatIsNotAHint passes hints that another node may return.
func TestValid_LeavesOutWhatIsNotAHint(t *testing.T) {
	later := time.Now().Add(time.Hour).UnixMilli()
	good := hint("size", "a", later, "1")
	got := Valid([]Hint{
		hint("other", "a", later, "1"), hint("size", "a", 1, "1"), hint("size", string(make([]byte, maxKey+1)), later, "1"), good,
		{Kind: "size", Key: "a", Expires: later, Payload: make([]byte, maxPayload+1)},
	}, "size")
	if len(got) != 1 || got[0].Key != good.Key {
		t.Errorf("%+v", got)
	}
}

// TestAFollowerGetsOneRequestAfterTheOther: with several requests in flight Raft may never end.
func TestAFollowerGetsOneRequestAfterTheOther(t *testing.T) {
	l, err := newLayer(listen(t, "127.0.0.1:0"), Cluster{ID: "blue"})
	if err != nil {
		t.Fatal(err)
	}
	tr := newTransport(l, logger{log: slog.New(slog.DiscardHandler)})
	defer tr.Close()
	if p, err := tr.AppendEntriesPipeline("n", raft.ServerAddress(l.Addr().String())); !errors.Is(err, raft.ErrPipelineReplicationNotSupported) {
		t.Errorf("%v, %v", p, err)
	}
}

func TestAnotherEpochAndStrangersAreTurnedAwayWithoutDelayingOthers(t *testing.T) {
	l, err := newLayer(listen(t, "127.0.0.1:0"), Cluster{ID: "blue", Epoch: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	address := l.Addr().String()
	for range 10 { // they say nothing and are waited for next to the others
		silent, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer silent.Close()
	}
	for _, c := range []Cluster{{"blue", 1}, {"green", 2}, {"blu", 2}} {
		own, err := newLayer(listen(t, "127.0.0.1:0"), c)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := own.Dial("", 0)
		if err == nil {
			conn.Close()
		}
		if conn, err := own.Dial(raft.ServerAddress(address), time.Second); err == nil {
			conn.Close()
			t.Errorf("%+v was let in", c)
		}
		own.Close()
	}
	right, err := newLayer(listen(t, "127.0.0.1:0"), Cluster{"blue", 2})
	if err != nil {
		t.Fatal(err)
	}
	defer right.Close()
	accepted := make(chan error, 1)
	go func() {
		conn, err := l.Accept()
		if err == nil {
			_, err = conn.Write([]byte("hi"))
			conn.Close()
		}
		accepted <- err
	}()
	conn, err := right.Dial(raft.ServerAddress(address), 5*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	b, err := io.ReadAll(conn)
	if err != nil || string(b) != "hi" {
		t.Errorf("%q, %v", b, err)
	}
	if err := <-accepted; err != nil {
		t.Error(err)
	}
}

func TestVotersAreFewSpreadAndOnlyReplacedWhenAMajorityStays(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	n := func(id, zone string, started int64, gone time.Duration) Node {
		return Node{ID: id, Address: id + ":1", Zone: zone, Started: started, Gone: gone}
	}
	v := func(ids ...string) (s []Server) {
		for _, id := range ids {
			s = append(s, Server{ID: id, Voter: true})
		}
		return s
	}
	spot := n("s", "y", 1, 0)
	spot.Spot = true
	for _, c := range []struct {
		name    string
		servers []Server
		nodes   []Node
		want    string
	}{
		{"two nodes need one vote", v("a"), []Node{n("a", "x", 1, 0), n("b", "y", 1, 0)}, ""},
		{"three need three, another zone first", v("a"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0), n("c", "y", 2, 0)}, "+c"},
		{"one that may stay before one that may be taken", v("a"), []Node{n("a", "x", 1, 0), spot, n("c", "y", 2, 0)}, "+c"},
		{"a newcomer waits", v("a"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0), n("c", "y", 999_000, 0)}, "+b"},
		{"a missing voter is given time", v("a", "b", "c"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0), n("c", "y", 1, 10*time.Second)}, ""},
		{"then replaced first", v("a", "b", "c"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0), n("c", "y", 1, 2*time.Minute), n("d", "y", 1, 0)}, "+d"},
		{"and then removed", v("a", "b", "c", "d"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0), n("c", "y", 1, 2*time.Minute), n("d", "y", 1, 0)}, "-c"},
		{"never below a majority", v("a", "b", "c"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 2*time.Minute), n("c", "y", 1, 2*time.Minute)}, ""},
		{"too many after a fleet shrank", v("a", "b", "c"), []Node{n("a", "x", 1, 0), n("b", "x", 1, 0)}, "-c"},
	} {
		t.Run(c.name, func(t *testing.T) {
			change, ok := NextChange("a", c.servers, c.nodes, now)
			got := ""
			if ok && change.Add != nil {
				got = "+" + change.Add.ID
			} else if ok {
				got = "-" + change.Remove
			}
			if got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	m := testMachine(b, maxBytes)
	var hints []Hint
	for i := range maxBatch {
		hints = append(hints, Hint{Kind: "size", Key: fmt.Sprint(i), Expires: 1 << 40, Payload: json.RawMessage(`{"bytes":123456789}`)})
	}
	log := entry(b, command{Put: hints})
	for b.Loop() {
		m.Apply(log)
	}
	b.ReportMetric(float64(maxBatch*b.N)/b.Elapsed().Seconds(), "hints/s")
}
