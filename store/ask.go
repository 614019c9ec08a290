package store

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Format of messages between nodes beside those of Raft: length (4 bytes, big-endian), then JSON.
const (
	maxMessage     = 8 << 20
	requestTimeout = 2 * time.Second
)

// response is an answer with hints.
type response struct {
	Error string `json:"error,omitempty"`
	Hints []Hint `json:"hints,omitempty"`
	Index uint64 `json:"index,omitempty"` // of changes, as More
	More  bool   `json:"more,omitempty"`
}

func writeMessage(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(b) > maxMessage {
		return fmt.Errorf("message of %d bytes: %w", len(b), fault.ErrUnsupported)
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	return err
}

func readMessage(r io.Reader, v any) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxMessage {
		return fmt.Errorf("message of %d bytes: %w", n, fault.ErrCorrupt)
	}
	b, err := io.ReadAll(io.LimitReader(r, int64(n))) // allocates as data arrives, not what the head claims
	if err != nil {
		return err
	}
	if len(b) != int(n) {
		return io.ErrUnexpectedEOF
	}
	return json.Unmarshal(b, v)
}

// handle serves a request of another node.
func (s *Store) handle(what byte, conn net.Conn) {
	select {
	case <-s.opened:
	default:
		return
	}
	var r response
	switch what {
	case purposeList:
		var kind string
		if err := readMessage(conn, &kind); err != nil || len(kind) > maxKind {
			return
		}
		var err error
		if r.Hints, err = s.List(kind); err != nil {
			r.Error = err.Error()
		}
	case purposeChanges:
		var q changesQuestion
		if err := readMessage(conn, &q); err != nil || len(q.Kind) > maxKind {
			return
		}
		c, err := s.Changes(q.Kind, q.Since)
		if r.Hints, r.Index, r.More = c.Hints, c.Index, c.More; err != nil {
			r.Error = err.Error()
		} else if !s.served.AllowN(time.Now(), 1+c.size()) {
			r = response{Error: "other nodes have asked for too many changes"}
		}
	default:
		return
	}
	_ = writeMessage(conn, r) // the caller detects a missing response
}

func (s *Store) request(address string, what byte, question any) (r response, err error) {
	conn, err := s.layer.call(address, requestTimeout, what)
	if err != nil {
		return r, fmt.Errorf("hints of %s: %w: %w", address, err, fault.ErrUnavailable)
	}
	defer conn.Close()
	if err := writeMessage(conn, question); err != nil {
		return r, fmt.Errorf("hints of %s: %w: %w", address, err, fault.ErrUnavailable)
	}
	if err := readMessage(conn, &r); err != nil {
		return r, fmt.Errorf("hints of %s: %w: %w", address, err, fault.ErrUnavailable)
	}
	if r.Error != "" {
		return r, fmt.Errorf("hints of %s: %s: %w", address, r.Error, fault.ErrUnavailable)
	}
	return r, nil
}

// ListFrom returns the unexpired hints of a kind from another node, for nodes without a copy.
func (s *Store) ListFrom(address, kind string) ([]Hint, error) {
	r, err := s.request(address, purposeList, kind)
	if err != nil {
		return nil, err
	}
	return live(r.Hints, kind), nil
}
