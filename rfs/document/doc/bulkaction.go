package doc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// MaxAction bounds an action line in bytes: a longer line is none. Index names have at most 255
// bytes, ids 512.
const MaxAction = 64 << 10

// Action is an action line of a bulk body. The slices are views of the line or copies.
type Action struct {
	Index, ID, Routing, Type []byte
	Delete                   bool
	Fault                    string // why it cannot be carried out; "" when it can
}

// ParseIndexing reads an action line: an object of one key, index or create, with an object. It reports
// whether the line is an action; Fault holds the error within it.
func (a *Action) ParseIndexing(line []byte) bool {
	if !a.Parse(line) || a.Delete {
		return false
	}
	if a.Fault == "" && len(a.Index) == 0 {
		a.Fault = "the action names no index"
	}
	return true
}

// Parse reads an action line as ParseIndexing does, or a line whose key is delete. The index is empty if the line names none.
func (a *Action) Parse(line []byte) bool {
	*a = Action{}
	if len(line) > MaxAction || !mayBeAction(line) {
		return false
	}
	if a.parsePlain(line) {
		return true
	}
	*a = Action{}
	return a.parseJSON(line)
}

// mayBeAction looks at the start of a line only.
func mayBeAction(line []byte) bool {
	line = TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	line = TrimSpace(line[1:])
	return bytes.HasPrefix(line, []byte(`"index"`)) || bytes.HasPrefix(line, []byte(`"create"`)) || bytes.HasPrefix(line, []byte(`"delete"`))
}

// TrimSpace removes the white space of JSON at the start.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// parsePlain reads the form that exports have: no blanks, no escapes. Any other is left to parseJSON.
func (a *Action) parsePlain(line []byte) bool {
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
			a.Index = value
		case "_id":
			if a.ID = value; len(value) == 0 {
				return false
			}
		case "routing":
			a.Routing = value
		case "_type":
			a.Type = value
		default:
			return false
		}
		if rest[0] == '}' {
			return len(rest) == 2 && rest[1] == '}' && len(a.Index) > 0
		}
		if rest[0] != ',' {
			return false
		}
		rest = rest[1:]
	}
}

// cutString takes a JSON string without escapes off the start of b.
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
func (a *Action) parseJSON(line []byte) bool {
	var whole map[string]json.RawMessage
	if json.Unmarshal(line, &whole) != nil || len(whole) != 1 {
		return false
	}
	var inner json.RawMessage
	for key, value := range whole {
		if key != "index" && key != "create" && key != "delete" {
			return false
		}
		inner, a.Delete = value, key == "delete"
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(inner, &fields) != nil || fields == nil {
		return false
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) { // so that the same line has the same fault always
		raw := fields[name]
		switch name {
		case "_index":
			a.Index = a.text(name, raw, false)
		case "_id":
			if a.ID = a.text(name, raw, true); a.ID != nil && len(a.ID) == 0 {
				a.Fault = "the _id is empty"
			}
		case "routing", "_routing":
			a.Routing = a.text(name, raw, true)
		case "_type":
			a.Type = a.text(name, raw, false)
		default:
			// Dropping it could change what the document means (version, pipeline, parent).
			a.Fault = fmt.Sprintf("the action has %q, which is not carried over", name)
		}
	}
	return true
}

// text returns a value as a cluster takes it: a string, where numbers are allowed also the text of a
// number; nil for null.
func (a *Action) text(name string, raw json.RawMessage, numbers bool) []byte {
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
	a.Fault = fmt.Sprintf("%s of the action is not a string", name)
	return nil
}
