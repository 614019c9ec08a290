// Package api serves the API of a node: versioned JSON over Unix sockets, over loopback for readers, or
// over one TLS 1.3 port with roles in client certificates. Every route lists the roles that may use it.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"sync"
	"time"

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Viewer reports the progress of the migration. All methods answer from memory.
type Viewer interface {
	Status(ctx context.Context) status.Report
	Subscribe(ctx context.Context) <-chan struct{}
	Failures(ctx context.Context) (*status.Failures, error)
	Items(ctx context.Context, f status.ItemFilter) (status.ItemList, error)
}

// EventReader returns events, logs, metrics, and the account of the session.
type EventReader interface {
	Account(ctx context.Context) (status.Account, error)
	Events(ctx context.Context, limit int) ([]status.Event, error)
	Logs(ctx context.Context, limit int) []status.LogLine
	Metrics() http.Handler
}

// Controller accepts orders.
type Controller interface {
	// Order stores an order. With session.ErrOrderUnknown it may be in force.
	Order(ctx context.Context, o session.Order) (status.Ordered, error)
}

// Health reports whether the node is well.
type Health interface {
	Healthy() error
	Ready() error
}

// Node is the daemon behind the API: *daemon.Daemon.
type Node interface {
	Viewer
	EventReader
	Controller
	Health
}

// Peer answers requests of other nodes of the fleet.
type Peer interface {
	// Hints returns this node's copy of the hints of a kind, as JSON.
	Hints(kind string) ([]byte, error)
	// PackedReading returns this node's copy of the leader's reading of the coordination store (daemon/mirror); empty if it is not newer
	// than after.
	PackedReading(after time.Time) ([]byte, error)
}

// Config describes where a node listens.
type Config struct {
	Socket       string // Unix socket of operators, 0660; "" for none
	StatusSocket string // Unix socket of readers, 0666; "" for none
	OwnSocket    string // Unix socket of the user who runs the process, 0600; "" for none
	Listen       string // host:port; beyond loopback only with an Identity
	Identity     *cert.Identity
	Hosts        []string // additional names by which clients reach the port
	Page         http.Handler
	// Raft accepts connections from nodes with the protocol RaftProtocol; nil refuses them.
	Raft *Streams
	Peer Peer // nil: this node has no fleet
	// Refused is called for each refused connection, with the name of the socket or port; may be nil.
	Refused func(listener string)
	Now     func() time.Time // the clock for the expiry of certificates; nil: time.Now
	Log     *slog.Logger
}

// Limits of a server.
const (
	maxBody      = 64 << 10
	maxStreams   = 32 // status streams per role
	headTimeout  = 10 * time.Second
	readTimeout  = 30 * time.Second // of a whole request
	idleTimeout  = 2 * time.Minute
	writeTimeout = 30 * time.Second
)

// Server serves the API of one node.
type Server struct {
	conf    Config
	node    Node
	log     *slog.Logger
	now     func() time.Time
	streams map[cert.Role]chan struct{} // slots of status streams

	listeners []net.Listener
	servers   []*http.Server
	done      sync.WaitGroup
}

// New opens the sockets and the port. It returns fault.ErrConfig for a port beyond loopback without certificates.
func New(conf Config, node Node) (*Server, error) {
	s := &Server{conf: conf, node: node, log: conf.Log, now: conf.Now, streams: map[cert.Role]chan struct{}{}}
	if s.now == nil {
		s.now = time.Now
	}
	for _, role := range cert.Roles {
		s.streams[role] = make(chan struct{}, maxStreams)
	}
	if err := s.listen(); err != nil {
		for _, l := range s.listeners {
			_ = l.Close() // the first error counts
		}
		return nil, err
	}
	return s, nil
}

func (s *Server) listen() error {
	for _, x := range []struct {
		path, name string
		mode       os.FileMode
		role       cert.Role
	}{{s.conf.Socket, "operator_socket", 0o660, cert.Operator}, {s.conf.StatusSocket, "status_socket", 0o666, cert.Reader}, {s.conf.OwnSocket, "own_socket", 0o600, cert.Operator}} {
		if x.path == "" {
			continue
		}
		l, err := listenUnix(x.path, x.mode)
		if err != nil {
			return err
		}
		s.serve(s.bound(l, x.name), s.handler(unixAuth(x.role)))
	}
	if s.conf.Listen == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(s.conf.Listen)
	if err != nil {
		return fmt.Errorf("--listen %q: %w: %w", s.conf.Listen, err, fault.ErrConfig)
	}
	if s.conf.Identity == nil && !loopback(host) {
		return fmt.Errorf("--listen %s is reachable from other machines: give --tls-cert, --tls-key and --tls-ca (`rfsctl cert create` makes them), or listen on 127.0.0.1: %w", s.conf.Listen, fault.ErrConfig)
	}
	if id := s.conf.Identity; id != nil && id.Role() != cert.Node {
		return fmt.Errorf("the certificate of a node has the role %s, not node: %w", id.Role(), fault.ErrConfig)
	}
	l, err := net.Listen("tcp", s.conf.Listen)
	if err != nil {
		return fmt.Errorf("--listen: %w: %w", err, fault.ErrConfig)
	}
	auth := tlsAuth{hosts: append(s.conf.Hosts, hostsOf(l.Addr(), s.conf.Identity != nil)...)}
	if s.conf.Identity == nil {
		s.serve(s.bound(l, "port"), s.handler(auth))
		return nil
	}
	var also func(time.Time)
	if s.conf.Raft != nil {
		also = s.conf.Raft.recheck
	}
	auth.tls = newTLSListener(l, s.conf.Identity, s.now, s.refusals("port"), also)
	s.secure(s.serve(auth.tls, s.handler(auth)))
	return nil
}

func (s *Server) refusals(name string) *refusals {
	return &refusals{log: s.log, name: name, observe: s.conf.Refused}
}

func (s *Server) bound(l net.Listener, name string) net.Listener {
	return &boundListener{Listener: l, refused: s.refusals(name), owner: os.Geteuid(), users: map[int]int{}}
}

func (s *Server) serve(l net.Listener, h http.Handler) *http.Server {
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: headTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	s.listeners, s.servers = append(s.listeners, l), append(s.servers, server)
	return server
}

// Addr returns the address of the port, or "".
func (s *Server) Addr() string {
	for _, l := range s.listeners {
		if l.Addr().Network() == "tcp" {
			return l.Addr().String()
		}
	}
	return ""
}

// Serve serves requests until ctx is done, then waits up to 2 s for running requests.
func (s *Server) Serve(ctx context.Context) error {
	errs := make(chan error, len(s.servers))
	for i, server := range s.servers {
		server.BaseContext = func(net.Listener) context.Context { return ctx }
		s.done.Go(func() {
			err := server.Serve(s.listeners[i])
			if !errors.Is(err, http.ErrServerClosed) {
				errs <- err
			}
		})
	}
	var err error
	select {
	case <-ctx.Done():
	case err = <-errs:
		err = fmt.Errorf("API: %w", err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	for _, server := range s.servers {
		if serr := server.Shutdown(last); serr != nil { // such as a status stream
			err = errors.Join(err, server.Close())
		}
	}
	if s.conf.Raft != nil {
		s.conf.Raft.close()
	}
	s.done.Wait()
	return err
}

// listenUnix listens on a Unix socket. It replaces a stale socket, but not another process's.
func listenUnix(path string, mode os.FileMode) (net.Listener, error) {
	if conn, err := net.DialTimeout("unix", path, time.Second); err == nil {
		conn.Close()
		return nil, fmt.Errorf("socket %s is served by another process: %w", path, fault.ErrConfig)
	}
	if info, err := os.Lstat(path); err == nil {
		if info.Mode()&os.ModeSocket == 0 {
			return nil, fmt.Errorf("%s exists and is not a socket: %w", path, fault.ErrConfig)
		}
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("socket: %w: %w", err, fault.ErrConfig)
		}
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("socket: %w: %w", err, fault.ErrConfig)
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("socket: %w: %w", err, fault.ErrConfig), l.Close())
	}
	if mode&0o060 == 0 {
		return l, nil
	}
	// Give the socket to the group of operators, if that exists and this process may do so.
	if g, err := user.LookupGroup("rfsd-operators"); err == nil {
		if id, err := strconv.Atoi(g.Gid); err == nil {
			_ = os.Chown(path, -1, id)
		}
	}
	return l, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
