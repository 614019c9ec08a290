package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// Reasons of documents that fail before they are sent.
const (
	BadLine   doc.Reason = "bad_line"       // a line that should be an action line but is not
	BadAction doc.Reason = "bad_action"     // an import cannot execute the action
	NoLine    doc.Reason = "no_source_line" // the file ends after the action
	Typed     doc.Reason = "mapping_type"   // a mapping type without a setting for its treatment
)

// pair is an action line with its source line, or their error.
type pair struct {
	at     int64 // offset of the first line
	action doc.Action
	source []byte     // without line break; borrowed until the next pair
	reason doc.Reason // why the pair cannot be sent; "": it can
	detail string
}

// pairs reads the documents of a window: the pairs whose first line starts at an offset in
// [from, to). If a line should be an action but is not, this line alone is a failing pair, and
// the next line should be an action again. Therefore, after any line that is not an action line, the next one should be
// an action; syncPoint relies on this.
type pairs struct {
	lines    *lines
	from, to int64
	line     []byte // copy of the action line
	pair     pair
}

const noEnd = math.MaxInt64

// next returns the next document, borrowed until the next call; io.EOF at the end of the window.
func (p *pairs) next() (*pair, error) {
	for {
		line, at, err := p.lines.next()
		if errors.Is(err, errLong) {
			p.fail(at, BadLine, fmt.Sprintf("longer than %d bytes", p.lines.limit), nil)
		} else if err != nil {
			return nil, err
		}
		if at >= p.to {
			return nil, io.EOF
		}
		if err == nil {
			line = withoutReturn(line)
			if len(doc.TrimSpace(line)) == 0 {
				continue
			}
			if !p.starts(line, at) {
				due := "an action line is due here: "
				if isFailedDocument(line) {
					due = "this is a file of failed documents, which rfsd redrive sends: "
				}
				p.fail(at, BadLine, due+beginning(line), line)
			} else if err := p.complete(); err != nil {
				return nil, err
			}
		}
		if at >= p.from {
			return &p.pair, nil
		}
	}
}

// starts starts a pair with an action line, and reports whether the line is one. It copies the line, which is borrowed from lines.
func (p *pairs) starts(line []byte, at int64) bool {
	if len(line) > doc.MaxAction {
		return false
	}
	p.line = append(p.line[:0], line...)
	p.pair = pair{at: at}
	return p.pair.action.ParseIndexing(p.line)
}

// complete reads the source line of the current action.
func (p *pairs) complete() error {
	source, _, err := p.lines.next()
	switch {
	case errors.Is(err, io.EOF):
		p.pair.reason, p.pair.detail = NoLine, "the file ends after the action line"
		return nil
	case errors.Is(err, errLong):
		p.pair.reason, p.pair.detail = doc.TooLarge, fmt.Sprintf("a source of more than %d bytes: neither read nor sent (--max-document-size, or http.max_content_length of the target)", p.lines.limit)
		return nil
	case err != nil:
		return err
	}
	p.pair.source = withoutReturn(source)
	p.check()
	return nil
}

// check sets the reason for a pair that no target would accept. The target checks the rest.
func (p *pairs) check() {
	x := &p.pair
	body := doc.TrimSpace(doc.WithoutMark(x.source))
	switch {
	case x.action.Fault != "":
		x.reason, x.detail = BadAction, x.action.Fault
	case len(body) == 0 || body[0] != '{' && body[0] != '/': // sources may start with a comment
		x.reason, x.detail = doc.BadSource, "the source line is not an object: "+beginning(x.source)
	case bytes.IndexByte(x.source, '\r') >= 0:
		line, err := doc.AppendLine(nil, x.source)
		if err != nil {
			x.reason, x.detail = doc.LineBreak, err.Error()
			return
		}
		x.source = line
	}
}

func (p *pairs) fail(at int64, reason doc.Reason, detail string, source []byte) {
	p.pair = pair{at: at, reason: reason, detail: detail, source: source}
}

// isFailedDocument reports whether rfsd wrote the line for a failed document.
func isFailedDocument(line []byte) bool {
	return bytes.HasPrefix(line, []byte(`{"index":"`)) && bytes.Contains(line, []byte(`,"ordinal":`)) && bytes.Contains(line, []byte(`,"reason":"`))
}

// withoutReturn removes the carriage return of a line that ended in CR LF.
func withoutReturn(line []byte) []byte { return bytes.TrimSuffix(line, []byte("\r")) }

// beginning returns the quoted first bytes of a line, for a message.
func beginning(line []byte) string {
	if len(line) > 80 {
		return fmt.Sprintf("%q…", line[:80])
	}
	return fmt.Sprintf("%q", line)
}
