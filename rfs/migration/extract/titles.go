package extract

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/rules"
)

// maxNames bounds the names of indices that take the place of a pattern.
const maxNames = 50

// titles renames index patterns as indices are renamed.
type titles struct {
	overrides metadata.Overrides
	rules     *rules.Set
	indices   []string // of the snapshot
}

// newName returns the name that an index of the snapshot, or a pattern, has on the target.
func (t titles) newName(name string) string { return t.rules.IndexName(t.overrides.NewName(name)) }

// rename sets the title for the target on an index pattern. It returns the parts of the title that were left although indices that they
// match get other names.
func (t titles) rename(s *saved) (left []string, err error) {
	var title string
	if !t.renames() || json.Unmarshal(s.Attributes["title"], &title) != nil {
		return nil, nil
	}
	title, left = t.list(title)
	s.Attributes["title"], err = json.Marshal(title)
	return left, err
}

// renames reports whether any index may get another name.
func (t titles) renames() bool { return len(t.overrides.Rename) > 0 || t.rules != nil }

// list returns the new form of a list of names and patterns, and its parts that were left although indices that they match get other names.
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

// part returns the new form of a name or pattern; false when no form fits.
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
