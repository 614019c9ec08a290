package api

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// Limits of connections, which apply to each socket and port separately.
const (
	maxSocket     = 64 // connections to a socket, or to the port on loopback without certificates
	maxPerUser    = 16 // of maxSocket: connections of one user
	keptForOwner  = 16 // of maxSocket: reserved for root and the daemon's own user
	maxHandshakes = 1024
	maxPerAddress = 512 // concurrent handshakes from one address
	refusedEvery  = 10 * time.Second

	handshakeTimeout = 3 * time.Second
)

// maxOfRole limits the connections to the port by the role in the certificate.
var maxOfRole = map[cert.Role]int{cert.Node: 256, cert.Operator: 64, cert.Reader: 64}

// refusals counts the refused connections of a socket or port, and logs them once per interval.
type refusals struct {
	log     *slog.Logger
	name    string
	observe func(name string) // nil: nothing

	mu   sync.Mutex
	last time.Time
	n    int
}

// add counts one refusal, and logs at most once per refusedEvery.
func (r *refusals) add(why string) {
	if r.observe != nil {
		r.observe(r.name)
	}
	r.mu.Lock()
	r.n++
	n := 0
	if now := time.Now(); r.last.IsZero() || now.Sub(r.last) >= refusedEvery {
		n, r.n, r.last = r.n, 0, now
	}
	r.mu.Unlock()
	if n > 0 {
		r.log.Warn("connections refused", "listener", r.name, "refused", n, "last_reason", why)
	}
}

// boundListener limits the open connections of a socket in total and per user.
type boundListener struct {
	net.Listener
	refused *refusals
	owner   int // user with reserved connections, in addition to root

	mu    sync.Mutex
	users map[int]int // user → open connections; unknownUser for unidentified ones
	all   int
}

// unknownUser is the user of callers that the kernel does not identify.
const unknownUser = -1

func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				l.refused.add(err.Error())
			}
			return nil, err // net/http retries temporary errors
		}
		user := userOf(conn)
		if why := l.take(user); why != "" {
			l.refused.add(why)
			conn.Close()
			continue
		}
		return &placedConn{Conn: conn, leave: func() { l.leave(user) }}, nil
	}
}

// take counts a connection, or returns the reason why it exceeds a limit.
func (l *boundListener) take(user int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	owner := user == 0 || user == l.owner
	switch {
	case user != unknownUser && l.users[user] >= maxPerUser:
		return fmt.Sprintf("user %d has %d connections", user, maxPerUser)
	case l.all >= maxSocket, !owner && user != unknownUser && l.all >= maxSocket-keptForOwner:
		return fmt.Sprintf("%d connections are open", l.all)
	}
	l.users[user]++
	l.all++
	return ""
}

func (l *boundListener) leave(user int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all--
	if l.users[user]--; l.users[user] == 0 {
		delete(l.users, user)
	}
}

// placedConn releases its slot when it is closed.
type placedConn struct {
	net.Conn
	leave func()
	once  sync.Once
}

func (c *placedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(c.leave)
	return err
}

// tlsListener is the port with certificates. It runs handshakes concurrently, each for up to handshakeTimeout. Above the limit it closes
// the oldest handshake of the address with the most, so that idle connections cannot block others. Connections are limited per role of
// their certificate, and closed when the certificate becomes invalid.
type tlsListener struct {
	net.Listener
	id      *cert.Identity
	conf    *tls.Config
	now     func() time.Time
	refused *refusals

	ready chan net.Conn
	fail  chan error
	quit  chan struct{}
	once  sync.Once
	done  sync.WaitGroup
	also  func(now time.Time) // rechecks the connections dialed by this node; may be nil

	mu      sync.Mutex
	pending map[string][]net.Conn // by address, oldest first
	waiting int
	open    map[*tls.Conn]*shown
	roles   map[cert.Role]int
}

func newTLSListener(l net.Listener, id *cert.Identity, now func() time.Time, refused *refusals, also func(time.Time)) *tlsListener {
	t := &tlsListener{
		Listener: l, id: id, conf: id.Server("http/1.1", RaftProtocol), now: now, refused: refused, also: also,
		ready: make(chan net.Conn), fail: make(chan error), quit: make(chan struct{}),
		pending: map[string][]net.Conn{}, open: map[*tls.Conn]*shown{}, roles: map[cert.Role]int{},
	}
	t.done.Go(t.listen)
	t.done.Go(t.sweep)
	return t
}

// shown is the certificate data of a connection.
type shown struct {
	role       cert.Role
	generation uint64 // of the authority that last verified it
	until      time.Time
}

// Accept returns the next connection with a verified certificate.
func (t *tlsListener) Accept() (net.Conn, error) {
	select {
	case conn := <-t.ready:
		return conn, nil
	case err := <-t.fail:
		return nil, err
	case <-t.quit:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and running handshakes; accepted connections stay open.
func (t *tlsListener) Close() error {
	var err error
	t.once.Do(func() {
		close(t.quit)
		err = t.Listener.Close()
		t.mu.Lock()
		for _, conns := range t.pending {
			for _, c := range conns {
				c.Close()
			}
		}
		t.mu.Unlock()
		t.done.Wait()
	})
	return err
}

// acceptPause is the pause after a failed accept, for example without free file descriptors.
const acceptPause = 50 * time.Millisecond

func (t *tlsListener) listen() {
	for {
		conn, err := t.Listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			t.refused.add(err.Error())
			pause := time.NewTimer(acceptPause)
			select {
			case <-t.quit:
				pause.Stop()
				return
			case <-pause.C:
			}
			continue
		}
		host := t.admit(conn)
		t.done.Go(func() { t.shake(conn, host) })
	}
}

// admit counts a handshake. If there are too many, it closes the oldest one of the address with the most.
func (t *tlsListener) admit(conn net.Conn) (host string) {
	host = hostOf(conn.RemoteAddr())
	t.mu.Lock()
	t.pending[host] = append(t.pending[host], conn)
	t.waiting++
	from := ""
	if len(t.pending[host]) > maxPerAddress {
		from = host
	} else if t.waiting > maxHandshakes {
		for h, conns := range t.pending {
			if from == "" || len(conns) > len(t.pending[from]) {
				from = h
			}
		}
	}
	var oldest net.Conn
	if from != "" {
		oldest = t.pending[from][0]
		t.drop(from, oldest)
	}
	t.mu.Unlock()
	if oldest != nil {
		oldest.Close()
		t.refused.add(fmt.Sprintf("too many handshakes are in progress; the oldest of %s ends", from))
	}
	return host
}

// drop removes a running handshake; t.mu is held.
func (t *tlsListener) drop(host string, conn net.Conn) {
	for i, c := range t.pending[host] {
		if c == conn {
			t.waiting--
			t.pending[host] = append(t.pending[host][:i:i], t.pending[host][i+1:]...)
			break
		}
	}
	if len(t.pending[host]) == 0 {
		delete(t.pending, host)
	}
}

func (t *tlsListener) shake(raw net.Conn, host string) {
	placed := &placedConn{Conn: raw, leave: func() {}}
	conn := tls.Server(placed, t.conf)
	generation := t.id.Generation() // before the handshake reads the authority
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	err := conn.HandshakeContext(ctx)
	cancel()
	t.mu.Lock()
	t.drop(host, raw)
	role := cert.Role("")
	if err == nil {
		role, err = roleOf(conn)
	}
	if err == nil && t.roles[role] >= maxOfRole[role] {
		err = fmt.Errorf("%d connections of the role %s are open", t.roles[role], role)
		defer t.refused.add(err.Error())
	}
	if err == nil {
		t.roles[role]++
		t.open[conn] = &shown{role, generation, cert.Until(conn.ConnectionState())}
		placed.leave = func() { t.leave(conn) }
	}
	t.mu.Unlock()
	if err != nil {
		raw.Close()
		return
	}
	select {
	case t.ready <- conn:
	case <-t.quit:
		_ = conn.Close() // shutting down
	}
}

func (t *tlsListener) leave(conn *tls.Conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s, ok := t.open[conn]; ok {
		delete(t.open, conn)
		t.roles[s.role]--
	}
}

func roleOf(conn *tls.Conn) (cert.Role, error) {
	chains := conn.ConnectionState().VerifiedChains
	if len(chains) == 0 {
		return "", denied("no certificate")
	}
	return cert.RoleOf(chains[0][0])
}

// sweepEvery is the interval at which the certificates of open connections are verified again.
const sweepEvery = 2 * time.Second

func (t *tlsListener) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-tick.C:
			t.recheck()
			if t.also != nil {
				t.also(t.now())
			}
		}
	}
}

// valid returns an error if the certificate of a connection has expired, or is not trusted any more.
func (t *tlsListener) valid(conn *tls.Conn) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.open[conn]
	if !ok {
		return denied("the connection has ended")
	}
	now, generation := t.now(), t.id.Generation()
	if now.After(s.until) {
		return denied("the certificate has expired")
	}
	if s.generation == generation {
		return nil
	}
	if err := t.id.StillValid(conn.ConnectionState(), now); err != nil {
		return denied(err.Error())
	}
	s.generation = generation
	return nil
}

// recheck closes connections whose certificate has expired, or is not trusted any more.
func (t *tlsListener) recheck() {
	t.mu.Lock()
	all := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, conn := range all {
		err := t.valid(conn)
		if err == nil {
			continue
		}
		t.refused.log.Warn("connection closed: certificate no longer valid", "listener", t.refused.name, "address", conn.RemoteAddr().String(), "error", err)
		_ = conn.NetConn().Close() // without a TLS alert, because a writer may hold its lock
	}
}

func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		return a.String()
	}
	return host
}
