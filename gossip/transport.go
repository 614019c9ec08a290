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

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits of the TCP port. memberlist reads the first frame of a stream completely before it decrypts it, so a client without the key can
// make this process allocate up to maxStreams × maxFrame bytes.
const (
	// maxFrame limits the bytes read from one stream: 1,000 nodes of maxMeta bytes and maxNoteState of notes.
	maxFrame = 1 << 20
	// maxStreams limits the open incoming connections. Addresses of live members can use all of them, other addresses maxNonMembers.
	maxStreams         = 32
	maxNonMembers      = 16
	maxPerHost         = 4  // connections of an address without a member
	maxPerMember       = 16 // connections of an address with members
	streamTimeout      = 10 * time.Second
	refusedLogInterval = 10 * time.Second // between log records about refused connections
)

// transport is memberlist's NetTransport with limits on undecrypted input.
type transport struct {
	*memberlist.NetTransport
	isMember  func(host string) bool // reports whether a live member has the address
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

// Port is an open TCP and UDP port.
type Port struct{ net *memberlist.NetTransport }

// Listen opens the port of Config.Bind; port 0 selects a free one. Nothing is read from it before Start, which takes it over. It returns
// fault.ErrConfig if the port is in use.
func Listen(conf Config) (*Port, error) {
	host, port, err := conf.bind()
	if err != nil {
		return nil, err
	}
	const tries = 10 // a free TCP port may be in use in UDP
	var p Port
	for range tries {
		p.net, err = memberlist.NewNetTransport(&memberlist.NetTransportConfig{
			BindAddrs: []string{host}, BindPort: port, Logger: log.New(newLogWriter(conf.Log), "", 0),
		})
		if err == nil || port != 0 {
			break
		}
	}
	if err != nil {
		return nil, fmt.Errorf("gossip on %s: %w: %w", conf.Bind, err, fault.ErrConfig)
	}
	return &p, nil
}

// Close closes a port that was not passed to Start.
func (p *Port) Close() error { return p.net.Shutdown() }

// newTransport returns a transport that reads from an open port.
func newTransport(port *Port, encrypted bool, known func(string) bool, logger *slog.Logger) *transport {
	t := &transport{
		NetTransport: port.net, isMember: known, encrypted: encrypted, log: logger, limiter: connLimiter{hosts: map[string]int{}},
		streams: make(chan net.Conn), packets: make(chan *memberlist.Packet), quit: make(chan struct{}),
	}
	t.done.Go(t.admitStreams)
	t.done.Go(t.admitPackets)
	return t
}

// StreamCh returns the admitted incoming connections.
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

// admitPackets drops compressed packets of a fleet without keys: without authentication their expansion is unlimited.
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
				return true // nodes of this fleet do not nest compound packets
			}
			at += int(b[2+2*i])<<8 | int(b[3+2*i])
		}
		return false
	}
	return len(b) > 0 && b[0] == typeCompressed
}

// DialAddressTimeout connects to a node. The response is limited like incoming streams.
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
	// Unblock memberlist's listeners, which may be handing over an accepted connection.
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
			"max_per_address", maxPerHost, "max_non_members", maxNonMembers, "max", maxStreams)
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}

// connLimiter limits the open connections in total and per address.
type connLimiter struct {
	mu             sync.Mutex
	hosts          map[string]int
	total          int
	nonMembers     int
	nonMemberConns map[string]int // by address: connections admitted while it had no member
}

// acquire reports whether one more connection of the address is allowed, and counts it.
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

// release frees a slot of the address, one of a non-member first.
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

// refusedCounter counts refused connections, in total and since the last log record.
type refusedCounter struct {
	total atomic.Uint64

	mu   sync.Mutex
	last time.Time
	n    int
}

// add counts one refusal. It returns how many to log now, or 0 if the interval has not elapsed.
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

// limit returns the connection with a limit of the bytes read and of its lifetime.
func (t *transport) limit(conn net.Conn, closed func()) *limitedConn {
	return &limitedConn{Conn: conn, remaining: maxFrame, plain: !t.encrypted, deadline: time.Now().Add(streamTimeout), closed: closed}
}

// errFrameTooLarge is the error of a stream with more bytes than any node sends.
var errFrameTooLarge = fmt.Errorf("a stream brings more than %d bytes: %w", maxFrame, fault.ErrRejected)

var errCompressed = fmt.Errorf("a stream without a key is compressed: %w", fault.ErrRejected)

type limitedConn struct {
	net.Conn
	remaining int // bytes that may still be read
	plain     bool
	seen      int // bytes read of the label and the message type
	label     int // length of the label
	deadline  time.Time
	closed    func()
	once      sync.Once
}

// SetDeadline sets the deadline, at most streamTimeout after the connection was opened.
func (c *limitedConn) SetDeadline(at time.Time) error {
	if at.IsZero() || at.After(c.deadline) {
		at = c.deadline
	}
	return c.Conn.SetDeadline(at)
}

// SetReadDeadline is like SetDeadline, for reads.
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

// inspect parses the first bytes of an unencrypted stream and reports whether it is compressed.
func (c *limitedConn) inspect(b []byte) bool {
	for _, x := range b {
		switch {
		case c.seen == 0 && x == typeLabel:
			c.label = -1 // its length follows
		case c.label < 0:
			c.label = int(x)
		case c.seen > 1 && c.seen < 2+c.label:
		default:
			c.plain = false // this is the message type
			return x == typeCompressed
		}
		c.seen++
	}
	return false
}

// Close closes the connection and frees its slot.
func (c *limitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.closed)
	return err
}
