package target

import (
	"bytes"
	"fmt"
	"io"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Limits of answers, which may be compressed at more than 1,000:1.
const (
	// maxAnswer limits one answer, in bytes.
	maxAnswer = 64 << 20
	// maxAnswers limits all concurrent answers of a client without a budget, in bytes.
	maxAnswers = 96 << 20
	// maxValues limits the values of a decoded answer, since a short text can contain many.
	maxValues = 3_000_000

	// Limits of a bulk answer: bytes for its head, bytes per item for names and an error with its causes, and a factor of the
	// body, since the target may quote documents.
	answerHead    = 64 << 10
	answerPerItem = 4 << 10
	answerQuotes  = 4
)

// errLongAnswer means that an answer exceeds the limits. It is a fault.ErrUnavailable.
var errLongAnswer = fmt.Errorf("long answer: %w", fault.ErrUnavailable)

// bulkAnswer returns the bound of the answer to n items in a body of size bytes.
func bulkAnswer(n, size int) int {
	return min(answerHead+answerPerItem*n+answerQuotes*size, maxAnswer)
}

// readAnswer reads an answer of at most limit bytes into buf. Errors: fault.ErrUnavailable when it is longer, or when
// the process holds too much for it: an answer never waits for memory, since what it ends holds some.
func readAnswer(memory *budget.Budget, buf *bytes.Buffer, r io.Reader, limit int) error {
	const free = 1 << 20 // bytes that each response may hold regardless of the others
	var taken []*budget.Share
	defer func() {
		for _, s := range taken {
			s.Release()
		}
	}()
	for held := 0; ; {
		if buf.Len() > limit {
			return fmt.Errorf("it answers with more than %d bytes: %w", limit, errLongAnswer)
		}
		if buf.Available() == 0 {
			size := min(max(2*buf.Cap(), 4<<10), limit+1)
			if more := size - free - held; more > 0 {
				s, ok := memory.Try(int64(more))
				if !ok {
					return fmt.Errorf("memory does not suffice for its answer of more than %d bytes in addition to the requests in flight: %w", buf.Len(), errLongAnswer)
				}
				held, taken = held+more, append(taken, s)
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

// tooMany reports whether an answer may contain more than maxValues values.
func tooMany(b []byte) bool {
	if len(b) < maxValues {
		return false
	}
	return bytes.Count(b, []byte{','})+bytes.Count(b, []byte{'{'})+bytes.Count(b, []byte{'['}) > maxValues
}
