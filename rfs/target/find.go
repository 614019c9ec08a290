package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/fault"
)

var _ bulk.Finder = (*Client)(nil)

// Sources reads documents by their ids, also those that searches do not find yet; see bulk.Finder. A document that is too
// long for an answer counts as not shown.
func (c *Client) Sources(ctx context.Context, keys []bulk.Key) ([][]byte, error) {
	body, err := json.Marshal(map[string]any{"docs": keys})
	if err != nil {
		return nil, fmt.Errorf("documents to be read: %w", err)
	}
	const path = "/_mget"
	status, answer, err := c.Do(ctx, http.MethodPost, path, nil, body)
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
	if err == nil {
		err = c.classifyError("POST "+path, status, answer)
	}
	if err != nil {
		return nil, err
	}
	sources, err := foundSources(answer)
	if err != nil {
		return nil, fmt.Errorf("POST %s: answer of %s: %w: %w", path, c.name, err, fault.ErrUnavailable)
	}
	if len(sources) != len(keys) {
		return nil, fmt.Errorf("POST %s: %s: %w", path, c.name, errSum("it speaks of %d documents of %d", len(sources), len(keys)))
	}
	return sources, nil
}

// foundSources returns the source of each document of an answer; nil for one that was not found. The answer is no plain JSON where
// a source has comments or a byte order mark.
func foundSources(answer []byte) (sources [][]byte, err error) {
	s := scanner{b: answer}
	err = s.object(func(key []byte) error {
		if string(key) != "docs" {
			_, err := s.raw()
			return err
		}
		return s.array(func() error {
			var found bool
			var source []byte
			err := s.object(func(key []byte) (err error) {
				if string(key) == "_source" {
					source, err = s.source()
					return err
				}
				raw, err := s.raw()
				found = found || string(key) == "found" && string(raw) == "true"
				return err
			})
			if !found {
				source = nil
			}
			sources = append(sources, source)
			return err
		})
	})
	return sources, err
}
