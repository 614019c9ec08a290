package target

import "bytes"

// Bodies that are sent to the index itself, so that their action lines need not name it.
const (
	unnamedBytes  = 64 << 10 // of a body, at least
	unnamedLength = 512      // of an item with its action line, at most on average: omitted parts do not count in a longer one
)

var indexField = []byte(`":{"_index":`)

// appendUnnamed appends a bulk body to dst without the index in its action lines, and returns it with that index as a JSON string
// without its quotes. ok is false where an action line names another index, or none in the form that rfs/destination/bulk writes: then the
// body has to be sent as it is.
func appendUnnamed(dst, body []byte) (unnamed, index []byte, ok bool) {
	var quoted []byte
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, []byte{'\n'})
		at := bytes.Index(line, indexField)
		if at < 2 || line[0] != '{' || line[1] != '"' {
			return dst, nil, false
		}
		op, after := line[2:at], line[at+len(indexField):]
		if quoted == nil {
			end := bytes.IndexByte(after, ',')
			if end < 3 || after[0] != '"' || after[end-1] != '"' || bytes.ContainsAny(after[1:end-1], `"\`) {
				return dst, nil, false
			}
			quoted = after[:end]
		}
		if !bytes.HasPrefix(after, quoted) || len(after) == len(quoted) || after[len(quoted)] != ',' {
			return dst, nil, false
		}
		dst = append(append(append(dst, line[:at]...), `":{`...), after[len(quoted)+1:]...)
		dst = append(dst, '\n')
		switch string(op) {
		case "index", "create":
			source, behind, found := bytes.Cut(rest, []byte{'\n'})
			if !found {
				return dst, nil, false
			}
			dst = append(append(dst, source...), '\n')
			rest = behind
		case "delete":
		default:
			return dst, nil, false
		}
		body = rest
	}
	if quoted == nil {
		return dst, nil, false
	}
	return dst, quoted[1 : len(quoted)-1], true
}
