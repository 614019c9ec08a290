package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

const (
	lineBuffer = 256 << 10 // initial size of the buffer, in bytes
	keepBuffer = 4 << 20   // a larger buffer is released after its line
	// maxLine is the maximum length of a line without another limit, in bytes.
	maxLine = 512 << 20
)

// errLong means that a line exceeds the limit. Its first bytes were returned.
var errLong = errors.New("line too long")

// lines splits a stream into lines. Its buffer grows to the longest line.
type lines struct {
	r        io.Reader
	limit    int // maximum length of a line
	buf      []byte
	from, to int   // buf[from:to] is read and not yet returned
	at       int64 // offset of buf[from] in the stream
	err      error // of the stream
	turn     turn  // of lines beyond keepBuffer
}

func newLines(r io.Reader, at int64, limit int) *lines {
	return &lines{r: r, at: at, limit: limit}
}

// next returns the next line without its line feed, borrowed until the next call, and its offset.
// The last line may have no line feed. After it, next returns io.EOF. For a line beyond the limit, it skips the
// line and returns errLong with its first bytes.
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

// shown is the number of bytes of an overlong line that are returned.
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

// skip skips the rest of the current line and returns errLong.
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

// small releases a large buffer and its turn, unless more than keepBuffer bytes in it are still needed.
func (l *lines) small() {
	have := l.to - l.from
	if have > keepBuffer {
		return
	}
	l.move(max(have, lineBuffer))
	l.turn.give()
}

// move replaces the buffer by one of another size.
func (l *lines) move(size int) {
	buf := make([]byte, size)
	l.to = copy(buf, l.buf[l.from:l.to])
	l.buf, l.from = buf, 0
}
