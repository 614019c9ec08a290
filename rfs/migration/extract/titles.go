package extract

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// maxNames bounds the names of indices that take the place of a pattern.
const maxNames = 50

// titles renames index patterns as indices are renamed.
type titles struct {
	overrides metadata.Overrides
	indices   []string // of the snapshot
}

// rename gives an index pattern the title for the target. It returns the parts of the title that were left although indices that they
// match get other names.
func (t titles) rename(s *saved) (left []string, err error) {
	var title string
	if len(t.overrides.Rename) == 0 || json.Unmarshal(s.Attributes["title"], &title) != nil {
		return nil, nil
	}
	parts := strings.Split(title, ",")
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
	s.Attributes["title"], err = json.Marshal(strings.Join(parts, ","))
	return left, err
}

// part returns the new form of a name or pattern; false when no form fits.
func (t titles) part(name string) (string, bool) {
	if !strings.Contains(name, "*") {
		return t.overrides.NewName(name), true
	}
	var want []string
	changed := false
	for _, index := range t.indices {
		if pattern.Star(name, index) {
			is := t.overrides.NewName(index)
			want, changed = append(want, is), changed || is != index
		}
	}
	switch {
	case len(want) == 0: // the indices may be in another snapshot
		return t.overrides.NewName(name), true
	case !changed:
		return name, true
	}
	slices.Sort(want)
	as := t.overrides.NewName(name)
	var got []string
	for _, index := range t.indices {
		if is := t.overrides.NewName(index); pattern.Star(as, is) {
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
