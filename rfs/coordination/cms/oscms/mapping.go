package oscms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// mapping holds the parts of an index mapping that searches for open items depend on.
type mapping struct {
	Dynamic    any `json:"dynamic"` // true, false, "strict", "runtime"; absent is true
	Properties map[string]struct {
		Type  string `json:"type"`
		Index *bool  `json:"index"`
	} `json:"properties"`
}

// searched are the fields of items that searches use.
var searched = []string{"expiration", "completedAt"}

// check returns an error when items in an index with this mapping cannot be found.
func (m mapping) check() error {
	for _, field := range searched {
		p, there := m.Properties[field]
		dynamic := m.Dynamic == nil || m.Dynamic == true || m.Dynamic == jsonTrue
		switch {
		case !there && !dynamic:
			return fmt.Errorf("%s is not mapped, and the index maps no new fields (dynamic: %v)", field, m.Dynamic)
		case !there:
		case p.Type != "long" && p.Type != "integer" && p.Type != "date":
			return fmt.Errorf("%s is mapped as %q, want a number", field, p.Type)
		case p.Index != nil && !*p.Index:
			return fmt.Errorf("%s is not indexed", field)
		}
	}
	return nil
}

// checkMapping returns a fault.ErrConfig when an index of items was created by something else with a mapping under which no item is ever
// found.
func (s *Store) checkMapping(ctx context.Context, index string) error {
	answer, err := s.request(ctx, http.MethodGet, "/"+index+"/_mapping", nil, nil)
	switch {
	case errors.Is(err, fault.ErrUnavailable):
		return fmt.Errorf("mapping of %s: %w", index, err)
	case err != nil:
		return nil // a user who may not read it may still use the index
	}
	var a map[string]struct {
		Mappings json.RawMessage `json:"mappings"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return fmt.Errorf("mapping of %s: %w: %w", index, err, fault.ErrUnavailable)
	}
	for _, x := range a {
		m, err := decodeMapping(x.Mappings)
		if err == nil {
			err = m.check()
		}
		if err != nil {
			return fmt.Errorf("index %s exists and cannot hold the work items: %w; delete it, or use another session (--session-name): %w", index, err, fault.ErrConfig)
		}
	}
	return nil
}

// decodeMapping decodes a mapping. Before 7.0 it is nested under a type name.
func decodeMapping(raw json.RawMessage) (m mapping, err error) {
	var typed map[string]json.RawMessage
	if err := json.Unmarshal(raw, &typed); err != nil {
		return m, fmt.Errorf("its mapping is not an object: %w", err)
	}
	_, hasDynamic := typed["dynamic"]
	_, hasProperties := typed["properties"]
	if len(typed) == 1 && !hasDynamic && !hasProperties {
		for _, inner := range typed {
			if json.Unmarshal(inner, &m) == nil && (m.Properties != nil || m.Dynamic != nil) {
				return m, nil
			}
		}
		m = mapping{}
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return m, fmt.Errorf("its mapping cannot be read: %w", err)
	}
	return m, nil
}
