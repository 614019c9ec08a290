package export

import (
	"fmt"
	"strings"
)

// maxComponent limits one component of a folder's path, in bytes. File systems allow 255; the rest is
// reserved for escapes at its ends.
const maxComponent = 240

// EncodeName returns the folder of an index below the export directory, slash-separated. Lower-case letters,
// digits, '-', '_' and inner dots stay; every other byte becomes %XX, so that different indices have different folders even on a
// file system that ignores case, and no name is special. The first letter of a name that Windows reserves is escaped.
// A name too long for one component continues in a folder below: a component that ends with '%' is
// not the last. The empty name becomes "%".
func EncodeName(index string) string {
	if index == "" {
		return "%"
	}
	var parts []string
	var part []byte
	for i := 0; i < len(index); i++ {
		c := index[i]
		switch {
		case isPlain(c) || c == '.' && len(part) > 0 && i < len(index)-1:
			part = append(part, c)
		default:
			part = fmt.Appendf(part, "%%%02X", c)
		}
		if len(part) >= maxComponent && i < len(index)-1 {
			parts = append(parts, string(part)+"%")
			part = part[:0]
		}
	}
	last := string(part)
	if isReserved(last) {
		last = fmt.Sprintf("%%%02X", last[0]) + last[1:]
	}
	return strings.Join(append(parts, last), "/")
}

func isPlain(c byte) bool {
	return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_'
}

// isReserved reports whether Windows reserves a name for a device, with any extension.
func isReserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "com") || strings.HasPrefix(base, "lpt")) && '0' <= base[3] && base[3] <= '9'
}
