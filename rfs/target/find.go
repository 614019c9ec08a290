package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rfsd/rfsd/rfs/bulk"
)

var _ bulk.Finder = (*Client)(nil)

// Sources reads documents by their ids, also those that searches do not find yet; see bulk.Finder. A document that is too
// long for an answer counts as not shown.
func (c *Client) Sources(ctx context.Context, keys []bulk.Key) ([][]byte, error) {
	body, err := json.Marshal(map[string]any{"docs": keys})
	if err != nil {
		return nil, fmt.Errorf("documents to be read: %w", err)
	}
	var answer struct {
		Docs []struct {
			Found  bool            `json:"found"`
			Source json.RawMessage `json:"_source"`
		} `json:"docs"`
	}
	err = c.call(ctx, http.MethodPost, "/_mget", nil, body, &answer)
	if errors.Is(err, errLongAnswer) {
		if len(keys) == 1 {
			return [][]byte{nil}, nil
		}
		half := len(keys) / 2
		first, err := c.Sources(ctx, keys[:half])
		if err != nil {
			return nil, err
		}
		rest, err := c.Sources(ctx, keys[half:])
		return append(first, rest...), err
	}
	if err != nil {
		return nil, err
	}
	if len(answer.Docs) != len(keys) {
		return nil, fmt.Errorf("POST /_mget: %s: %w", c.name, errSum("it speaks of %d documents of %d", len(answer.Docs), len(keys)))
	}
	sources := make([][]byte, len(keys))
	for i, d := range answer.Docs {
		if d.Found && len(d.Source) > 0 {
			sources[i] = d.Source
		}
	}
	return sources, nil
}
