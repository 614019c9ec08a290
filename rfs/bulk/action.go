package bulk

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/doc"
)

// appendPrefix appends the part of an action line that all documents of an index share.
func appendPrefix(dst []byte, index []byte) []byte {
	dst = append(dst, `{"index":{"_index":`...)
	return appendString(dst, index)
}

// appendAction appends the action line of a document, without its line break.
// prefix is what appendPrefix made of the document's index.
func appendAction(dst, prefix []byte, d *doc.Document, emitType bool) []byte {
	dst = append(dst, prefix...)
	if emitType && len(d.Type) > 0 {
		dst = append(dst, `,"_type":`...)
		dst = appendString(dst, d.Type)
	}
	dst = append(dst, `,"_id":`...)
	dst = appendString(dst, d.ID)
	if len(d.Routing) > 0 {
		dst = append(dst, `,"routing":`...)
		dst = appendString(dst, d.Routing)
	}
	return append(dst, '}', '}')
}

// appendString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD:
// nothing that a name holds can end the string or the line.
func appendString(dst, s []byte) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	from := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(append(dst, s[from:i]...), "\uFFFD"...)
				from = i + 1
			}
			i += n
			continue
		}
		if c >= ' ' && c != '"' && c != '\\' {
			i++
			continue
		}
		dst = append(dst, s[from:i]...)
		if c == '"' || c == '\\' {
			dst = append(dst, '\\', c)
		} else {
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		from = i
	}
	return append(append(dst, s[from:]...), '"')
}

// action is the parsed form of an action line.
type action struct {
	Index   string `json:"_index"`
	Type    string `json:"_type"`
	ID      string `json:"_id"`
	Routing string `json:"routing"`
}

func parseAction(line []byte) (action, error) {
	var a struct {
		Index action `json:"index"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return action{}, fmt.Errorf("action line: %w", err)
	}
	return a.Index, nil
}
