package metadata

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Join is a field of type join that replaces the relations between mapping types of Elasticsearch up to 5 (_parent).
type Join struct {
	Field   string            `json:"field"`   // its name
	Parents map[string]string `json:"parents"` // type of the parents, by the type of their children
}

// NewJoin returns the Join for the mappings of an index, nil if no type has parents. It returns fault.ErrConfig if a type is
// its own parent, or the index already has a field of that name.
func NewJoin(field string, mappings []Mapping) (*Join, error) {
	j := &Join{Field: field, Parents: map[string]string{}}
	var taken error
	for _, m := range mappings {
		var body struct {
			Parent struct {
				Type string `json:"type"`
			} `json:"_parent"`
			Properties map[string]json.RawMessage `json:"properties"`
		}
		if err := json.Unmarshal(m.Body, &body); err != nil {
			return nil, fmt.Errorf("mapping of type %s: %w: %w", m.Type, err, fault.ErrCorrupt)
		}
		for name := range body.Properties {
			if name == field || strings.HasPrefix(name, field+".") {
				taken = fmt.Errorf("type %s has a field %s already; give --parent-join another name: %w", m.Type, name, fault.ErrConfig)
			}
		}
		if body.Parent.Type != "" {
			j.Parents[m.Type] = body.Parent.Type
		}
	}
	if len(j.Parents) == 0 {
		return nil, nil
	}
	if taken != nil {
		return nil, taken
	}
	for child := range j.Parents {
		at := child
		for range j.Parents {
			at = j.Parents[at]
		}
		if _, circle := j.Parents[at]; circle {
			return nil, fmt.Errorf("type %s is its own ancestor (_parent), which no join field can be: leave --parent-join out: %w", child, fault.ErrConfig)
		}
	}
	return j, nil
}

// Related returns the types whose documents are parents or children.
func (j *Join) Related() map[string]bool {
	related := map[string]bool{}
	for child, parent := range j.Parents {
		related[child], related[parent] = true, true
	}
	return related
}

// relations returns the types of the children by the type of their parents, in the form of a mapping.
func (j *Join) relations() map[string]any {
	children := map[string][]string{}
	for _, child := range keys(j.Parents) {
		children[j.Parents[child]] = append(children[j.Parents[child]], child)
	}
	relations := map[string]any{}
	for parent, list := range children {
		relations[parent] = list
	}
	return relations
}

// join adds the join field to the mapping of an index.
func (e *edit) join(mapping map[string]any, j *Join) map[string]any {
	if j == nil {
		return mapping
	}
	if mapping == nil {
		mapping = map[string]any{}
	}
	props, ok := mapping["properties"].(map[string]any)
	if !ok {
		props = map[string]any{}
		mapping["properties"] = props
	}
	relations := j.relations()
	props[j.Field] = map[string]any{"type": "join", "relations": relations}
	e.note("parent-join", j.Field, "a join field instead of _parent, with the relations %s; ids are <type>#<id>, also for parents, and each related document "+
		"is routed as at the source: by its routing, else by the id of its parent, else by its own id without the type", Brief(relations))
	return mapping
}
