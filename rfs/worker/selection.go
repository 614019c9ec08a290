package worker

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Allowlist says which names take part: exact names, or `regex:` patterns that
// must match the whole name. An empty list allows every name.
type Allowlist struct {
	exact    map[string]bool
	patterns []*regexp.Regexp
	text     []string
}

// ParseAllowlist reads the entries of an allow-list option; each may itself be a
// comma-separated list of exact names. A pattern is taken as it is, commas included.
func ParseAllowlist(entries []string) (Allowlist, error) {
	a := Allowlist{exact: map[string]bool{}}
	for _, entry := range entries {
		if p, ok := strings.CutPrefix(entry, "regex:"); ok {
			re, err := regexp.Compile(`\A(?:` + p + `)\z`)
			if err != nil {
				return a, fmt.Errorf("allow-list pattern %q: %w: %w", entry, err, fault.ErrConfig)
			}
			a.patterns = append(a.patterns, re)
			a.text = append(a.text, entry)
			continue
		}
		for name := range strings.SplitSeq(entry, ",") {
			if name = strings.TrimSpace(name); name != "" {
				a.exact[name] = true
				a.text = append(a.text, name)
			}
		}
	}
	return a, nil
}

// Empty says whether every name is allowed.
func (a Allowlist) Empty() bool { return len(a.text) == 0 }

// Entries are the entries as given, for messages and the configuration digest.
func (a Allowlist) Entries() []string { return a.text }

// Exact says whether the name itself is listed (not only matched by a pattern).
func (a Allowlist) Exact(name string) bool { return a.exact[name] }

// Allows says whether the name takes part.
func (a Allowlist) Allows(name string) bool {
	if a.Empty() || a.exact[name] {
		return true
	}
	for _, re := range a.patterns {
		if re.MatchString(name) {
			return true
		}
	}
	return false
}

// Missing returns the exact entries that no name of the snapshot has.
func (a Allowlist) Missing(names []string) []string {
	have := make(map[string]bool, len(names))
	for _, n := range names {
		have[n] = true
	}
	var missing []string
	for _, e := range a.text {
		if a.exact[e] && !have[e] {
			missing = append(missing, e)
		}
	}
	return missing
}

// isSystem says whether an index is left out unless asked for: its name begins
// with a dot. Backing indices of data streams (.ds-…) are users' data and stay.
func isSystem(name string) bool {
	return strings.HasPrefix(name, ".") && !strings.HasPrefix(name, ".ds-")
}
