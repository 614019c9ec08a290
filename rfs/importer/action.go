package importer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// maxAction bounds an action line in bytes: a longer line is none. Index names have at most 255
// bytes, ids 512.
const maxAction = 64 << 10

// action is what an action line says. The slices are views of the line or copies.
type action struct {
	index, id, routing, typ []byte
	fault                   string // why the document cannot be imported; "" when it can
}

// parse reads an action line: an object of one key, index or create, with an object. It says
// whether the line is one; what is wrong inside of it is in fault.
func (a *action) parse(line []byte) bool {
	*a = action{}
	if len(line) > maxAction || !mayBeAction(line) {
		return false
	}
	if a.parsePlain(line) {
		return true
	}
	*a = action{}
	return a.parseJSON(line)
}

// mayBeAction looks at the beginning of a line only.
func mayBeAction(line []byte) bool {
	line = trimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	line = trimSpace(line[1:])
	return bytes.HasPrefix(line, []byte(`"index"`)) || bytes.HasPrefix(line, []byte(`"create"`))
}

// trimSpace removes the white space of JSON at the beginning.
func trimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// parsePlain reads the form that exports have: no blanks, no escapes. Any other is left to parseJSON.
func (a *action) parsePlain(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, []byte(`{"index":{`))
	if !ok {
		return false
	}
	for {
		var key, value []byte
		if key, rest, ok = cutString(rest); !ok || len(rest) == 0 || rest[0] != ':' {
			return false
		}
		if value, rest, ok = cutString(rest[1:]); !ok || len(rest) == 0 {
			return false
		}
		switch string(key) {
		case "_index":
			a.index = value
		case "_id":
			if a.id = value; len(value) == 0 {
				return false
			}
		case "routing":
			a.routing = value
		case "_type":
			a.typ = value
		default:
			return false
		}
		if rest[0] == '}' {
			return len(rest) == 2 && rest[1] == '}' && len(a.index) > 0
		}
		if rest[0] != ',' {
			return false
		}
		rest = rest[1:]
	}
}

// cutString takes a JSON string without escapes off the beginning of b.
func cutString(b []byte) (s, rest []byte, ok bool) {
	if len(b) == 0 || b[0] != '"' {
		return nil, nil, false
	}
	wide := false
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			return b[1:i], b[i+1:], !wide || utf8.Valid(b[1:i])
		case c == '\\' || c < ' ':
			return nil, nil, false
		case c >= utf8.RuneSelf:
			wide = true
		}
	}
	return nil, nil, false
}

// parseJSON reads any action line.
func (a *action) parseJSON(line []byte) bool {
	var whole map[string]json.RawMessage
	if json.Unmarshal(line, &whole) != nil || len(whole) != 1 {
		return false
	}
	inner, ok := whole["index"]
	if !ok {
		if inner, ok = whole["create"]; !ok {
			return false
		}
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(inner, &fields) != nil || fields == nil {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // so that the same line has the same fault always
		raw := fields[name]
		switch name {
		case "_index":
			a.index = a.text(name, raw, false)
		case "_id":
			if a.id = a.text(name, raw, true); a.id != nil && len(a.id) == 0 {
				a.fault = "the _id is empty"
			}
		case "routing", "_routing":
			a.routing = a.text(name, raw, true)
		case "_type":
			a.typ = a.text(name, raw, false)
		default:
			// Dropping it could change what the document means (version, pipeline, parent).
			a.fault = fmt.Sprintf("the action has %q, which an import does not carry over", name)
		}
	}
	if a.fault == "" && len(a.index) == 0 {
		a.fault = "the action names no index"
	}
	return true
}

// text gives a value as a cluster takes it: a string, where numbers are allowed also the text of a
// number; nil for null.
func (a *action) text(name string, raw json.RawMessage, numbers bool) []byte {
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if dec.Decode(&v) == nil {
		switch v := v.(type) {
		case nil:
			return nil
		case string:
			return []byte(v)
		case json.Number:
			if numbers {
				return []byte(v)
			}
		}
	}
	a.fault = fmt.Sprintf("%s of the action is not a string", name)
	return nil
}
