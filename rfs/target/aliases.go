package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// SetAliases adds aliases to an index: an object by alias name, as it stands below
// "aliases" when an index is created. Either all are set or none.
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
