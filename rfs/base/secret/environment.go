package secret

import (
	"slices"
	"strings"
)

// passed are the variables that programs of the operator get; a name that ends with _ matches all that start with it.
var passed = []string{"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_", "TZ", "TMPDIR"}

// Environment returns the variables of an environment ("NAME=value") that a program of the operator gets: who and where it is, and its
// language. Everything else may hold the credentials of this process, regardless of its name.
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
