package doc

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// MaxAction is the maximum length of an action line in bytes. Index names have at most 255
// bytes, ids 512.
const MaxAction = 64 << 10

// Action is a parsed action line of a bulk body. Its slices may alias the line.
type Action struct {
	Index, ID, Routing, Type []byte
	Delete                   bool
	Fault                    string // why it cannot be executed; "" if it can
}

// ParseIndexing parses an action line: an object with one key, index or create, whose value is an object. It reports
// whether the line is an action; Fault contains an error within it.
func (a *Action) ParseIndexing(line []byte) bool {
	if !a.Parse(line) || a.Delete {
		return false
	}
	if a.Fault == "" && len(a.Index) == 0 {
		a.Fault = "the action names no index"
	}
	return true
}

// Parse parses an action line like ParseIndexing, and also deletions. The index is empty if the line names none.
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

// mayBeAction reports whether the start of a line looks like an action.
func mayBeAction(line []byte) bool {
	line = TrimSpace(line)
	if len(line) == 0 || line[0] != '{' {
		return false
	}
	line = TrimSpace(line[1:])
	return bytes.HasPrefix(line, []byte(`"index"`)) || bytes.HasPrefix(line, []byte(`"create"`)) || bytes.HasPrefix(line, []byte(`"delete"`))
}

// TrimSpace returns b without leading white space of JSON.
func TrimSpace(b []byte) []byte {
	for len(b) > 0 && (b[0] == ' ' || b[0] == '\t' || b[0] == '\r' || b[0] == '\n') {
		b = b[1:]
	}
	return b
}

// parsePlain parses the form of exports, without blanks and escapes. It returns false for other forms.
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

// cutString returns the JSON string without escapes at the start of b, and the rest.
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

// parseJSON parses any action line.
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
	for _, name := range slices.Sorted(maps.Keys(fields)) { // so that the fault of a line is deterministic
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
			// Dropping it could change the meaning of the document (version, pipeline, parent).
			a.Fault = fmt.Sprintf("the action has %q, which is not carried over", name)
		}
	}
	return true
}

// text returns the text of a string, or of a number if numbers is set; nil for null. It sets Fault for other values.
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
