package secret

import (
	"slices"
	"strings"
)

// passed are the variables passed to the operator's programs; a name that ends with _ matches all names that start with it.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_", "TZ", "TMPDIR"}

// Environment returns the variables of an environment ("NAME=value") that may be passed to a program of the operator: its user, paths and
// language. Any other variable may contain credentials of this process, regardless of its name.
func Environment(all []string) []string {
	var kept []string
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		if slices.ContainsFunc(passed, func(p string) bool { return name == p || strings.HasSuffix(p, "_") && strings.HasPrefix(name, p) }) {
			kept = append(kept, v)
		}
	}
	return kept
}
