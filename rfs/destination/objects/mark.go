package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Mark is the mark on objects that a session creates, set by the creating request itself. The session removes and changes
// only objects with its mark, regardless of the records in the coordination store. The zero Mark matches no object.
type Mark struct {
	Session string // its name
	Token   string // unique to this session: cms.Store.Incarnation
}

// Kinds of marked objects, in addition to the kinds of cluster-wide objects.
const (
	IndexMark   = "index"
	ScratchMark = "scratch" // an index that contains only copies
)

// markKey is the key of a mark in the _meta of an object.
const markKey = "rfsd"

// carried is the form of a mark in an object. It names the object, since indices that other clients create inherit the
// mappings of a marked template.
type carried struct {
	Session string `json:"session"`
	Kind    string `json:"kind"`
	Name    string `json:"name"`
	Token   string `json:"mark"`
}

func (m Mark) carried(kind, name string) carried { return carried{m.Session, kind, name, m.Token} }

// CanCarry reports whether objects of a kind can have a mark. Stored scripts cannot.
func CanCarry(kind string) bool { return kind != string(metadata.Script) }

// Put returns the body of a request to create an object, with the mark added. Other keys of _meta, and the user's description,
// stay.
func (m Mark) Put(kind, name string, body json.RawMessage) (json.RawMessage, error) {
	if m.Token == "" || !CanCarry(kind) {
		return body, nil
	}
	object, err := metadata.DecodeObject(body)
	if err != nil {
		return nil, fmt.Errorf("mark of %s %s: %w", kind, name, err)
	}
	switch metadata.Kind(kind) {
	case metadata.Pipeline:
		err = m.describe(kind, name, object)
	case metadata.Policy, metadata.StatePolicy:
		err = m.describe(kind, name, child(object, "policy"))
	case metadata.ComponentTemplate, metadata.IndexTemplate:
		m.meta(kind, name, object)
	default:
		m.meta(kind, name, child(object, "mappings"))
	}
	if err != nil {
		return nil, err
	}
	return json.Marshal(object)
}

// child returns the object in[key], which it creates if it is missing.
func child(in map[string]any, key string) map[string]any {
	out, ok := in[key].(map[string]any)
	if !ok {
		out = map[string]any{}
		in[key] = out
	}
	return out
}

func (m Mark) meta(kind, name string, in map[string]any) {
	child(in, "_meta")[markKey] = m.carried(kind, name)
}

// described is the start of a mark in a description, for objects without _meta.
const described = "rfsd:{"

func (m Mark) describe(kind, name string, in map[string]any) error {
	mark, err := json.Marshal(m.carried(kind, name))
	if err != nil {
		return fmt.Errorf("mark of %s %s: %w", kind, name, err)
	}
	text, _ := in["description"].(string)
	if i := strings.LastIndex(text, described); i >= 0 { // of an earlier migration
		text = text[:i]
	}
	in["description"] = strings.TrimLeft(strings.TrimRight(text, " ")+" rfsd:", " ") + string(mark)
	return nil
}

// Matches reports whether an object has the mark. object is an index with its mappings (the oldest backing index of a data stream), or
// the result of Object.
func (m Mark) Matches(kind, name string, object json.RawMessage) bool {
	is, ok := read(kind, object)
	return ok && m.Token != "" && is == m.carried(kind, name)
}

// OtherName returns the name of the session in the mark of an object that matches except for this name; "" for any other object.
func (m Mark) OtherName(kind, name string, object json.RawMessage) string {
	is, ok := read(kind, object)
	if m.Session = is.Session; !ok || m.Token == "" || is != m.carried(kind, name) {
		return ""
	}
	return is.Session
}

// read returns the mark of an object; ok is false if it has none.
func read(kind string, object json.RawMessage) (mark carried, ok bool) {
	type meta struct {
		Mark *carried `json:"rfsd"`
	}
	var x struct {
		Meta        meta `json:"_meta"`
		Description string
		Mappings    struct {
			Meta meta `json:"_meta"`
		}
	}
	if json.Unmarshal(object, &x) != nil {
		return carried{}, false
	}
	is := x.Mappings.Meta.Mark
	switch metadata.Kind(kind) {
	case metadata.ComponentTemplate, metadata.IndexTemplate:
		is = x.Meta.Mark
	case metadata.Pipeline, metadata.Policy, metadata.StatePolicy:
		is = nil
		if i := strings.LastIndex(x.Description, described); i >= 0 {
			is = new(carried)
			if json.Unmarshal([]byte(x.Description[i+len(described)-1:]), is) != nil {
				return carried{}, false
			}
		}
	}
	if is == nil {
		return carried{}, false
	}
	return *is, true
}

// MarkStream adds the mark to the backing index of a newly created data stream, since the request that creates a stream
// has no body. Other keys of its _meta stay. A stream with several backing indices gets no mark.
func MarkStream(ctx context.Context, c rest.API, name string, m Mark) error {
	stream, err := FindStream(ctx, c, name)
	if err != nil || stream == nil || len(stream.Indices) != 1 || m.Token == "" {
		return err
	}
	var answer map[string]struct {
		Mappings struct {
			Meta map[string]any `json:"_meta"`
		} `json:"mappings"`
	}
	index := stream.Indices[0]
	path := "/" + url.PathEscape(index) + "/_mapping"
	if err := rest.Get(ctx, c, path, nil, &answer); err != nil {
		return err
	}
	mapping := map[string]any{}
	if all := answer[index].Mappings.Meta; len(all) > 0 {
		mapping["_meta"] = all
	}
	m.meta(string(metadata.DataStream), name, mapping)
	body, err := json.Marshal(mapping)
	if err != nil {
		return fmt.Errorf("mark of data stream %s: %w", name, err)
	}
	return rest.Call(ctx, c, http.MethodPut, path, nil, body, nil)
}
