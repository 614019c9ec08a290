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
)

// Sessions returns the names of the sessions in a cluster, sorted; "" is the common one.
func Sessions(ctx context.Context, client Client) ([]string, error) {
	const prefix = ".rfs_control"
	path := "/" + prefix + "*/_settings"
	query := url.Values{"expand_wildcards": {"all"}, "filter_path": {"*.settings.index.uuid"}}
	status, answer, err := client.Do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	if status == http.StatusNotFound {
		return nil, nil
	}
	if err := fault.CheckStatus("GET "+path, status, answer); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var indices map[string]json.RawMessage
	if err := json.Unmarshal(answer, &indices); err != nil {
		return nil, fmt.Errorf("list sessions: GET %s: %w: %w", path, err, fault.ErrUnavailable)
	}
	var all []string
	for index := range indices {
		name, named := strings.CutPrefix(strings.TrimPrefix(index, prefix), "_")
		if session.MatchString(name) && (named && name != "" || index == prefix) {
			all = append(all, name)
		}
	}
	slices.Sort(all)
	return all, nil
}
