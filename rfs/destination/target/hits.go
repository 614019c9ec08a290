package target

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// parse parses the answer to a search. The answer cannot be decoded as JSON, because the target copies stored sources into it
// unchanged, possibly with comments.
func (p *pages) parse(each func(Hit) error) (hits int, err error) {
	s := scanner{b: p.buf.Bytes()}
	var failing error
	err = s.object(func(key []byte) error {
		switch string(key) {
		case "pit_id", "_scroll_id":
			text, err := s.textOrNull()
			if id, ok := unquoted(text); ok && id != "" {
				p.cursor = id
			}
			return err
		case "timed_out":
			raw, err := s.raw()
			if string(raw) == "true" {
				failing = errors.New("the search ran out of time")
			}
			return err
		case "_shards":
			return s.object(func(key []byte) error {
				raw, err := s.raw()
				if string(key) == "failed" && string(raw) != "0" {
					failing = errors.New("a shard did not answer")
				}
				return err
			})
		case "hits":
			return s.object(func(key []byte) error {
				if string(key) != "hits" {
					_, err := s.raw()
					return err
				}
				if failing != nil {
					return failing
				}
				return s.array(func() error {
					hits++
					return p.hit(&s, each)
				})
			})
		}
		_, err := s.raw()
		return err
	})
	var stop *stopped
	switch {
	case errors.As(err, &stop):
		return hits, stop.err
	case err == nil && failing == nil:
		return hits, nil
	case failing != nil:
		err = failing
	}
	return hits, fmt.Errorf("search in %s: answer of %s: %w: %w", p.r.Index, p.c.name, err, fault.ErrUnavailable)
}

// stopped wraps an error of the callback, to distinguish it from errors of the response.
type stopped struct{ err error }

func (e *stopped) Error() string { return e.err.Error() }

// hit parses one hit and passes it to each.
func (p *pages) hit(s *scanner, each func(Hit) error) error {
	h := Hit{Sequence: -1}
	err := s.object(func(key []byte) error {
		var err error
		switch string(key) {
		case "_id":
			h.ID, err = s.plainText()
		case "_routing":
			h.Routing, err = s.plainText()
		case "_source":
			h.Source, err = s.source()
		case "_seq_no":
			h.Sequence, err = s.number()
		case "sort":
			var raw []byte
			raw, err = s.raw()
			p.after = append(p.after[:0], raw...)
		default:
			_, err = s.raw()
		}
		return err
	})
	if err == nil && h.ID == nil {
		err = s.wrong("a hit without _id")
	}
	if err != nil {
		return err
	}
	if err := each(h); err != nil {
		return &stopped{err}
	}
	return nil
}

// number parses a non-negative integer, and returns -1 for other values.
func (s *scanner) number() (int64, error) {
	raw, err := s.raw()
	n, perr := strconv.ParseInt(string(raw), 10, 64)
	if perr != nil || n < 0 {
		n = -1
	}
	return n, err
}

// plainText parses a string and decodes its escapes; it returns nil for other values.
func (s *scanner) plainText() ([]byte, error) {
	raw, err := s.textOrNull()
	if err != nil || bytes.IndexByte(raw, '\\') < 0 {
		return raw, err
	}
	text, ok := unquoted(raw)
	if !ok {
		return nil, s.wrong("a string that cannot be read")
	}
	return []byte(text), nil
}

// source returns a source that was copied into the answer: all bytes after the colon up to the next member, since a byte order mark,
// white space and comments around the object are part of it. The answer itself contains no white space.
func (s *scanner) source() ([]byte, error) {
	start := s.i
	for start > 0 && isBlank(s.b[start-1]) {
		start--
	}
	if s.i = start; bytes.HasPrefix(s.b[s.i:], byteOrderMark) {
		s.i += len(byteOrderMark)
	}
	s.blank()
	if _, err := s.raw(); err != nil {
		return nil, err
	}
	s.blank()
	return s.b[start:s.i], nil
}

// byteOrderMark may precede a source, and the target returns it.
var byteOrderMark = []byte("\xEF\xBB\xBF")

// blank skips white space and comments.
func (s *scanner) blank() {
	for s.space() == '/' && s.comment() {
		continue
	}
}

func isBlank(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// raw moves past the value at s.i, of any depth, and returns its bytes. It skips comments in it.
func (s *scanner) raw() ([]byte, error) {
	if c := s.space(); c != '{' && c != '[' {
		start := s.i
		err := s.skip(0)
		return s.b[start:s.i], err
	}
	start, depth := s.i, 0
	for s.i < len(s.b) {
		switch s.b[s.i] {
		case '"':
			if _, err := s.text(); err != nil {
				return nil, err
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				s.i++
				return s.b[start:s.i], nil
			}
		case '/':
			if !s.comment() {
				return nil, s.wrong("expected a comment")
			}
			continue
		}
		s.i++
	}
	return nil, errShort
}

// comment moves past the comment at s.i, and reports whether one is complete there.
func (s *scanner) comment() bool {
	rest := s.b[s.i:]
	end := -1
	switch {
	case bytes.HasPrefix(rest, []byte("//")):
		end = bytes.IndexAny(rest, "\r\n")
	case bytes.HasPrefix(rest, []byte("/*")):
		if end = bytes.Index(rest[2:], []byte("*/")); end >= 0 {
			end += 4
		}
	}
	if end < 0 {
		return false
	}
	s.i += end
	return true
}
