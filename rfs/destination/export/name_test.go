package export

import (
	"fmt"
	"strings"
)

// decodeName is the inverse of EncodeName; anything that EncodeName never returns is an error.
func decodeName(path string) (string, error) {
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
