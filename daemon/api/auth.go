package api

import (
	"context"
	"crypto/tls"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
)

// authenticator identifies the caller of a request.
type authenticator interface {
	authenticate(r *http.Request) (caller, error)
}

// unixAuth authenticates by the file permissions of a socket. Each socket has one role.
type unixAuth cert.Role

func (d unixAuth) authenticate(*http.Request) (caller, error) {
	return caller{role: cert.Role(d), name: "socket"}, nil
}

// tlsAuth authenticates by client certificate. On loopback without certificates, every caller is a reader.
type tlsAuth struct {
	hosts []string
	tls   *tlsListener // nil without certificates
}

// connKey is the key of a request's connection in its context.
type connKey struct{}

func (d tlsAuth) authenticate(r *http.Request) (caller, error) {
	if err := d.sameSite(r); err != nil {
		return caller{}, err
	}
	if d.tls == nil {
		return caller{role: cert.Reader, name: "loopback"}, nil
	}
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return caller{}, denied("no certificate")
	}
	conn, ok := r.Context().Value(connKey{}).(*tls.Conn)
	if !ok {
		return caller{}, denied("no certificate")
	}
	if err := d.tls.valid(conn); err != nil {
		return caller{}, err
	}
	leaf := r.TLS.VerifiedChains[0][0]
	role, err := cert.RoleOf(leaf)
	if err != nil {
		return caller{}, denied(err.Error())
	}
	return caller{role: role, name: string(role) + " " + leaf.Subject.CommonName}, nil
}

// sameSite rejects requests from other sites' pages in a browser: Host must name this node, and an Origin, if present, must be that host.
func (d tlsAuth) sameSite(r *http.Request) error {
	if !slices.Contains(d.hosts, strings.ToLower(r.Host)) {
		return denied(fmt.Sprintf("host %q is not this node's; --allowed-hosts names further ones", r.Host))
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return nil
	}
	u, err := url.Parse(origin)
	scheme := "http"
	if d.tls != nil {
		scheme = "https"
	}
	if err != nil || u.Scheme != scheme || !strings.EqualFold(u.Host, r.Host) {
		return denied(fmt.Sprintf("origin %q is another site", origin))
	}
	return nil
}

// hostsOf returns the names by which a port is reached: its own address; with certificates also every address of this machine, because
// callers are authenticated anyway.
func hostsOf(a net.Addr, withTLS bool) []string {
	host, port, err := net.SplitHostPort(a.String())
	if err != nil {
		return nil
	}
	names := []string{host}
	if ip := net.ParseIP(host); ip != nil && (ip.IsLoopback() || ip.IsUnspecified()) {
		names = append(names, "localhost", "127.0.0.1", "::1")
	}
	if withTLS {
		if addrs, err := net.InterfaceAddrs(); err == nil {
			for _, x := range addrs {
				if n, ok := x.(*net.IPNet); ok {
					names = append(names, n.IP.String())
				}
			}
		}
	}
	var all []string
	for _, n := range names {
		all = append(all, strings.ToLower(net.JoinHostPort(n, port)))
	}
	return append(all, "rfsd") // used by rfsctl for all addresses
}

// RaftProtocol is the ALPN name of Raft connections between nodes.
const RaftProtocol = "rfsd-raft/1"

// secure passes connections from nodes with the protocol RaftProtocol to Config.Raft.
func (s *Server) secure(server *http.Server) {
	server.ConnContext = func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connKey{}, c) }
	server.TLSNextProto = map[string]func(*http.Server, *tls.Conn, http.Handler){
		RaftProtocol: func(_ *http.Server, conn *tls.Conn, _ http.Handler) {
			if role, err := roleOf(conn); err != nil || role != cert.Node || s.conf.Raft == nil {
				_ = conn.Close() // not a node
				return
			}
			s.conf.Raft.take(conn)
		},
	}
}

// Streams carries Raft over the port of the API: it listens for connections from nodes, and dials nodes.
type Streams struct {
	id    *cert.Identity
	addr  string
	conns chan net.Conn
	quit  chan struct{}

	mu     sync.Mutex
	ended  bool
	dialed map[*dialedConn]struct{} // open
}

// NewStreams returns the Streams of a node. addr is the address of its port.
func NewStreams(id *cert.Identity, addr string) *Streams {
	return &Streams{id: id, addr: addr, conns: make(chan net.Conn), quit: make(chan struct{}), dialed: map[*dialedConn]struct{}{}}
}

// take passes a connection to Accept and blocks until it is closed, because net/http closes it on return.
func (s *Streams) take(conn net.Conn) {
	c := &waitedConn{Conn: conn, closed: make(chan struct{})}
	_ = conn.SetDeadline(time.Time{}) // the server's, for requests
	wait := time.NewTimer(headTimeout)
	defer wait.Stop()
	select {
	case s.conns <- c:
	case <-wait.C:
		return // no Stream is accepting
	case <-s.quit:
		return
	}
	select {
	case <-c.closed:
	case <-s.quit:
		_ = c.Close() // shutting down
	}
}

func (s *Streams) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		s.ended = true
		close(s.quit)
	}
}

// Open returns a listener for one epoch of the hints. Closing it does not close the port.
func (s *Streams) Open() *Stream { return &Stream{s: s, quit: make(chan struct{})} }

// Stream is a net.Listener that can also dial.
type Stream struct {
	s    *Streams
	quit chan struct{}
	once sync.Once
}

// Accept returns the next connection from a node.
func (l *Stream) Accept() (net.Conn, error) {
	select {
	case c := <-l.s.conns:
		return c, nil
	case <-l.quit:
	case <-l.s.quit:
	}
	return nil, net.ErrClosed
}

// Close makes Accept return.
func (l *Stream) Close() error {
	l.once.Do(func() { close(l.quit) })
	return nil
}

// Addr returns the address at which other nodes reach this node.
func (l *Stream) Addr() net.Addr { return streamAddr(l.s.addr) }

type streamAddr string

func (streamAddr) Network() string  { return "tcp" }
func (a streamAddr) String() string { return string(a) }

// Dial connects to another node's port.
func (l *Stream) Dial(address string, timeout time.Duration) (net.Conn, error) {
	conf, err := l.s.id.Client(RaftProtocol)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	d := tls.Dialer{NetDialer: &net.Dialer{}, Config: conf}
	conn, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := &dialedConn{Conn: conn.(*tls.Conn), s: l.s}
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	l.s.dialed[c] = struct{}{}
	return c, nil
}

// dialedConn is a connection to another node.
type dialedConn struct {
	*tls.Conn
	s *Streams
}

// Close ends the connection.
func (c *dialedConn) Close() error {
	c.s.mu.Lock()
	delete(c.s.dialed, c)
	c.s.mu.Unlock()
	return c.Conn.Close()
}

// recheck closes connections to nodes whose certificate has become invalid.
func (s *Streams) recheck(now time.Time) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.dialed))
	s.mu.Unlock()
	for _, c := range all {
		if s.id.StillValid(c.ConnectionState(), now) != nil {
			_ = c.NetConn().Close() // without a TLS alert, because a writer may hold its lock
		}
	}
}

type waitedConn struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (c *waitedConn) Close() error {
	err := c.Conn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}
