package target

import "bytes"

// Limits for bodies that are posted to the index itself, so that their action lines need not name it.
const (
	unnamedBytes  = 64 << 10 // minimum length of a body
	unnamedLength = 512      // maximum average length of an item with its action line; for longer ones the gain is negligible
)

var indexField = []byte(`":{"_index":`)

// appendUnnamed appends a bulk body to dst without the index in its action lines. It returns the body and the index, as a JSON string
// without its quotes. ok is false if the action lines name several indices, or none in the form of rfs/destination/bulk: then the
// body must be sent unchanged.
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
