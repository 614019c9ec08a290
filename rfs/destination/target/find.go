package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

var _ bulk.Finder = (*Client)(nil)

// Find returns documents by their ids, including documents that are not yet visible to searches; see bulk.Finder. The source of a
// document too long for an answer is nil.
func (c *Client) Find(ctx context.Context, keys []bulk.Key) ([]bulk.Found, error) {
	body, err := json.Marshal(map[string]any{"docs": keys})
	if err != nil {
		return nil, fmt.Errorf("documents to be read: %w", err)
	}
	const path = "/_mget"
	method := http.MethodPost
	if c.serverless {
		method = http.MethodGet
	}
	status, answer, err := c.Do(ctx, method, path, nil, body)
	if errors.Is(err, errLongAnswer) {
		if len(keys) == 1 {
			return []bulk.Found{{}}, nil
		}
		half := len(keys) / 2
		first, err := c.Find(ctx, keys[:half])
		if err != nil {
			return nil, err
		}
		rest, err := c.Find(ctx, keys[half:])
		return append(first, rest...), err
	}
	if err == nil {
		err = c.classifyError(method+" "+path, status, answer)
	}
	if err != nil {
		return nil, err
	}
	found, err := foundDocuments(answer)
	if err != nil {
		return nil, fmt.Errorf("POST %s: answer of %s: %w: %w", path, c.name, err, fault.ErrUnavailable)
	}
	if len(found) != len(keys) {
		return nil, fmt.Errorf("POST %s: %s: %w", path, c.name, errSum("it speaks of %d documents of %d", len(found), len(keys)))
	}
	return found, nil
}

// foundDocuments returns the documents of a response, and a zero Found for each missing one. The response is not plain JSON
// if a source has comments or a byte order mark.
func foundDocuments(answer []byte) (all []bulk.Found, err error) {
	s := scanner{b: answer}
	err = s.object(func(key []byte) error {
		if string(key) != "docs" {
			_, err := s.raw()
			return err
		}
		return s.array(func() error {
			var x bulk.Found
			err := s.object(func(key []byte) (err error) {
				switch string(key) {
				case "_source":
					x.Source, err = s.source()
					return err
				case "_routing":
					s.space()
					text, err := s.textOrNull()
					if err != nil {
						return err
					}
					x.Routing, _ = unquoted(text)
					return nil
				}
				raw, err := s.raw()
				switch string(key) {
				case "found":
					x.There = string(raw) == "true"
				case "_version":
					x.Version, _ = strconv.ParseInt(string(raw), 10, 64)
				}
				return err
			})
			if !x.There {
				x = bulk.Found{}
			}
			all = append(all, x)
			return err
		})
	})
	return all, err
}
