package failed

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// ErrInUse means that a running process writes to a file of failed documents.
var ErrInUse = errors.New("a running process writes it")

// maxHead limits the part of a line before the source, in bytes.
const maxHead = 1 << 20

// Line is one line of a file of failed documents.
type Line struct {
	Failure doc.Failure
	Content Content // Hash or None if the document has a source that is not in the line
	SHA256  string  // with Hash
	Text    []byte  // with its line feed; borrowed until the next line
	Err     error   // why the line cannot be read; Failure is empty then

	class string
}

// Lines yields the lines of a file in order. It skips an unfinished last line: the process that wrote it died
// before it counted the document. Errors are the errors of r, and fault.ErrUnsupported for a line too long for a source
// of most bytes.
func Lines(r io.Reader, most int64) iter.Seq2[Line, error] {
	return each(r, int(most)/3*4+maxHead, func([]byte) ([]byte, error) {
		return nil, fmt.Errorf("holds more than a document of %d bytes (--max-document-size): %w", most, fault.ErrUnsupported)
	})
}

// Heads yields the lines of a file like Lines, regardless of their length. It omits the source of a line longer than 1 MiB.
func Heads(r io.Reader) iter.Seq2[Line, error] {
	return each(r, maxHead, func(text []byte) ([]byte, error) {
		for _, key := range []string{`,"source":`, `,"source_base64":`} { // quotes within a string are escaped
			if i := bytes.Index(text, []byte(key)); i >= 0 {
				return append(text[:i], "}\n"...), nil
			}
		}
		return nil, fmt.Errorf("has no source within %d bytes: %w", maxHead, fault.ErrCorrupt)
	})
}

// each yields lines. It passes the start of a line longer than limit bytes to cut, and yields the result.
func each(r io.Reader, limit int, cut func(text []byte) ([]byte, error)) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, 256<<10)
		var text []byte
		for n := 1; ; n++ {
			if text = text[:0]; cap(text) > 4<<20 {
				text = nil
			}
			var err error
			for more, whole := true, true; more; {
				var part []byte
				part, err = in.ReadSlice('\n')
				more = errors.Is(err, bufio.ErrBufferFull)
				if !whole {
					continue
				}
				if text = append(text, part...); len(text) > limit {
					var long error
					if text, long = cut(text); long != nil {
						yield(Line{}, fmt.Errorf("line %d of failed documents %w", n, long))
						return
					}
					whole = false
				}
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(Line{}, err)
				return
			}
			l := Line{Text: text}
			if err = l.parse(text); err != nil {
				l.Err = fmt.Errorf("line %d of failed documents: %w: %w", n, err, fault.ErrCorrupt)
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}
