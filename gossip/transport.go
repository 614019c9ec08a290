package gossip

import (
	"fmt"
	"log"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/memberlist"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Bounds of the TCP port. memberlist reads a stream's first frame whole before it decrypts it, so what
// a caller without the key can make this process hold is maxStreams × maxFrame.
const (
	// maxFrame is what one stream may bring in, bytes: 1,000 nodes of maxMeta bytes and maxNoteState of notes.
	maxFrame = 1 << 20
	// maxStreams is the number of incoming connections at once. Addresses of living members can use all of
	// them, others maxNonMembers.
	maxStreams         = 32
	maxNonMembers      = 16
	maxPerHost         = 4  // connections of one address that no member has
	maxPerMember       = 16 // connections of an address that members have
	streamTimeout      = 10 * time.Second
	refusedLogInterval = 10 * time.Second // at most one line about refused connections in this time
)

// transport is memberlist's network with bounds on what comes in before it is decrypted.
type transport struct {
	*memberlist.NetTransport
	isMember  func(host string) bool // reports whether a living member has the address
	encrypted bool
	log       *slog.Logger

	streams chan net.Conn
	packets chan *memberlist.Packet
	quit    chan struct{}
	once    sync.Once
	done    sync.WaitGroup

	limiter connLimiter
	refused refusedCounter
}

// newTransport opens the TCP and UDP port of host and port; port 0 takes a free one.
func newTransport(host string, port int, encrypted bool, known func(string) bool, logger *slog.Logger) (*transport, error) {
	t := &transport{
		isMember: known, encrypted: encrypted, log: logger, limiter: connLimiter{hosts: map[string]int{}},
		streams: make(chan net.Conn), packets: make(chan *memberlist.Packet), quit: make(chan struct{}),
	}
	const tries = 10 // a free TCP port may be taken in UDP
	var err error
	for range tries {
		t.NetTransport, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{host}, BindPort: port, Logger: log.New(newLogWriter(logger), "", 0),
		})
		if err == nil || port != 0 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	t.done.Go(t.admitStreams)
	t.done.Go(t.admitPackets)
	return t, nil
}

// StreamCh returns the incoming connections that were admitted.
func (t *transport) StreamCh() <-chan net.Conn { return t.streams }

// PacketCh returns the incoming packets.
func (t *transport) PacketCh() <-chan *memberlist.Packet { return t.packets }

func (t *transport) admitStreams() {
	for {
		var conn net.Conn
		select {
		case conn = <-t.NetTransport.StreamCh():
		case <-t.quit:
			return
		}
		host := hostOf(conn.RemoteAddr())
		if !t.limiter.acquire(host, t.isMember(host)) {
			t.refuse(host)
			conn.Close()
			continue
		}
		c := t.limit(conn, func() { t.limiter.release(host) })
		select {
		case t.streams <- c:
		case <-t.quit:
			_ = c.Close() // the transport has ended
			return
		}
	}
}

// admitPackets drops compressed packets where no key says who sent them: they expand without a bound.
func (t *transport) admitPackets() {
	for {
		var p *memberlist.Packet
		select {
		case p = <-t.NetTransport.PacketCh():
		case <-t.quit:
			return
		}
		if !t.encrypted && compressed(p.Buf) {
			t.refuse(hostOf(p.From))
			continue
		}
		select {
		case t.packets <- p:
		case <-t.quit:
			return
		}
	}
}

// Message types of memberlist's frames.
const (
	typeCompound   = 7
	typeCompressed = 9
	typeChecksum   = 12
	typeLabel      = 244
)

// compressed reports whether an unencrypted packet, or a part of one, is compressed.
func compressed(b []byte) bool {
	if len(b) > 2 && b[0] == typeLabel {
		b = b[min(len(b), 2+int(b[1])):]
	}
	if len(b) > 5 && b[0] == typeChecksum {
		b = b[5:]
	}
	if len(b) > 2 && b[0] == typeCompound {
		parts := int(b[1])
		at := 2 + 2*parts
		for i := range parts {
			if at >= len(b) || 3+2*i >= len(b) {
				return false // memberlist refuses it
			}
			if b[at] == typeCompressed || b[at] == typeCompound {
				return true // nothing of ours nests
			}
			at += int(b[2+2*i])<<8 | int(b[3+2*i])
		}
		return false
	}
	return len(b) > 0 && b[0] == typeCompressed
}

// DialAddressTimeout connects to a node; what it answers is bounded like what others bring.
func (t *transport) DialAddressTimeout(a memberlist.Address, timeout time.Duration) (net.Conn, error) {
	conn, err := t.NetTransport.DialAddressTimeout(a, timeout)
	if err != nil {
		return nil, err
	}
	return t.limit(conn, func() {}), nil
}

// DialTimeout is DialAddressTimeout without a node's name.
func (t *transport) DialTimeout(addr string, timeout time.Duration) (net.Conn, error) {
	return t.DialAddressTimeout(memberlist.Address{Addr: addr}, timeout)
}

// Shutdown closes the port.
func (t *transport) Shutdown() error {
	drained := make(chan struct{})
	t.once.Do(func() { close(t.quit) })
	t.done.Wait()
	// The listeners of memberlist may wait to hand over what they have accepted.
	go func() {
		for {
			select {
			case conn := <-t.NetTransport.StreamCh():
				conn.Close()
			case <-t.NetTransport.PacketCh():
			case <-drained:
				return
			}
		}
	}()
	err := t.NetTransport.Shutdown()
	close(drained)
	return err
}

func (t *transport) refuse(host string) {
	if n := t.refused.add(time.Now()); n > 0 {
		t.log.Warn("gossip connections refused", "refused", n, "last_address", host,
			"max_per_address", maxPerHost, "max_of_strangers", maxNonMembers, "max", maxStreams)
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// limiter counts the open connections of each address.
type connLimiter struct {
	mu             sync.Mutex
	hosts          map[string]int
	total          int
	nonMembers     int
	nonMemberConns map[string]int // of each address: connections that were admitted as a stranger's
}

// acquire reports whether one more connection of the address is admitted, and counts it.
func (p *connLimiter) acquire(host string, member bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.total >= maxStreams {
		return false
	}
	if member && p.hosts[host] >= maxPerMember {
		return false
	}
	if !member && (p.hosts[host] >= maxPerHost || p.nonMembers >= maxNonMembers) {
		return false
	}
	if !member {
		if p.nonMemberConns == nil {
			p.nonMemberConns = map[string]int{}
		}
		p.nonMemberConns[host]++
		p.nonMembers++
	}
	p.hosts[host]++
	p.total++
	return true
}

// release gives a place back, a stranger's first.
func (p *connLimiter) release(host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total--
	if p.hosts[host]--; p.hosts[host] <= 0 {
		delete(p.hosts, host)
	}
	if p.nonMemberConns[host] > 0 {
		p.nonMembers--
		if p.nonMemberConns[host]--; p.nonMemberConns[host] == 0 {
			delete(p.nonMemberConns, host)
		}
	}
}

// refusedCounter counts what was refused since the last line about it.
type refusedCounter struct {
	total atomic.Uint64

	mu   sync.Mutex
	last time.Time
	n    int
}

// add counts one and returns how many to report now, 0 for none.
func (r *refusedCounter) add(now time.Time) int {
	r.total.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.n++
	if !r.last.IsZero() && now.Sub(r.last) < refusedLogInterval {
		return 0
	}
	n := r.n
	r.n, r.last = 0, now
	return n
}

// limit limits what a connection brings in, and how long it lasts.
func (t *transport) limit(conn net.Conn, closed func()) *limitedConn {
	return &limitedConn{Conn: conn, remaining: maxFrame, plain: !t.encrypted, deadline: time.Now().Add(streamTimeout), closed: closed}
}

// errFrameTooLarge ends a stream that brings more than any node sends.
var errFrameTooLarge = fmt.Errorf("a stream brings more than %d bytes: %w", maxFrame, fault.ErrRejected)

var errCompressed = fmt.Errorf("a stream without a key is compressed: %w", fault.ErrRejected)

type limitedConn struct {
	net.Conn
	remaining int // bytes that may still come
	plain     bool
	seen      int // bytes of the label and the message's type that have come
	label     int // length of the label
	deadline  time.Time
	closed    func()
	once      sync.Once
}

// SetDeadline keeps a connection from lasting longer than streamTimeout.
func (c *limitedConn) SetDeadline(at time.Time) error {
	if at.IsZero() || at.After(c.deadline) {
		at = c.deadline
	}
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline is SetDeadline for reading.
func (c *limitedConn) SetReadDeadline(at time.Time) error {
	if at.IsZero() || at.After(c.deadline) {
		at = c.deadline
	}
	return c.Conn.SetReadDeadline(at)
}

func (c *limitedConn) Read(b []byte) (int, error) {
	if c.remaining <= 0 {
		return 0, errFrameTooLarge
	}
	n, err := c.Conn.Read(b[:min(len(b), c.remaining)])
	c.remaining -= n
	if c.plain && c.inspect(b[:n]) {
		return 0, errCompressed
	}
	return n, err
}

// inspect looks at the first bytes of an unencrypted stream and reports whether it is compressed.
func (c *limitedConn) inspect(b []byte) bool {
	for _, x := range b {
		switch {
		case c.seen == 0 && x == typeLabel:
			c.label = -1 // its length follows
		case c.label < 0:
			c.label = int(x)
		case c.seen > 1 && c.seen < 2+c.label:
		default:
			c.plain = false // the type was seen
			return x == typeCompressed
		}
		c.seen++
	}
	return false
}

// Close gives the connection's place back.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}
