package target

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// SetAliases adds aliases to an index. aliases is an object by alias name, in the form of "aliases" in a request to
// create an index. All are set, or none.
func (c *Client) SetAliases(ctx context.Context, index string, aliases json.RawMessage) error {
	var all map[string]map[string]any
	if err := json.Unmarshal(aliases, &all); err != nil {
		return fmt.Errorf("aliases of %s: %w", index, err)
	}
	actions := make([]any, 0, len(all))
	for name, a := range all {
		add := map[string]any{"index": index, "alias": name}
		for k, v := range a {
			add[k] = v
		}
		actions = append(actions, map[string]any{"add": add})
	}
	body, err := json.Marshal(map[string]any{"actions": actions})
	if err != nil {
		return fmt.Errorf("aliases of %s: %w", index, err)
	}
	return c.call(ctx, http.MethodPost, "/_aliases", nil, body, nil)
}

// UnfitAliases returns the aliases that cannot receive documents, with the reason and the remedy: aliases of
// several indices, and aliases with a routing or a filter.
func (c *Client) UnfitAliases(ctx context.Context, names []string) (map[string]string, error) {
	behind := map[string]map[string]json.RawMessage{} // name, index
	for _, name := range names {
		behind[name] = map[string]json.RawMessage{}
	}
	query := url.Values{"ignore_unavailable": {"true"}, "allow_no_indices": {"true"}}
	aliases := "/_alias"
	if c.serverless { // collections omit the options of the alias
		aliases = ""
	}
	for _, path := range rest.InParts(names) {
		var answer map[string]struct{ Aliases map[string]json.RawMessage }
		err := c.get(ctx, path+aliases, query, &answer)
		if fault.HasStatus(err, http.StatusNotFound) {
			continue // none of the names exists
		}
		if err != nil {
			return nil, err
		}
		for index, x := range answer {
			for alias, options := range x.Aliases {
				if behind[alias] != nil {
					behind[alias][index] = options
				}
			}
		}
	}
	found := map[string]string{}
	for name, indices := range behind {
		if why := unfit(name, indices); why != "" {
			found[name] = why
		}
	}
	return found, nil
}

// unfit returns the reason why an alias cannot receive documents, "" if it can. behind is its options by index.
func unfit(name string, behind map[string]json.RawMessage) string {
	const remedy = "name an index, such as with --index-rename"
	if len(behind) > 1 {
		return fmt.Sprintf("%s is an alias of %d indices of the target: documents need one index: %s", name, len(behind), remedy)
	}
	for index, options := range behind {
		var set map[string]json.RawMessage
		if index == name || json.Unmarshal(options, &set) != nil {
			return ""
		}
		maps.DeleteFunc(set, func(key string, _ json.RawMessage) bool {
			return key != "filter" && !strings.HasSuffix(key, "routing")
		})
		if len(set) > 0 {
			return fmt.Sprintf("%s is an alias of index %s with %s, which documents would get or be counted by: %s",
				name, index, strings.Join(slices.Sorted(maps.Keys(set)), " and "), remedy)
		}
	}
	return ""
}
