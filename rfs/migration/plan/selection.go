package plan

import "strings"

// isSystem reports whether an index is left out unless it is requested: its name starts
// with a dot. Backing indices of data streams (.ds-…) are users' data and stay.
func isSystem(name string) bool {
	return strings.HasPrefix(name, ".") && !strings.HasPrefix(name, ".ds-")
}
