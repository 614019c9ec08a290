package failed

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/rfsd/rfsd/rfs/doc"
	"github.com/rfsd/rfsd/rfs/fault"
)

// ErrInUse means that a running process writes a file of failed documents.
var ErrInUse = errors.New("a running process writes it")

// maxLine bounds a line that is read, in bytes: a source of 512 MiB in base64, and the rest of its line.
const maxLine = 768 << 20

// Line is one line of a file of failed documents.
type Line struct {
	Failure doc.Failure
	Text    []byte // with its line feed; borrowed until the next line
	Err     error  // why the line cannot be read; Failure is empty then
}

// Lines yields the lines of a file in their order. An unfinished last line is left out: the process that wrote it died
// before it counted the document. Errors are those of r, and fault.ErrUnsupported for a line that is too long.
func Lines(r io.Reader) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		in := bufio.NewReaderSize(r, 256<<10)
		var text []byte
		for n := 1; ; n++ {
			text = text[:0]
			var err error
			for more := true; more; {
				var part []byte
				part, err = in.ReadSlice('\n')
				text = append(text, part...)
				more = errors.Is(err, bufio.ErrBufferFull)
				if len(text) > maxLine {
					err, more = fmt.Errorf("line %d of failed documents is longer than %d bytes: %w", n, maxLine, fault.ErrUnsupported), false
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
			if l.Failure, err = parseLine(text); err != nil {
				l.Err = fmt.Errorf("line %d of failed documents: %w: %w", n, err, fault.ErrCorrupt)
			}
			if !yield(l, nil) {
				return
			}
		}
	}
}

// parseLine reads one line; the failure shares nothing with it.
func parseLine(text []byte) (doc.Failure, error) {
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return doc.Failure{}, err
	}
	if l.Index == "" && l.ID == "" {
		return doc.Failure{}, errors.New("neither index nor id")
	}
	f := doc.Failure{
		Index: l.Index, ID: l.ID, Type: l.Type, Routing: l.Routing, Shard: l.Shard, Ordinal: l.Ordinal,
		Reason: l.Reason, Status: l.Status, Detail: l.Detail, Source: l.Base64,
	}
	if l.Source != nil {
		f.Source = l.Source
	}
	return f, nil
}

// IsLine reports whether text begins as a line of a file of failed documents does.
func IsLine(text []byte) bool {
	text, _, _ = bytes.Cut(text, []byte{'\n'})
	rest, ok := bytes.CutPrefix(text, []byte(`{"index":"`))
	for _, key := range []string{`,"id":"`, `,"shard":`, `,"ordinal":`, `,"reason":"`, `,"status":`} {
		if ok {
			_, rest, ok = bytes.Cut(rest, []byte(key))
		}
	}
	return ok
}
