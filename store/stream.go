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

// Streams listens for and dials Raft connections. The implementation is responsible for TLS and for
// checking the role "node".
type Streams interface {
	net.Listener
	// Dial connects to the Raft port of another node.
	Dial(address string, timeout time.Duration) (net.Conn, error)
}

// Cluster identifies a Raft cluster. Another epoch is another, empty cluster.
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

	// After the handshake the caller sends the purpose of the connection, in one byte.
	purposeRaft  = 'R'
	purposeList  = 'L'
	purposeProbe = '0' // handshake only
	// purposeChanges asks for the hints of a kind that were put after an index of Raft's log.
	purposeChanges = 'C'
)

// layer is a raft.StreamLayer whose connections start with the cluster's id and epoch, so that nodes of
// another epoch, or of another fleet with the same certificates, are rejected.
type layer struct {
	Streams
	cluster Cluster

	serve func(what byte, conn net.Conn) // handles connections with other purposes; it does not close them

	ready chan net.Conn
	slots chan struct{}
	quit  chan struct{}
	done  sync.WaitGroup
	once  sync.Once
}

func newLayer(s Streams, c Cluster, serve func(byte, net.Conn)) (*layer, error) {
	if c.ID == "" || len(c.ID) > maxClusterID {
		return nil, fmt.Errorf("cluster id of %d bytes: %w", len(c.ID), fault.ErrConfig)
	}
	l := &layer{Streams: s, cluster: c, serve: serve, ready: make(chan net.Conn), slots: make(chan struct{}, maxHandshakes), quit: make(chan struct{})}
	l.done.Go(l.listen)
	return l, nil
}

// listen accepts connections and runs their handshakes concurrently, so that a slow one blocks no other.
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
			what, err := l.handshake(conn)
			if err != nil || what != purposeRaft {
				if err == nil {
					l.serve(what, conn)
				}
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

// handshake checks the first frame and returns the purpose of the connection. Connections for other purposes
// than Raft keep the deadline.
func (l *layer) handshake(conn net.Conn) (what byte, err error) {
	if err := conn.SetDeadline(time.Now().Add(helloTimeout)); err != nil {
		return 0, err
	}
	want := l.hello()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(conn, got); err != nil {
		return 0, err
	}
	if string(got) != string(want) {
		return 0, fmt.Errorf("handshake for another cluster or epoch: %w", fault.ErrRejected)
	}
	if _, err := conn.Write([]byte{helloOK}); err != nil {
		return 0, err
	}
	var b [1]byte
	if _, err := io.ReadFull(conn, b[:]); err != nil {
		return 0, err
	}
	if b[0] != purposeRaft {
		return b[0], nil
	}
	return purposeRaft, conn.SetDeadline(time.Time{})
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

// Dial opens a Raft connection.
func (l *layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := l.call(string(address), timeout, purposeRaft)
	if err != nil {
		return nil, err
	}
	if err := conn.SetDeadline(time.Time{}); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// call connects and sends handshake and purpose. The connection has a deadline.
func (l *layer) call(address string, timeout time.Duration, what byte) (net.Conn, error) {
	conn, err := l.Streams.Dial(address, timeout)
	if err != nil {
		return nil, err
	}
	err = func() error {
		if err := conn.SetDeadline(time.Now().Add(min(timeout, helloTimeout))); err != nil {
			return err
		}
		if _, err := conn.Write(l.hello()); err != nil {
			return err
		}
		var ok [1]byte
		if _, err := io.ReadFull(conn, ok[:]); err != nil {
			return fmt.Errorf("%s rejected the handshake, or is in another epoch: %w", address, err)
		}
		_, err := conn.Write([]byte{what})
		return err
	}()
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}
