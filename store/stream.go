package store

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Streams listens for and dials Raft connections. The implementation is responsible for TLS and for checking the role "node".
type Streams interface {
	net.Listener
	// Dial connects to the Raft port of another node.
	Dial(address string, timeout time.Duration) (net.Conn, error)
}

// Cluster identifies a Raft cluster. Each epoch is a separate cluster that starts empty.
type Cluster struct {
	ID    string `json:"id"` // at most 64 bytes
	Epoch uint64 `json:"epoch"`
}

const (
	helloMagic    = "rfsd-raft/1\n"
	helloTimeout  = 5 * time.Second
	maxClusterID  = 64
	maxHandshakes = 64 // concurrent handshakes
	helloOK       = 0x06
)

// layer is a raft.StreamLayer whose connections start with the cluster's id and epoch, so that nodes of
// another epoch, or of another fleet with the same certificates, are rejected.
type layer struct {
	Streams
	cluster Cluster

	ready chan net.Conn
	slots chan struct{}
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

func newLayer(s Streams, c Cluster) (*layer, error) {
	if c.ID == "" || len(c.ID) > maxClusterID {
		return nil, fmt.Errorf("cluster id of %d bytes: %w", len(c.ID), fault.ErrConfig)
	}
	l := &layer{Streams: s, cluster: c, ready: make(chan net.Conn), slots: make(chan struct{}, maxHandshakes), quit: make(chan struct{})}
	l.done.Go(l.listen)
	return l, nil
}

// listen accepts connections and runs their handshakes concurrently, so that a slow one does not block others.
func (l *layer) listen() {
	for {
		conn, err := l.Streams.Accept()
		if err != nil {
			return
		}
		select {
		case l.slots <- struct{}{}:
		case <-l.quit:
			conn.Close()
			return
		}
		l.done.Go(func() {
			defer func() { <-l.slots }()
			if err := l.handshake(conn); err != nil {
				conn.Close()
				return
			}
			select {
			case l.ready <- conn:
			case <-l.quit:
				conn.Close()
			}
		})
	}
}

// hello returns the first frame: magic, length of the id (1 byte), id, epoch (8 bytes, big-endian).
func (l *layer) hello() []byte {
	b := append([]byte(helloMagic), byte(len(l.cluster.ID)))
	b = append(b, l.cluster.ID...)
	return binary.BigEndian.AppendUint64(b, l.cluster.Epoch)
}

// handshake checks the first frame and confirms it.
func (l *layer) handshake(conn net.Conn) error {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return err
	}
	want := l.hello()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return err
	}
	if string(got) != string(want) {
		return fmt.Errorf("handshake for another cluster or epoch: %w", fault.ErrRejected)
	}
	if _, err := conn.Write([]byte{helloOK}); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// Accept returns the next Raft connection that has completed the handshake.
func (l *layer) Accept() (net.Conn, error) {
	select {
	case conn := <-l.ready:
		return conn, nil
	case <-l.quit:
		return nil, net.ErrClosed
	}
}

// Close closes the listener and waits for running handshakes.
func (l *layer) Close() error {
	var err error
	l.once.Do(func() {
		close(l.quit)
		err = l.Streams.Close()
		l.done.Wait()
	})
	return err
}

// Dial connects to another node and completes the handshake.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := l.Streams.Dial(string(address), timeout)
	if err != nil {
		return nil, err
	}
	if err := l.greet(conn, min(timeout, helloTimeout)); err != nil {
		conn.Close()
		return nil, fmt.Errorf("%s rejected the handshake, or is in another epoch: %w", address, err)
	}
	return conn, nil
}

// greet sends the first frame and blocks until it is confirmed.
func (l *layer) greet(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return err
	}
	if _, err := conn.Write(l.hello()); err != nil {
		return err
	}
	var ok [1]byte
	if _, err := io.ReadFull(conn, ok[:]); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}
