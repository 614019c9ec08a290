package creation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// Recorded is a Cluster that records the body of each index that it creates.
type Recorded struct {
	objects.Cluster
	Bodies map[string][]byte
}

// CreateIndex creates an index and records the body.
func (r Recorded) CreateIndex(ctx context.Context, name string, body []byte) error {
	err := r.Cluster.CreateIndex(ctx, name, body)
	if err == nil {
		r.Bodies[name] = body
	}
	return err
}

// readBack compares created indices with the request, because templates of the target add settings, fields and aliases. The result is only
// reported, so an index that cannot be read is only logged. Aliases that are withheld (late) are not a difference: withhold removes them.
func (t *Indices) readBack(ctx context.Context, asked map[string][]byte, late map[string]json.RawMessage) []metadata.Change {
	var all []metadata.Change
	for name, body := range asked {
		found, err := t.differences(ctx, name, body)
		if err != nil {
			t.Log.WarnContext(ctx, "a created index could not be read back", "index", name, "reason", err.Error())
		}
		waiting := AliasNames(late[name])
		all = append(all, slices.DeleteFunc(found, func(c metadata.Change) bool {
			alias, ok := strings.CutPrefix(c.Path, "aliases.")
			return ok && waiting[alias] != nil
		})...)
	}
	logChanges(ctx, t.Log, all)
	return all
}

func (t *Indices) differences(ctx context.Context, name string, body []byte) ([]metadata.Change, error) {
	if t.Requester == nil {
		return nil, nil
	}
	var answer json.RawMessage
	if err := rest.Get(ctx, t.Requester, "/"+url.PathEscape(name), nil, &answer); err != nil {
		return nil, err
	}
	return objects.Differences(body, answer)
}

// withhold removes withheld aliases that a template has set: applications would read incomplete indices. They are set when the documents
// are complete.
func (t *Indices) withhold(ctx context.Context, late map[string]json.RawMessage) error {
	if t.Requester == nil {
		return nil
	}
	for name, aliases := range late {
		waiting := AliasNames(aliases)
		if len(waiting) == 0 {
			continue
		}
		var indices map[string]struct {
			Aliases map[string]json.RawMessage `json:"aliases"`
		}
		if err := rest.Get(ctx, t.Requester, "/"+url.PathEscape(name), url.Values{"filter_path": {"*.aliases"}}, &indices); err != nil {
			return err
		}
		var early []string
		for alias := range indices[name].Aliases {
			if waiting[alias] != nil {
				early = append(early, alias)
			}
		}
		if len(early) == 0 {
			continue
		}
		if err := t.removeAliases(ctx, name, early...); err != nil {
			return fmt.Errorf("remove early aliases of index %s: %w", name, err)
		}
		t.Log.InfoContext(ctx, "aliases that a template set are withheld until all documents have arrived", "index", name, "aliases", len(early))
	}
	return nil
}

// AliasNames returns the members of an aliases object by name; nil if it cannot be decoded.
func AliasNames(aliases json.RawMessage) (m map[string]json.RawMessage) {
	if json.Unmarshal(aliases, &m) != nil {
		return nil
	}
	return m
}
