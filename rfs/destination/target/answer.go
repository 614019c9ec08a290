package target

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// parseBulk parses the answer to a bulk request: {"took":1,"errors":true,"items":[{"index":
// {"_index":"a","_id":"1","status":201}},{"index":{"status":400,"error":{…}}}]}. It calls each with
// every item in order; the item is valid until each returns. It returns the number of items, and
// whether the answer states that there were errors.
func parseBulk(b []byte, each func(pos int, it *item) error) (items int, errs bool, err error) {
	s := scanner{b: b}
	err = s.object(func(key []byte) error {
		switch string(key) {
		case "errors":
			start := s.i
			err := s.skip(0)
			errs = err == nil && string(s.b[start:s.i]) == "true"
			return err
		case "items":
			return s.array(func() error {
				it, err := s.item()
				if err == nil {
					err = each(items, &it)
				}
				if err != nil {
					return fmt.Errorf("item %d: %w", items, err)
				}
				items++
				return nil
			})
		}
		return s.skip(0)
	})
	if err == nil {
		if s.space(); s.i != len(s.b) {
			err = s.wrong("more bytes after the end")
		}
	}
	return items, errs, err
}

// item is one item of a bulk answer, or of a body. op, index and id are JSON strings without their quotes, nil if absent.
type item struct {
	op, index, id []byte
	status        int
	version       int64  // after the operation; 0 if unknown, and in a body
	external      bool   // in a body: the action sets the version
	noop          bool   // the answer states that the operation had no effect
	failure       []byte // JSON; nil without an error
}

// arrived reports whether the target accepted the item.
func (it *item) arrived() bool {
	return it.failure == nil && (it.status < 300 && !it.dropped() || it.gone())
}

// dropped reports whether an ingest pipeline dropped the item: the answer has a status of success, but nothing was written.
func (it *item) dropped() bool {
	return it.noop && it.failure == nil && it.status == http.StatusOK && string(it.op) != "delete"
}

// gone reports whether the item deletes a document that the target does not have.
func (it *item) gone() bool {
	return string(it.op) == "delete" && it.failure == nil && it.status == http.StatusNotFound
}

// replaced reports whether the item replaced a document.
func (it *item) replaced() bool {
	return string(it.op) == "index" && it.failure == nil && it.status == http.StatusOK
}

// copies returns the number of earlier writes of the id of an item that replaced a document, by the version in the response.
// It returns 1 if the action set the version.
func copies(want, got *item) int64 {
	if want.external {
		return 1
	}
	return max(got.version-1, 1)
}

// refusal returns the rejection of an item in the answer.
func (it *item) refusal(pos int) bulk.Refusal {
	r := bulk.Refusal{Pos: pos, Status: it.status}
	if it.dropped() {
		r.Type, r.Reason = string(doc.Dropped), "an ingest pipeline of the target dropped it"
	}
	if it.failure != nil {
		r.Type, r.Reason = fault.ErrorObject(it.failure)
		var where struct{ Index string }
		if json.Unmarshal(it.failure, &where) == nil { // some errors are strings
			r.Index = where.Index
		}
	}
	return r
}

// item parses {"index":{"status":201,"error":{…}}}.
func (s *scanner) item() (it item, err error) {
	operations := 0
	err = s.object(func(op []byte) error {
		it.op = op
		operations++
		return s.object(func(key []byte) error {
			switch string(key) {
			case "status":
				it.status, err = s.integer()
				return err
			case "version":
				it.external = true
				return s.skip(0)
			case "_version":
				it.version, err = s.version()
				return err
			case "result":
				var result []byte
				result, err = s.textOrNull()
				it.noop = string(result) == "noop"
				return err
			case "_index":
				it.index, err = s.textOrNull()
				return err
			case "_id":
				it.id, err = s.textOrNull()
				return err
			case "error":
				start := s.i
				if err := s.skip(0); err != nil {
					return err
				}
				if raw := s.b[start:s.i]; string(raw) != "null" {
					it.failure = raw
				}
				return nil
			}
			return s.skip(0)
		})
	})
	if err == nil && operations != 1 {
		err = s.wrong("item with other than one operation")
	}
	return it, err
}

// textOrNull parses a value and returns the text of a string, nil for other values.
func (s *scanner) textOrNull() ([]byte, error) {
	if s.space() == '"' {
		return s.text()
	}
	return nil, s.skip(0)
}

var errShort = errors.New("ends early")

// scanner parses JSON without allocating.
type scanner struct {
	b []byte
	i int
}

func (s *scanner) wrong(what string) error {
	if s.i >= len(s.b) {
		return errShort
	}
	return fmt.Errorf("no bulk answer: %s at byte %d", what, s.i)
}

// space skips white space and returns the next byte, 0 at the end.
func (s *scanner) space() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\n', '\r', '\t':
		default:
			return c
		}
	}
	return 0
}

func (s *scanner) expect(c byte) error {
	if s.space() != c {
		return s.wrong("expected " + string(rune(c)))
	}
	s.i++
	return nil
}

// object calls member with each key; member consumes the value.
func (s *scanner) object(member func(key []byte) error) error {
	return s.list('{', '}', func() error {
		s.space()
		key, err := s.text()
		if err != nil {
			return err
		}
		if err := s.expect(':'); err != nil {
			return err
		}
		s.space()
		return member(key)
	})
}

func (s *scanner) array(element func() error) error { return s.list('[', ']', element) }

func (s *scanner) list(open, end byte, element func() error) error {
	if err := s.expect(open); err != nil {
		return err
	}
	if s.space() == end {
		s.i++
		return nil
	}
	for {
		if err := element(); err != nil {
			return err
		}
		switch s.space() {
		case ',':
			s.i++
		case end:
			s.i++
			return nil
		default:
			return s.wrong("expected , or " + string(rune(end)))
		}
	}
}

// text parses a string and returns the text between the quotes, without decoding escapes.
func (s *scanner) text() ([]byte, error) {
	if s.i >= len(s.b) || s.b[s.i] != '"' {
		return nil, s.wrong("expected a string")
	}
	start := s.i + 1
	for j := start; ; {
		n := bytes.IndexByte(s.b[j:], '"')
		if n < 0 {
			return nil, errShort
		}
		j += n
		escapes := 0
		for s.b[j-1-escapes] == '\\' { // the opening quote ends the loop at the latest
			escapes++
		}
		j++
		if escapes%2 == 0 {
			s.i = j
			return s.b[start : j-1], nil
		}
	}
}

// integer parses an HTTP status.
func (s *scanner) integer() (int, error) {
	n, start := 0, s.i
	for ; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9' && n < 1e6; s.i++ {
		n = n*10 + int(s.b[s.i]-'0')
	}
	if s.i == start || n > 999 {
		return 0, s.wrong("no status")
	}
	return n, nil
}

// version parses the version of a document, and returns 0 for a value that is not a version.
func (s *scanner) version() (int64, error) {
	s.space()
	start := s.i
	if err := s.skip(0); err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(string(s.b[start:s.i]), 10, 64)
	if err != nil || n < 0 {
		return 0, nil // out of range, or another value: only a count depends on it
	}
	return n, nil
}

// deepest limits the nesting of a value that is skipped.
const deepest = 200

// skip moves past the value at s.i.
func (s *scanner) skip(depth int) error {
	if depth > deepest {
		return s.wrong("nested too deeply")
	}
	switch s.space() {
	case '{':
		return s.object(func([]byte) error { return s.skip(depth + 1) })
	case '[':
		return s.array(func() error { return s.skip(depth + 1) })
	case '"':
		_, err := s.text()
		return err
	}
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch s.b[s.i] {
		case ',', '}', ']', ' ', '\n', '\r', '\t', '{', '[', '"', ':':
			if s.i == start {
				return s.wrong("expected a value")
			}
			return nil
		}
	}
	if s.i == start {
		return errShort
	}
	return nil
}
