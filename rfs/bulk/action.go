package bulk

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/doc"
)

// lines writes action lines. It keeps the part that the lines of an index share.
type lines struct {
	op                string // index or create, of documents that are not deleted
	emitType, version bool

	index    []byte
	deletion bool
	prefix   []byte // for index and op
	short    bool   // the document that was prepared has nothing but an id, without escapes
}

// prepare sets the index and the op of the line of a document, and returns its length in bytes.
func (l *lines) prepare(d *doc.Document) int {
	if l.prefix == nil || l.deletion != d.Delete || string(l.index) != string(d.Index) {
		l.index, l.deletion = append(l.index[:0], d.Index...), d.Delete
		op := l.op
		if d.Delete {
			op = "delete"
		}
		l.prefix = append(append(append(l.prefix[:0], `{"`...), op...), `":{"_index":`...)
		l.prefix = doc.AppendString(l.prefix, d.Index)
		if !l.emitType {
			l.prefix = append(l.prefix, `,"_id":"`...)
		}
	}
	if l.short = !l.emitType && !l.version && len(d.Routing) == 0 && doc.Unescaped(d.ID); l.short {
		return len(l.prefix) + len(d.ID) + len(`"}}`+"\n")
	}
	n := len(l.prefix) + doc.QuotedLen(d.ID) + len("}}\n")
	if !l.emitType {
		n--
	} else if n += len(`,"_id":`); len(d.Type) > 0 {
		n += len(`,"_type":`) + doc.QuotedLen(d.Type)
	}
	if len(d.Routing) > 0 {
		n += len(`,"routing":`) + doc.QuotedLen(d.Routing)
	}
	if l.version {
		n += len(`,"version":,"version_type":"external_gte"`) + len(strconv.AppendInt(nil, d.Version, 10))
	}
	return n
}

// append appends the action line of the document that was prepared, with its line break.
func (l *lines) append(dst []byte, d *doc.Document) []byte {
	dst = append(dst, l.prefix...)
	if l.short {
		return append(append(dst, d.ID...), `"}}`+"\n"...)
	}
	switch {
	case !l.emitType:
		dst = dst[:len(dst)-1] // the quote, with which ids begin
	case len(d.Type) > 0:
		dst = doc.AppendString(append(dst, `,"_type":`...), d.Type)
		fallthrough
	default:
		dst = append(dst, `,"_id":`...)
	}
	dst = doc.AppendString(dst, d.ID)
	if len(d.Routing) > 0 {
		dst = doc.AppendString(append(dst, `,"routing":`...), d.Routing)
	}
	if l.version {
		dst = append(strconv.AppendInt(append(dst, `,"version":`...), d.Version, 10), `,"version_type":"external_gte"`...)
	}
	return append(dst, "}}\n"...)
}

// action is the parsed form of an action line.
type action struct {
	Index   string `json:"_index"`
	Type    string `json:"_type"`
	ID      string `json:"_id"`
	Routing string `json:"routing"`
	Version int64  `json:"version"`
}

func parseAction(line []byte) (action, error) {
	var a struct {
		Index  action `json:"index"`
		Create action `json:"create"`
		Delete action `json:"delete"`
	}
	if err := json.Unmarshal(line, &a); err != nil {
		return action{}, fmt.Errorf("action line: %w", err)
	}
	switch {
	case a.Create.Index != "":
		return a.Create, nil
	case a.Delete.Index != "":
		return a.Delete, nil
	}
	return a.Index, nil
}
