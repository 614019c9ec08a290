package gossip

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// labelled returns the bytes of a stream or packet of the fleet blue.
func labelled(b ...byte) []byte {
	return append([]byte{typeLabel, 4, 'b', 'l', 'u', 'e'}, b...)
}

// announce returns the head of an encrypted frame that claims n bytes.
func announce(n uint32) []byte {
	return labelled(binary.BigEndian.AppendUint32([]byte{10}, n)...)
}

func dial(t *testing.T, to string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// closedBy reports whether the other side ends the connection.
func closedBy(t *testing.T, conn net.Conn) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn)
	var late net.Error
	return !errors.As(err, &late) || !late.Timeout()
}

func TestTransport(t *testing.T) {
	t.Run("a stream of a stranger ends at the bound of the first frame", func(t *testing.T) {
		a := start(t, member("a", Keys{key(1)}))
		conn := dial(t, a.Address())
		if _, err := conn.Write(announce(19 << 20)); err != nil {
			t.Fatal(err)
		}
		sent, chunk := 0, make([]byte, 64<<10)
		for sent < 16<<20 {
			n, err := conn.Write(chunk)
			sent += n
			if err != nil {
				return // closed before all of it was taken
			}
		}
		t.Fatalf("%d bytes of an undecrypted frame were taken; at most %d should", sent, maxFrame)
	})
	t.Run("strangers of one address have a bound", func(t *testing.T) {
		var lines lineLog
		c := member("a", Keys{key(1)})
		c.Log = slog.New(slog.NewTextHandler(&lines, nil))
		g, err := Start(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		defer g.Abandon() //nolint:errcheck // the test is over
		g.mu.Lock()
		clear(g.hosts) // this test comes from the node's own address
		g.mu.Unlock()
		for range maxPerHost {
			dial(t, g.Address())
		}
		if !closedBy(t, dial(t, g.Address())) {
			t.Fatal("one connection more is open")
		}
		if g.Refused() == 0 || !strings.Contains(lines.String(), "level=WARN msg=\"gossip connections refused\"") {
			t.Errorf("refused %d, log %q", g.Refused(), lines.String())
		}
	})
	t.Run("without a key nothing compressed is taken", func(t *testing.T) {
		a := start(t, member("a", nil))
		conn := dial(t, a.Address())
		if _, err := conn.Write(labelled(typeCompressed, 0x82)); err != nil {
			t.Fatal(err)
		}
		if !closedBy(t, conn) {
			t.Error("the stream is open")
		}
		for _, packet := range [][]byte{{typeCompressed}, {typeChecksum, 0, 0, 0, 0, typeCompressed}, {typeCompound, 1, 0, 1, typeCompressed}, {typeCompound, 1, 0, 1, typeCompound}} {
			if !compressed(labelled(packet...)) {
				t.Errorf("% x passes", packet)
			}
		}
		if compressed(labelled(typeCompound, 1, 0, 3, 4, 1, 2)) {
			t.Error("a plain compound is refused")
		}
	})
	t.Run("names are not addresses to listen on", func(t *testing.T) {
		c := member("a", Keys{key(1)})
		c.Bind = "node.example:7946"
		if err := c.Check(); !errors.Is(err, fault.ErrConfig) {
			t.Error(err)
		}
	})
}

// lineLog is a log that can be read while it is written.
type lineLog struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lineLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *lineLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func TestPlaces(t *testing.T) {
	p := connLimiter{hosts: map[string]int{}}
	for i := range maxNonMembers {
		if !p.acquire(fmt.Sprint("stranger", i), false) {
			t.Fatalf("stranger %d has no place", i)
		}
	}
	if p.acquire("one more", false) {
		t.Error("strangers take the places of members")
	}
	for i := range maxStreams - maxNonMembers {
		if !p.acquire(fmt.Sprint("member", i), true) {
			t.Fatalf("member %d has no place", i)
		}
	}
	if p.acquire("member", true) {
		t.Error("no bound in all")
	}
	for i := range maxNonMembers {
		p.release(fmt.Sprint("stranger", i))
	}
	for i := range maxStreams - maxNonMembers {
		p.release(fmt.Sprint("member", i))
	}
	if p.total != 0 || p.nonMembers != 0 || len(p.hosts) != 0 || len(p.nonMemberConns) != 0 {
		t.Errorf("places are left taken: %+v", &p)
	}
}

// alive is memberlist's message that a node exists, in msgpack.
func alive(name string, ip [4]byte, meta []byte) []byte {
	text := func(b []byte, s string) []byte { return append(append(b, 0xa0|byte(len(s))), s...) }
	raw := func(b, s []byte) []byte {
		return append(append(b, 0xda, byte(len(s)>>8), byte(len(s))), s...)
	}
	b := []byte{4, 0x86}
	b = append(text(b, "Incarnation"), 1)
	b = raw(text(b, "Node"), []byte(name))
	b = raw(text(b, "Addr"), ip[:])
	b = append(text(b, "Port"), 0xcd, 0x1f, 0x0a)
	b = raw(text(b, "Meta"), meta)
	return raw(text(b, "Vsn"), []byte{1, 5, 5, 0, 0, 0})
}

func TestAThousandNodesAndFullNotesFitTheFirstFrame(t *testing.T) {
	slow := member("a", nil) // nothing is compressed without a key
	slow.Quick = false
	a := start(t, slow)
	udp, err := net.Dial("udp", a.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	m := Meta{API: strings.Repeat("h", 150) + ":9443", Raft: strings.Repeat("h", 140) + ":9443"}
	meta, err := m.encode(maxMeta)
	if err != nil {
		t.Fatal(err)
	}
	meta = append(meta, strings.Repeat(" ", maxMeta-len(meta))...)
	const nodes = 1000
	for i := range nodes {
		name := fmt.Sprintf("node-%04d-%s", i, strings.Repeat("n", 50))
		if _, err := udp.Write(labelled(alive(name, [4]byte{127, 9, byte(i >> 8), byte(i)}, meta)...)); err != nil {
			t.Fatal(err)
		}
		if i%50 == 49 {
			until(t, a, "the nodes are known", func() bool { return len(a.Members()) >= i+1 })
		}
	}
	for i := range maxNotes {
		n := Note{Kind: "load", Key: fmt.Sprint(i), TTL: maxNoteTTL, Payload: json.RawMessage(`"` + strings.Repeat("p", 400) + `"`)}
		if err := a.Broadcast(n); err != nil {
			t.Fatal(err)
		}
	}
	fast := member("b", nil, List{a.Address()})
	fast.Quick = false
	b := start(t, fast)
	until(t, b, "the thousand have come", func() bool { return len(b.Members()) >= nodes })
	until(t, b, "notes came with them", func() bool { return len(b.Notes("load")) >= 500 })
}

func TestNotesThatExpiredAreNotHeardAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newNotes("a", func() int { return 1 })
		packet := func(key string, seq uint64, ttl ...int) []byte {
			b, err := json.Marshal(Note{Origin: "b", Kind: "load", Key: key, Seq: seq, TTL: append(ttl, 5)[0]})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		s.receive(packet("x", 7))
		if n := len(s.list("load")); n != 1 {
			t.Fatalf("%d notes", n)
		}
		time.Sleep(6 * time.Second)
		if n := len(s.list("load")); n != 0 {
			t.Fatalf("%d notes after their time", n)
		}
		s.receive(packet("x", 7))
		if n := len(s.list("load")); n != 0 {
			t.Errorf("%d notes after a replay", n)
		}
		s.receive(packet("y", 3)) // delayed, and never seen before
		s.receive(packet("x", 8))
		if n := len(s.list("load")); n != 2 {
			t.Errorf("%d of two notes that are new", n)
		}
		// Where room was needed, the highest number of the origin remains.
		time.Sleep(6 * time.Second)
		for i := range maxNotes + 1 {
			if err := s.publish(Note{Kind: "own", Key: fmt.Sprint(i), TTL: 60}); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := s.known[noteKey{"b", "load", "x"}]; ok {
			t.Fatal("the expired note still has a place")
		}
		s.receive(packet("x", 8))
		s.receive(packet("y", 3))
		if n := len(s.list("load")); n != 0 {
			t.Errorf("%d notes after a replay", n)
		}
		s.receive(packet("y", 9, 100))
		if n := len(s.list("load")); n != 1 {
			t.Error("a new note is refused")
		}
	})
}

// FuzzFirstFrame feeds the first bytes of streams and packets to a node's port.
func FuzzFirstFrame(f *testing.F) {
	for _, seed := range [][]byte{announce(1 << 31), labelled(typeCompressed), labelled(typeCompound, 255, 0, 1), {typeLabel}, {typeLabel, 255}, labelled(6, 0x80), alive("n", [4]byte{}, nil)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		compressed(b)
		near, far := net.Pipe()
		defer far.Close()
		tr := &transport{}
		c := tr.limit(near, func() {})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		go func() {
			defer far.Close()
			_, _ = far.Write(b) // the reader may refuse it
		}()
		got, err := io.ReadAll(c)
		if ctx.Err() != nil {
			t.Fatal("it hangs")
		}
		if err == nil && len(got) != len(b) || len(got) > maxFrame {
			t.Fatalf("%d bytes of %d, %v", len(got), len(b), err)
		}
	})
}

// TestListen_TakenPort opens a port in use by another process, and a port that this process holds for its own gossip.
func TestListen_TakenPort(t *testing.T) {
	conf := Config{Fleet: "blue", Name: "n", Bind: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	port, err := Listen(conf)
	if err != nil {
		t.Fatal(err)
	}
	conf.Bind = net.JoinHostPort("127.0.0.1", strconv.Itoa(port.net.GetAutoBindPort()))
	if _, err := Listen(conf); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), conf.Bind) || !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("a taken port: %v", err)
	}
	conf.Port = port
	g, err := Start(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Abandon(); err != nil {
		t.Error(err)
	}
	if port, err = Listen(conf); err != nil {
		t.Fatalf("the port is still open after the end: %v", err)
	}
	if err := port.Close(); err != nil {
		t.Error(err)
	}
}
