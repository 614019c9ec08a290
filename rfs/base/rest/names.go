package rest

import (
	"iter"
	"net/url"
	"strings"
)

// maxNames limits the names in one path, in bytes: servers accept request lines of 4096 bytes.
const maxNames = 2000

// InParts yields names of indices in parts that are short enough for one request, with the path of each part.
func InParts(names []string) iter.Seq2[[]string, string] {
	return func(yield func([]string, string) bool) {
		for len(names) > 0 {
			n, size := 0, 0
			for n < len(names) && (n == 0 || size+len(names[n]) < maxNames) {
				size += 3*len(names[n]) + 1 // if every byte is escaped
				n++
			}
			escaped := make([]string, n)
			for i, name := range names[:n] {
				escaped[i] = url.PathEscape(name)
			}
			if !yield(names[:n], "/"+strings.Join(escaped, ",")) {
				return
			}
			names = names[n:]
		}
	}
}
