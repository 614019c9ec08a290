package bulk

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// lines writes action lines. It caches the prefix that consecutive lines of the same index and operation share.
type lines struct {
	op                string // index or create; deletions have their own
	emitType, version bool

	index    []byte
	deletion bool
	prefix   []byte // for index and op
	changes  uint32 // how often index or op changed
}

// use sets the index and the operation of the prefix to the document's.
func (l *lines) use(d *doc.Document) {
	l.index, l.deletion = append(l.index[:0], d.Index...), d.Delete
	l.changes++
	op := l.op
	if d.Delete {
		op = "delete"
	}
	l.prefix = append(append(append(l.prefix[:0], `{"`...), op...), `":{"_index":`...)
	l.prefix = doc.AppendString(l.prefix, d.Index)
	if !l.emitType {
		l.prefix = append(l.prefix, `,"_id":`...)
	}
}

// append appends the action line of d, with its line break, to dst and returns the result.
func (l *lines) append(dst []byte, d *doc.Document) []byte {
	if l.prefix == nil || l.deletion != d.Delete || string(l.index) != string(d.Index) {
		l.use(d)
	}
	dst = append(dst, l.prefix...)
	if l.emitType {
		if len(d.Type) > 0 {
			dst = doc.AppendString(append(dst, `,"_type":`...), d.Type)
		}
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
