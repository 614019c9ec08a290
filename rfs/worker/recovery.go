package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/snapshot"
)

// names is a list of field names that a mapping holds as a string or an array.
type names []string

func (n *names) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*n = names{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(n))
}

// sourceFilter is what a mapping leaves out of stored sources.
type sourceFilter struct {
	Includes names `json:"includes"`
	Excludes names `json:"excludes"`
	// OpenSearch 3 can filter the original, too, which is kept beside the source for recoveries.
	RecoveryIncludes names `json:"recovery_source_includes"`
	RecoveryExcludes names `json:"recovery_source_excludes"`
}

// filterOf returns the filter in the body of a mapping; the zero filter when it has none that can be read.
func filterOf(mapping json.RawMessage) sourceFilter {
	var m struct {
		Source sourceFilter `json:"_source"`
	}
	if json.Unmarshal(mapping, &m) != nil {
		return sourceFilter{}
	}
	return m.Source
}

func (f sourceFilter) empty() bool { return len(f.Includes)+len(f.Excludes) == 0 }

// whole reports whether the originals that are kept for recoveries are complete.
func (f sourceFilter) whole() bool { return len(f.RecoveryIncludes)+len(f.RecoveryExcludes) == 0 }

func (f sourceFilter) same(other sourceFilter) bool {
	equal := func(a, b names) bool {
		a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
		return slices.Equal(a, b)
	}
	return equal(f.Includes, other.Includes) && equal(f.Excludes, other.Excludes)
}

// filteredSource returns the filter of an index of the snapshot that leaves out parts of its sources while the
// originals may still be there.
func filteredSource(x *snapshot.Index) (sourceFilter, bool) {
	if len(x.Mappings) != 1 {
		return sourceFilter{}, false
	}
	f := filterOf(x.Mappings[0].Body)
	return f, !f.empty() && f.whole()
}

// sendsOriginals reports whether the originals of filtered sources (_recovery_source) are sent: when every target index
// leaves out the same parts. The target then indexes what the source had indexed, and stores what the source stored.
func (t *TargetIndices) sendsOriginals(ctx context.Context, x IndexPlan) (bool, error) {
	want, ok := filteredSource(x.Source)
	if ok && x.Entry.Rebuild.fields() {
		return true, nil // asked for, whatever the target leaves out
	}
	if !ok || t.Requester == nil {
		return false, nil
	}
	for _, name := range x.Entry.Naming.Targets() {
		path := "/" + url.PathEscape(name) + "/_mapping"
		status, answer, err := t.Requester.Do(ctx, http.MethodGet, path, nil, nil)
		if err != nil {
			return false, err
		}
		var indices map[string]struct {
			Mappings json.RawMessage `json:"mappings"`
		}
		if status != http.StatusOK || json.Unmarshal(answer, &indices) != nil {
			return false, fmt.Errorf("GET %s: status %d: %w", path, status, fault.ErrUnavailable)
		}
		for _, index := range indices {
			if !want.same(filterOf(index.Mappings)) {
				return false, nil
			}
		}
	}
	return true, nil
}
