package gossip

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/testing/boltstore"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func key(b byte) []byte {
	k := make([]byte, 32)
	for i := range k {
		k[i] = b
	}
	return k
}

func member(name string, keys Keys, finders ...Finder) Config {
	return Config{
		Fleet: "blue", Name: name, Bind: "127.0.0.1:0", Keys: keys, Quick: true, Finders: finders,
		RejoinInterval: 500 * time.Millisecond, Meta: Meta{API: name + ":9443", Version: "1", Zone: "z-" + name}, Log: quiet(),
	}
}

func start(t *testing.T, c Config) *Gossip {
	t.Helper()
	g, err := Start(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.Abandon(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// until waits for a condition, which is checked whenever members change, and periodically.
func until(t *testing.T, g *Gossip, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	for {
		changed := g.Changed()
		if is() {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("never: %s; members %v", what, g.Members())
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func names(g *Gossip) string {
	s := ""
	for _, m := range g.Members() {
		s += m.Name + " "
	}
	return s
}

func TestNodesFindEachOtherAndSeeWhoIsGone(t *testing.T) {
	keys := Keys{key(1)}
	a := start(t, member("a", keys))
	b := start(t, member("b", keys, List{a.Address()}))
	c := start(t, member("c", keys, List{a.Address()}))
	for _, g := range []*Gossip{a, b, c} {
		until(t, g, "all three are known", func() bool { return names(g) == "a b c " })
	}
	if m := a.Members()[2].Meta; m != (Meta{API: "c:9443", Version: "1", Zone: "z-c"}) {
		t.Errorf("c is known as %+v", m)
	}
	// On a busy machine the change may not be sent within the time that SetMeta waits; it stays in progress.
	if err := c.SetMeta(Meta{API: "c:9443", Voter: true, Workers: 7}); err != nil && !errors.Is(err, fault.ErrUnavailable) {
		t.Fatal(err)
	}
	until(t, a, "c's change is known", func() bool { m := a.Members()[2].Meta; return m.Voter && m.Workers == 7 })

	if err := b.Abandon(); err != nil { // as a crash
		t.Fatal(err)
	}
	until(t, a, "b is believed dead", func() bool { return names(a) == "a c " })
	if err := c.Leave(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	until(t, a, "c has left", func() bool { return names(a) == "a " })
}

// silent is a finder that never answers, as a cloud that cannot be reached.
type silent struct{}

func (silent) Find(ctx context.Context) ([]string, error) { <-ctx.Done(); return nil, ctx.Err() }
func (silent) String() string                             { return "silent" }

func TestAFinderThatStaysSilentKeepsNoNodeFromBeingFound(t *testing.T) {
	a := start(t, member("a", nil))
	c := member("b", nil, silent{}, List{a.Address()})
	c.FinderTimeout = 50 * time.Millisecond
	b := start(t, c)
	until(t, b, "the other is found by the next finder", func() bool { return names(b) == "a b " })
}

func TestANoteReachesAllAndIsForgottenAfterItsTime(t *testing.T) {
	keys := Keys{key(1)}
	a := start(t, member("a", keys))
	b := start(t, member("b", keys, List{a.Address()}))
	until(t, b, "two", func() bool { return names(b) == "a b " })
	for i := range 3 {
		if err := a.Broadcast(Note{Kind: "pressure", Key: "target", TTL: 2, Payload: json.RawMessage(fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	if err := a.Broadcast(Note{Kind: "pressure", Key: "other", TTL: 60, Payload: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	until(t, b, "the newest note of each key has come", func() bool {
		n := b.Notes("pressure")
		t.Log(n, a.Notes("pressure"))
		return len(n) == 2 && n[1].Origin == "a" && string(n[1].Payload) == "2"
	})
	// A node that comes later learns it when it joins.
	c := start(t, member("c", keys, List{b.Address()}))
	until(t, c, "the lasting note has come", func() bool { n := c.Notes("pressure"); return len(n) >= 1 && n[0].Key == "other" })
	until(t, b, "the note of two seconds is gone", func() bool { return len(b.Notes("pressure")) == 1 })

	for _, wrong := range []Note{{Kind: "x"}, {Kind: "x", TTL: maxNoteTTL + 1}, {TTL: 1}, {Kind: "x", TTL: 1, Payload: make([]byte, maxPayload+1)},
		{Kind: "x", Key: strings.Repeat("k", maxNote), TTL: 1}} {
		if err := a.Broadcast(wrong); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "%!") {
			t.Errorf("note %+v: %v", wrong, err)
		}
	}
}

func TestAWrongKeyOrAnotherFleetNeverJoins(t *testing.T) {
	a := start(t, member("a", Keys{key(1)}))
	stranger := member("stranger", Keys{key(2)}, List{a.Address()})
	open := member("open", nil, List{a.Address()})
	green := member("green", Keys{key(1)}, List{a.Address()})
	green.Fleet = "green"
	for _, c := range []Config{stranger, open, green} {
		g := start(t, c)
		if n, err := g.list.Join([]string{a.Address()}); n != 0 || err == nil {
			t.Errorf("%s joined: %d, %v", c.Name, n, err)
		}
		if names(g) != c.Name+" " {
			t.Errorf("%s sees %s", c.Name, names(g))
		}
	}
	if names(a) != "a " {
		t.Errorf("a sees %s", names(a))
	}
}

func TestRandomPacketsNeitherCrashNorJoin(t *testing.T) {
	keys := Keys{key(1)}
	a := start(t, member("a", keys))
	rng := rand.New(rand.NewPCG(1, 2))
	udp, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for range 2000 {
		b := make([]byte, 1+rng.IntN(1400))
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		if rng.IntN(2) == 0 { // behind the right label
			b = append([]byte{244, 4, 'b', 'l', 'u', 'e'}, b...)
		}
		if _, err := udp.Write(b); err != nil {
			t.Fatal(err)
		}
		if rng.IntN(100) == 0 {
			tcp, err := net.Dial("tcp", a.Address())
			if err != nil {
				t.Fatal(err)
			}
			_, _ = tcp.Write(b)
			tcp.Close()
		}
	}
	b := start(t, member("b", keys, List{a.Address()}))
	until(t, a, "a node with the key still joins", func() bool { return names(a) == "a b " })
	until(t, b, "both", func() bool { return names(b) == "a b " })
}

func TestKeysRotateWhileNodesRun(t *testing.T) {
	k1, k2 := key(1), key(2)
	a := start(t, member("a", Keys{k1}))
	b := start(t, member("b", Keys{k1}, List{a.Address()}))
	until(t, a, "two", func() bool { return names(a) == "a b " })
	for _, step := range []Keys{{k1, k2}, {k2, k1}, {k2}} {
		for _, g := range []*Gossip{a, b} {
			if err := g.Rotate(step); err != nil {
				t.Fatal(err)
			}
		}
	}
	old := start(t, member("old", Keys{k1}))
	if n, _ := old.list.Join([]string{a.Address()}); n != 0 {
		t.Error("a node with the forgotten key joined")
	}
	c := start(t, member("c", Keys{k2}, List{a.Address()}))
	until(t, c, "all with the new key", func() bool { return names(c) == "a b c " })
	if err := a.Rotate(nil); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("encryption was switched off: %v", err)
	}
}

func TestAFleetThatWentDownFindsItselfByTheCoordinationStore(t *testing.T) {
	store := boltstore.Open(t)
	nodes := &primitive.Nodes{Store: store, Clock: timing.SystemClock()}
	keys := Keys{key(1)}
	for generation := range 2 {
		a := start(t, member(fmt.Sprintf("a%d", generation), keys, NodeList{nodes}))
		b := start(t, member(fmt.Sprintf("b%d", generation), keys, NodeList{nodes}))
		for _, g := range []*Gossip{a, b} {
			if err := nodes.Advertise(t.Context(), primitive.Node{Token: g.Name(), Gossip: g.Address()}); err != nil {
				t.Fatal(err)
			}
		}
		until(t, a, "they met", func() bool { return len(a.Members()) == 2 })
		for _, g := range []*Gossip{a, b} {
			if err := g.Abandon(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// relay is a proxy in front of a node that records the packets sent to it.
type relay struct {
	conn    net.PacketConn
	to      net.Addr
	packets chan []byte
}

func (r *relay) run() {
	b := make([]byte, 64<<10)
	for {
		n, _, err := r.conn.ReadFrom(b)
		if err != nil {
			return
		}
		_, _ = r.conn.WriteTo(b[:n], r.to)
		select {
		case r.packets <- append([]byte(nil), b[:n]...):
		default:
		}
	}
}

func TestReplayedPacketsShowADepartedNodeForAWhileAtMost(t *testing.T) {
	keys := Keys{key(1)}
	// The relay's port is the one a advertises; streams to it are forwarded too.
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	conn, err := net.ListenPacket("udp", tcp.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conf := member("a", keys)
	inner := freePort(t)
	conf.Bind, conf.Advertise = inner, tcp.Addr().String()
	a := start(t, conf)
	to, err := net.ResolveUDPAddr("udp", inner)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{conn: conn, to: to, packets: make(chan []byte, 4096)}
	go r.run()
	go forward(tcp, inner)

	b := start(t, member("b", keys, List{a.Address()}))
	c := start(t, member("c", keys, List{a.Address()}))
	until(t, b, "all", func() bool { return names(b) == "a b c " })
	if err := c.Broadcast(Note{Kind: "n", TTL: 1, Payload: json.RawMessage("1")}); err != nil {
		t.Fatal(err)
	}
	until(t, a, "the note came", func() bool { return len(a.Notes("n")) == 1 })
	if err := c.Leave(2 * time.Second); err != nil {
		t.Fatal(err)
	}
	until(t, a, "c has left", func() bool { return names(a) == "a b " })
	for len(r.packets) > 0 {
		if _, err := conn.WriteTo(<-r.packets, to); err != nil {
			t.Fatal(err)
		}
	}
	until(t, a, "c is gone again and its note too", func() bool { return names(a) == "a b " && len(a.Notes("n")) == 0 })
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func forward(l net.Listener, to string) {
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer in.Close()
			out, err := net.Dial("tcp", to)
			if err != nil {
				return
			}
			defer out.Close()
			go func() { _, _ = io.Copy(out, in); _ = out.(*net.TCPConn).CloseWrite() }()
			_, _ = io.Copy(in, out)
		}()
	}
}

func TestNothingListensForOthersWithoutAKey(t *testing.T) {
	c := member("a", nil)
	c.Bind = "0.0.0.0:0"
	if _, err := Start(t.Context(), c); !errors.Is(err, fault.ErrConfig) {
		t.Fatalf("started: %v", err)
	}
}

func TestKeyFilesAreCheckedAndNeverRepeated(t *testing.T) {
	good := base64.StdEncoding.EncodeToString(key(7))
	for _, c := range []struct {
		name, content string
		mode          os.FileMode
		keys          int
	}{
		{"two keys", "# the new one\n" + good + "\n\n" + base64.StdEncoding.EncodeToString(make([]byte, 32)) + "\n", 0o600, 2},
		{"readable by a group", good, 0o640, 1},
		{"readable by others", good, 0o644, 0},
		{"no key", "#\n", 0o600, 0},
		{"not base64", good + "secretsecret!\n", 0o600, 0},
		{"wrong length", "c2VjcmV0\n", 0o600, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			name := filepath.Join(t.TempDir(), "keys")
			if err := os.WriteFile(name, []byte(c.content), c.mode); err != nil {
				t.Fatal(err)
			}
			keys, err := LoadKeys(name)
			if len(keys) != c.keys || (err == nil) != (c.keys > 0) || err != nil && !errors.Is(err, fault.ErrConfig) {
				t.Fatalf("%d keys, %v", len(keys), err)
			}
		})
	}
}

func TestJoinValuesAreReadOrRefused(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"10.0.0.1:7000", "list 10.0.0.1:7000"},
		{"node-1", "list node-1:7946"},
		{"::1", "list [::1]:7946"},
		{"dns:fleet.internal", "dns fleet.internal"},
		{"dns:_rfsd._tcp.internal", "dns _rfsd._tcp.internal"},
		{"provider=aws tag_key=fleet tag_value=blue", "EC2 instances tagged fleet=blue"},
		{"", ""}, {"http://x", ""}, {"dns:", ""}, {"x:99999", ""},
		{"provider=gcp tag_key=a tag_value=b", ""}, {"provider=aws tag_key=a", ""}, {"provider=aws tag_key=a tag_value=b color=red", ""},
	} {
		f, err := ParseFinder(c.in)
		switch {
		case c.want == "" && !errors.Is(err, fault.ErrConfig):
			t.Errorf("%q: %v, %v", c.in, f, err)
		case c.want != "" && (err != nil || f.String() != c.want):
			t.Errorf("%q: %v, %v", c.in, f, err)
		}
	}
}

func TestNotesAreBounded(t *testing.T) {
	s := newNotes("me", func() int { return 1 })
	for i := range maxNotes + 50 {
		b, _ := json.Marshal(Note{Origin: "o", Kind: "k", Key: fmt.Sprint(i), Seq: 1, TTL: maxNoteTTL - i%100})
		s.receive(b)
	}
	if n := len(s.list("k")); n != maxNotes {
		t.Errorf("%d notes are kept", n)
	}
	if n := len(s.state()); n > maxNoteState {
		t.Errorf("the state has %d bytes", n)
	}
}

// FuzzHear gives a node what a peer with the key could send.
func FuzzHear(f *testing.F) {
	f.Add([]byte(`{"o":"a","k":"pressure","i":"x","n":5,"t":10,"p":{"a":1}}`), false)
	f.Add([]byte(`[{"o":"a","k":"pressure","n":5,"t":10},{"o":"b","k":"lease","n":1,"t":99999}]`), true)
	f.Fuzz(func(t *testing.T, b []byte, state bool) {
		defer fuzzing.Bounded(t, len(b))()
		s := newNotes("me", func() int { return 3 })
		if state {
			s.merge(b)
		} else {
			s.receive(b)
		}
		if len(s.known) > maxNotes {
			t.Fatal("unbounded")
		}
		for k, h := range s.known {
			if k.origin == "me" || h.note.TTL < 1 || h.note.TTL > maxNoteTTL || len(h.note.Payload) > maxPayload {
				t.Fatalf("kept %+v", h.note)
			}
		}
	})
}
