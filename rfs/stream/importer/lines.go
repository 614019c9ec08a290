package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	lineBuffer = 256 << 10 // first size of the buffer, bytes
	keepBuffer = 4 << 20   // a buffer that a giant line made larger is given up
	// maxLine is the longest line that is taken when no other bound is set, in bytes.
	maxLine = 512 << 20
)

// errLong marks a line beyond the limit; its first part was returned.
var errLong = errors.New("line too long")

// lines cuts a stream into lines. Its buffer grows to the longest line that it meets.
type lines struct {
	r        io.Reader
	limit    int // of a line
	buf      []byte
	from, to int   // buf[from:to] is read and not yet given
	at       int64 // offset of buf[from] in the stream
	err      error // of the stream
	turn     turn  // of lines beyond keepBuffer
}

func newLines(r io.Reader, at int64, limit int) *lines {
	return &lines{r: r, at: at, limit: limit}
}

// next returns the next line without its line feed, borrowed until the next call, and its offset.
// The last line may have no line feed. io.EOF after the last. A line beyond the limit is
// skipped: errLong, with the first bytes of it.
func (l *lines) next() (line []byte, at int64, err error) {
	at = l.at
	for seen := 0; ; {
		if i := bytes.IndexByte(l.buf[l.from+seen:l.to], '\n'); i >= 0 {
			line = l.buf[l.from : l.from+seen+i]
			l.take(len(line) + 1)
			return l.within(line, at)
		}
		seen = l.to - l.from
		if seen > l.limit {
			head := bytes.Clone(l.buf[l.from : l.from+shown])
			return head, at, l.skip()
		}
		if l.err == nil {
			l.fill()
			continue
		}
		if !errors.Is(l.err, io.EOF) {
			return nil, at, l.err
		}
		if seen == 0 {
			return nil, at, io.EOF
		}
		line = l.buf[l.from:l.to]
		l.take(seen)
		return l.within(line, at)
	}
}

// shown is the number of bytes of an overlong line that are kept.
const shown = 200

func (l *lines) within(line []byte, at int64) ([]byte, int64, error) {
	if len(line) > l.limit {
		return line[:min(shown, len(line))], at, errLong
	}
	return line, at, nil
}

func (l *lines) take(n int) {
	l.from += n
	l.at += int64(n)
}

// skip passes over the rest of the line at hand.
func (l *lines) skip() error {
	for {
		if i := bytes.IndexByte(l.buf[l.from:l.to], '\n'); i >= 0 {
			l.take(i + 1)
			return errLong
		}
		l.take(l.to - l.from)
		if errors.Is(l.err, io.EOF) {
			return errLong
		}
		if l.err != nil {
			return l.err
		}
		l.fill()
	}
}

// fill reads more bytes into the buffer.
func (l *lines) fill() {
	have := l.to - l.from
	switch {
	case l.buf == nil || len(l.buf) > keepBuffer && have < lineBuffer/2:
		l.move(lineBuffer)
	case have == len(l.buf):
		size := min(2*len(l.buf), max(l.limit+lineBuffer, len(l.buf)+lineBuffer))
		if size > keepBuffer {
			if err := l.turn.take(); err != nil {
				l.err = err
				return
			}
		}
		l.move(size)
	case l.to == len(l.buf) || l.from > len(l.buf)/2:
		copy(l.buf, l.buf[l.from:l.to])
		l.from, l.to = 0, have
	}
	empty := 0
	for {
		n, err := l.r.Read(l.buf[l.to:])
		l.to += n
		if n > 0 || err != nil {
			l.err = err
			return
		}
		if empty++; empty == 100 {
			l.err = fmt.Errorf("read: %w", io.ErrNoProgress)
			return
		}
	}
}

// small releases a large buffer and its turn, unless the next lines are in it.
func (l *lines) small() {
	have := l.to - l.from
	if have > keepBuffer {
		return
	}
	l.move(max(have, lineBuffer))
	l.turn.give()
}

// move takes a buffer of another size.
func (l *lines) move(size int) {
	buf := make([]byte, size)
	l.to = copy(buf, l.buf[l.from:l.to])
	l.buf, l.from = buf, 0
}
