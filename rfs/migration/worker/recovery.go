package worker

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// filteredSource returns the filter of an index of the snapshot that leaves out parts of its sources while the
// originals may still be there.
func filteredSource(x *snapshot.Index) (rebuild.SourceFilter, bool) {
	if len(x.Mappings) != 1 {
		return rebuild.SourceFilter{}, false
	}
	f := rebuild.SourceFilterOf(x.Mappings[0].Body)
	return f, !f.Empty() && f.Whole()
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
		if err := fault.Decode("GET "+path, status, answer, &indices); err != nil {
			return false, err
		}
		for _, index := range indices {
			if !want.Same(rebuild.SourceFilterOf(index.Mappings)) {
				return false, nil
			}
		}
	}
	return true, nil
}
