package target

import (
	"bytes"
	"fmt"
	"io"
	"sync"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Bounds of answers, which may be compressed at more than 1,000:1.
const (
	// maxAnswer bounds one answer, bytes.
	maxAnswer = 64 << 20
	// maxAnswers bounds what the answers that a client reads at the same time hold, bytes.
	maxAnswers = 96 << 20
	// maxValues bounds the values of an answer that is decoded: a short text can be many of them.
	maxValues = 3_000_000

	// What the answer for one item takes, bytes: names, and an error with its causes. The target may quote the
	// document in it, which is allowed for beside.
	answerHead    = 64 << 10
	answerPerItem = 4 << 10
	answerQuotes  = 4
)

// errLongAnswer is an answer beyond the bounds. It is a fault.ErrUnavailable.
var errLongAnswer = fmt.Errorf("long answer: %w", fault.ErrUnavailable)

// bulkAnswer returns the bound of the answer to n items in a body of size bytes.
func bulkAnswer(n, size int) int {
	return min(answerHead+answerPerItem*n+answerQuotes*size, maxAnswer)
}

// memory bounds the bytes that answers hold at once.
type memory struct {
	mu   sync.Mutex
	used int
}

func (m *memory) take(n int) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.used+n > maxAnswers {
		return false
	}
	m.used += n
	return true
}

func (m *memory) release(n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.used -= n
}

// read reads an answer of at most limit bytes into buf. Errors: fault.ErrUnavailable when it is longer, or when
// the answers together are.
func (m *memory) read(buf *bytes.Buffer, r io.Reader, limit int) error {
	const free = 1 << 20 // what every answer may hold beside the others
	taken := 0
	defer func() { m.release(taken) }()
	for {
		if buf.Len() > limit {
			return fmt.Errorf("it answers with more than %d bytes: %w", limit, errLongAnswer)
		}
		if buf.Available() == 0 {
			size := min(max(2*buf.Cap(), 4<<10), limit+1)
			if more := size - free - taken; more > 0 {
				if !m.take(more) {
					return fmt.Errorf("its answers under way hold more than %d bytes: %w", maxAnswers, errLongAnswer)
				}
				taken += more
			}
			*buf = *bytes.NewBuffer(append(make([]byte, 0, size), buf.Bytes()...))
		}
		room := buf.AvailableBuffer()
		n, err := r.Read(room[:min(cap(room), limit+1-buf.Len())])
		buf.Write(room[:n])
		if err == io.EOF {
			if buf.Len() > limit {
				continue
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// tooMany reports whether an answer may hold more than maxValues values.
func tooMany(b []byte) bool {
	if len(b) < maxValues {
		return false
	}
	return bytes.Count(b, []byte{','})+bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) > maxValues
}
