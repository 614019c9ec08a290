package export

import (
	"fmt"
	"strings"
)

// maxComponent bounds one component of a folder's path; file systems take 255 bytes,
// what is left is for escapes at its ends.
const maxComponent = 240

// EncodeName gives the folder of an index below the export directory, slash-separated.
// Lower-case letters, digits, '-', '_' and inner dots stay; every other byte becomes
// %XX, so that no two names meet on a file system that ignores case and none is special.
// The names that Windows reserves get an escape for their first letter. A name too
// long for one component goes on in a folder below: a component that ends with '%' is
// not the last. The empty name is "%".
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

// isReserved: devices of Windows, whatever extension follows.
func isReserved(name string) bool {
	base, _, _ := strings.Cut(name, ".")
	switch base {
	case "con", "prn", "aux", "nul":
		return true
	}
	return len(base) == 4 && (strings.HasPrefix(base, "com") || strings.HasPrefix(base, "lpt")) && '0' <= base[3] && base[3] <= '9'
}

// DecodeName is the inverse of EncodeName; anything that EncodeName never gives is an error.
func DecodeName(path string) (string, error) {
	if path == "%" {
		return "", nil
	}
	var out []byte
	components := strings.Split(path, "/")
	for n, part := range components {
		if n < len(components)-1 {
			part = strings.TrimSuffix(part, "%")
		}
		for i := 0; i < len(part); i++ {
			if part[i] != '%' {
				out = append(out, part[i])
				continue
			}
			if i+3 > len(part) {
				return "", fmt.Errorf("folder name %q ends within an escape", path)
			}
			hi, lo := hexDigit(part[i+1]), hexDigit(part[i+2])
			if hi < 0 || lo < 0 {
				return "", fmt.Errorf("folder name %q has an escape that is none", path)
			}
			out = append(out, byte(hi<<4|lo))
			i += 2
		}
	}
	if EncodeName(string(out)) != path {
		return "", fmt.Errorf("folder name %q does not stand for an index", path)
	}
	return string(out), nil
}

func hexDigit(c byte) int { return strings.IndexByte("0123456789ABCDEF", c) }
