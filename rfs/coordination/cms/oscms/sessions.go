package oscms

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Sessions returns the names of the sessions in a cluster, sorted; "" is the common one.
func Sessions(ctx context.Context, client rest.API) ([]string, error) {
	const prefix = ".rfs_control"
	path := "/" + prefix + "*/_settings"
	query := url.Values{"expand_wildcards": {"all"}, "filter_path": {"*.settings.index.uuid"}}
	var indices map[string]json.RawMessage
	err := rest.Get(ctx, client, path, query, &indices)
	if fault.HasStatus(err, http.StatusNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var all []string
	for index := range indices {
		name, named := strings.CutPrefix(strings.TrimPrefix(index, prefix), "_")
		if cms.CheckSession(name) == nil && (named && name != "" || index == prefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, nil
}
