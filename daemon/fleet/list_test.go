package fleet

import (
	"errors"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
	"github.com/rfsd/rfsd/rfs/fault"
)

func TestAMachineThatStartedAgainIsCountedOnce(t *testing.T) {
	const second = 1000
	at := func(name, gossip string, seen int64) primitive.Node {
		return primitive.Node{Token: name, Gossip: gossip, Seen: seen * second}
	}
	for _, c := range []struct {
		name string
		list []primitive.Node
		want int
	}{
		{"nobody", nil, 0},
		{"two", []primitive.Node{at("a-1", "a:1", 100), at("b-1", "b:1", 99)}, 2},
		{"one was seen long ago, by the newest", []primitive.Node{at("a-1", "a:1", 200), at("b-1", "b:1", 124)}, 1},
		{"a machine that started again", []primitive.Node{at("a-1", "a:1", 100), at("a-2", "a:1", 101), at("b-1", "b:1", 99)}, 2},
		{"a machine that is called the same", []primitive.Node{at("a-1", "a:1", 100), at("a-2", "b:1", 101)}, 2},
		{"a machine behind the same address", []primitive.Node{at("a-1", "127.0.0.1:7946", 100), at("b-1", "127.0.0.1:7946", 101)}, 2},
		{"nodes without gossip", []primitive.Node{at("a-1", "", 100), at("a-2", "", 101)}, 2},
		{"processes of an import", []primitive.Node{at("a-1", "a:1", 100), {Token: "p", Task: "import", Seen: 101 * second}}, 1},
		{"names as tests have them", []primitive.Node{at("a", "a:1", 100), at("b", "a:1", 101)}, 2},
	} {
		if got := len(liveNodes(c.list, 75*time.Second)); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
}

// TestANodeWhoseGossipCannotBeOpenedIsCounted: others divide the rate with it, and it with them.
func TestANodeWhoseGossipCannotBeOpenedIsCounted(t *testing.T) {
	f := newTestFleet(t)
	first := f.startWith("n0", false)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	conf := Config{
		Store: f.store, Clock: cms.SystemClock(), Workers: func() int { return 1 }, Log: slog.New(slog.DiscardHandler),
		Gossip: gossip.Config{Fleet: "blue", Name: "n1", Bind: taken.Addr().String(), Log: slog.New(slog.DiscardHandler)},
	}
	if _, err := Start(t.Context(), conf); !errors.Is(err, fault.ErrConfig) {
		t.Fatalf("a port that is taken: %v", err)
	}
	eventually(t, "both count two", func() bool {
		count, err := Register(t.Context(), conf)
		return err == nil && count == 2 && first.Plan().ListedNodes == 2
	})
	if rate := first.Plan().Rate; rate > testRate/2 {
		t.Errorf("the other takes %d of %d", rate, testRate)
	}
}
