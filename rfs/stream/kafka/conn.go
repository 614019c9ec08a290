package kafka

import (
	"encoding/binary"
	"io"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// watchedConn is a connection to a broker that inspects answers with messages before the client reads them. Requests and
// answers start with their length in 4 bytes, followed in a request by kind 2, version 2 and correlation id 4, in an answer by that id.
type watchedConn struct {
	net.Conn

	most   int64 // maximum length of an inspected answer: the client rejects longer ones
	answer func(body []byte, version int16) error

	mu      sync.Mutex
	fetches map[uint32]int16 // versions of requests for messages, by correlation id

	head []byte // of the current request: its length, kind, version and correlation id
	skip int64  // remaining bytes of that request

	ready []byte // bytes of an answer for the client
	pass  int64  // remaining bytes of an answer to pass unchanged
}

const (
	lengthSize  = 4
	requestHead = lengthSize + 8
	answerHead  = lengthSize + 4
)

// Write writes to the broker, and records requests for messages.
func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	for p = p[:n]; len(p) > 0; {
		if c.skip > 0 {
			some := min(c.skip, int64(len(p)))
			c.skip, p = c.skip-some, p[some:]
			continue
		}
		some := min(requestHead-len(c.head), len(p))
		c.head, p = append(c.head, p[:some]...), p[some:]
		if len(c.head) < lengthSize {
			continue
		}
		length := int64(binary.BigEndian.Uint32(c.head))
		if int64(len(c.head)) < min(requestHead, lengthSize+length) {
			continue
		}
		if length >= requestHead-lengthSize && binary.BigEndian.Uint16(c.head[lengthSize:]) == uint16(kmsg.Fetch) {
			c.mu.Lock()
			c.fetches[binary.BigEndian.Uint32(c.head[8:])] = int16(binary.BigEndian.Uint16(c.head[6:]))
			c.mu.Unlock()
		}
		c.skip = lengthSize + length - int64(len(c.head))
		if c.skip < 0 { // not a valid request: the rest cannot be followed
			c.skip = 0
		}
		c.head = c.head[:0]
	}
	return n, err
}

// Read returns data of the broker. It returns an answer with messages only after it was inspected.
func (c *watchedConn) Read(p []byte) (int, error) {
	if len(c.ready) == 0 && c.pass == 0 {
		if err := c.next(); err != nil {
			return 0, err
		}
	}
	if len(c.ready) > 0 {
		n := copy(p, c.ready)
		if c.ready = c.ready[n:]; len(c.ready) == 0 {
			c.ready = nil
		}
		return n, nil
	}
	if int64(len(p)) > c.pass {
		p = p[:c.pass]
	}
	n, err := c.Conn.Read(p)
	c.pass -= int64(n)
	return n, err
}

// next reads the head of an answer, and inspects the whole answer if it has messages.
func (c *watchedConn) next() error {
	head := make([]byte, lengthSize, answerHead)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	length := int64(int32(binary.BigEndian.Uint32(head)))
	if length < answerHead-lengthSize || length > c.most {
		c.ready, c.pass = head, max(length, 0)
		return nil
	}
	head = head[:answerHead]
	if _, err := io.ReadFull(c.Conn, head[lengthSize:]); err != nil {
		return err
	}
	c.mu.Lock()
	number := binary.BigEndian.Uint32(head[lengthSize:])
	version, messages := c.fetches[number]
	delete(c.fetches, number)
	c.mu.Unlock()
	if c.ready, c.pass = head, length-(answerHead-lengthSize); !messages {
		return nil
	}
	whole := make([]byte, lengthSize+length)
	copy(whole, head)
	if _, err := io.ReadFull(c.Conn, whole[answerHead:]); err != nil {
		return err
	}
	c.ready, c.pass = nil, 0
	if err := c.answer(whole[answerHead:], version); err != nil {
		return err
	}
	c.ready = whole
	return nil
}
