package extract

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// maxNames is the maximum number of index names that may replace a pattern.
const maxNames = 50

// titles renames index patterns consistently with indices.
type titles struct {
	overrides metadata.Overrides
	rules     *rules.Set
	indices   []string // of the snapshot
}

// newName returns the name of an index, or of a pattern, on the target.
func (t titles) newName(name string) string { return t.rules.IndexName(t.overrides.NewName(name)) }

// rename sets the title of an index pattern for the target. It returns the parts of the title that stay unchanged although the indices that
// they match are renamed.
func (t titles) rename(s *saved) (left []string, err error) {
	var title string
	if !t.renames() || json.Unmarshal(s.Attributes["title"], &title) != nil {
		return nil, nil
	}
	title, left = t.list(title)
	s.Attributes["title"], err = json.Marshal(title)
	return left, err
}

// renames reports whether any index may be renamed.
func (t titles) renames() bool { return len(t.overrides.Rename) > 0 || t.rules != nil }

// list renames a comma-separated list of names and patterns. It returns the parts that stay unchanged although the indices that they match
// are renamed.
func (t titles) list(text string) (is string, left []string) {
	if !t.renames() {
		return text, nil
	}
	parts := strings.Split(text, ",")
	for i, part := range parts {
		name, excludes := strings.CutPrefix(strings.TrimSpace(part), "-")
		is, ok := t.part(name)
		if !ok {
			left = append(left, name)
		}
		if excludes {
			is = "-" + strings.ReplaceAll(is, ",", ",-")
		}
		parts[i] = is
	}
	return strings.Join(parts, ","), left
}

// part renames one name or pattern. If neither a pattern nor at most maxNames names match the renamed indices, it returns name and false.
func (t titles) part(name string) (string, bool) {
	if !strings.Contains(name, "*") {
		return t.newName(name), true
	}
	var want []string
	changed := false
	for _, index := range t.indices {
		if pattern.Star(name, index) {
			is := t.newName(index)
			want, changed = append(want, is), changed || is != index
		}
	}
	switch {
	case len(want) == 0: // the indices may be in another snapshot
		return t.newName(name), true
	case !changed:
		return name, true
	}
	slices.Sort(want)
	as := t.newName(name)
	var got []string
	for _, index := range t.indices {
		if is := t.newName(index); pattern.Star(as, is) {
			got = append(got, is)
		}
	}
	slices.Sort(got)
	switch {
	case slices.Equal(got, want):
		return as, true
	case len(want) <= maxNames:
		return strings.Join(want, ","), true
	}
	return name, false
}
