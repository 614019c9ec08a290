package creation

import (
	"context"
	"encoding/json"
	"net/url"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
)

// sendsOriginals reports whether the originals of filtered sources (_recovery_source) are sent: if every target index filters the same
// parts, the target indexes what the source indexed and stores what the source stored.
func (t *Indices) sendsOriginals(ctx context.Context, x plan.Index) (bool, error) {
	want, ok := plan.FilteredSource(x.Source)
	if ok && x.Entry.Rebuild.UsesFields() {
		return true, nil // requested, regardless of the target's filter
	}
	if !ok || t.Requester == nil {
		return false, nil
	}
	for _, name := range x.Entry.Naming.Targets() {
		var indices map[string]struct {
			Mappings json.RawMessage `json:"mappings"`
		}
		if err := rest.Get(ctx, t.Requester, "/"+url.PathEscape(name)+"/_mapping", nil, &indices); err != nil {
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
