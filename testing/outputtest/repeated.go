package outputtest

import "strings"

// Repeated returns a part of a message, between colons or semicolons, that is in it twice; "" if there is none. Short parts may repeat.
func Repeated(message string) string {
	seen := map[string]bool{}
	for part := range strings.SplitSeq(strings.ReplaceAll(strings.TrimSpace(message), "; ", ": "), ": ") {
		if len(part) < 12 {
			continue
		}
		if seen[part] {
			return part
		}
		seen[part] = true
	}
	return ""
}
