package main

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/terminal"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// risk is one thing about an index that the target would not have as it was.
type risk struct {
	Type   string `json:"mapping_type,omitempty"` // when the index has several
	Rule   string `json:"rule"`
	Path   string `json:"path,omitempty"` // field, setting or alias
	Detail string `json:"detail"`
}

var versionForm = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})(\.\d{1,3})?$`)

// parseVersion reads the version of an OpenSearch; "" is none.
func parseVersion(s string) (*target.Version, error) {
	if s == "" {
		return nil, nil
	}
	m := versionForm.FindStringSubmatch(s)
	if m == nil {
		return nil, fmt.Errorf("--target-version %q is no version of OpenSearch, as in 2.19 or 3.8.0: %w", s, fault.ErrConfig)
	}
	v := &target.Version{Distribution: "opensearch", Number: m[1] + "." + m[2] + cmp.Or(m[3], ".0")}
	v.Major, _ = strconv.Atoi(m[1]) //nolint:errcheck // the form allows digits only
	v.Minor, _ = strconv.Atoi(m[2]) //nolint:errcheck // the form allows digits only
	return v, nil
}

// risksOf goes through the same rules as a migration that creates the index on the
// target, without asking any target. Several mapping types become several indices.
func risksOf(v target.Version, x *snapshot.Index) ([]risk, error) {
	source := metadata.Index{Name: x.Name, Settings: x.Settings, Aliases: x.Aliases}
	var types []string
	for _, m := range x.Mappings {
		source.Mappings = append(source.Mappings, metadata.Mapping{Type: m.Type, Body: m.Body})
		if m.Type != "_default_" {
			types = append(types, m.Type)
		}
	}
	if len(types) == 0 {
		types = []string{""}
	}
	var out []risk
	seen := map[risk]bool{} // settings are the same for every type
	for _, t := range types {
		_, changes, err := metadata.Convert(v, metadata.Wanted{Name: x.Name, Index: source, Type: t})
		if err != nil {
			return out, fmt.Errorf("mapping of index %s: %w", x.Name, err)
		}
		for _, c := range changes {
			r := risk{Rule: c.Rule, Path: c.Path, Detail: c.Detail}
			if seen[r] {
				continue
			}
			seen[r] = true
			if len(types) > 1 {
				r.Type = t
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// shownPaths is how many fields a line of the table names.
const shownPaths = 3

// writeRisks writes a line for each thing that happens, however many fields and indices it happens to.
func writeRisks(w io.Writer, indices []shownIndex) {
	var same terminal.Grouped
	for _, x := range indices {
		for _, line := range riskLines(x.Risks) {
			same.Add(x.Index, "%s: "+terminal.Escaped(line))
		}
	}
	same.Write(w, "")
}

// riskLines returns the risks of one index; the fields that one happens to are in one line.
func riskLines(risks []risk) []string {
	type what struct{ rule, detail string }
	var order []what
	paths := map[what][]string{}
	for _, r := range risks {
		id := what{r.Rule, r.Detail}
		if paths[id] == nil {
			order = append(order, id)
		}
		paths[id] = append(paths[id], strings.TrimSpace(r.Type+" "+r.Path))
	}
	lines := make([]string, 0, len(order))
	for _, id := range order {
		where := paths[id]
		more := ""
		if len(where) > shownPaths {
			more = fmt.Sprintf(" and %d more", len(where)-shownPaths)
			where = where[:shownPaths]
		}
		lines = append(lines, fmt.Sprintf("%s: %s (%s%s)", id.rule, id.detail, strings.Join(where, ", "), more))
	}
	return lines
}
