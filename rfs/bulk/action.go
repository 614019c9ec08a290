package bulk

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/rfsd/rfsd/rfs/doc"
)

// appendPrefix appends the part of an action line that all documents of an index share. op is
// index, create, or delete.
func appendPrefix(dst []byte, op string, index []byte) []byte {
	dst = append(append(append(dst, `{"`...), op...), `":{"_index":`...)
	return doc.AppendString(dst, index)
}

// appendAction appends the action line of a document, without its line break.
// prefix is the result of appendPrefix for the document's index.
func appendAction(dst, prefix []byte, d *doc.Document, emitType, version bool) []byte {
	dst = append(dst, prefix...)
	if emitType && len(d.Type) > 0 {
		dst = append(dst, `,"_type":`...)
		dst = doc.AppendString(dst, d.Type)
	}
	dst = append(dst, `,"_id":`...)
	dst = doc.AppendString(dst, d.ID)
	if len(d.Routing) > 0 {
		dst = append(dst, `,"routing":`...)
		dst = doc.AppendString(dst, d.Routing)
	}
	if version {
		dst = append(strconv.AppendInt(append(dst, `,"version":`...), d.Version, 10), `,"version_type":"external_gte"`...)
	}
	return append(dst, '}', '}')
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
