package api

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write openapi.json from the routes and types")

// schemas collects the schemas of named types while it describes them.
type schemas map[string]any

func (s schemas) of(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{"type": "object"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		inner := s.of(t.Elem())
		return map[string]any{"oneOf": []any{inner, map[string]any{"type": "null"}}}
	case reflect.Slice:
		return map[string]any{"type": "array", "items": s.of(t.Elem())}
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": s.of(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	case reflect.Struct:
		name := t.PkgPath()[strings.LastIndex(t.PkgPath(), "/")+1:] + "." + t.Name()
		if _, known := s[name]; !known {
			s[name] = nil // it may hold itself
			s[name] = s.object(t)
		}
		return map[string]any{"$ref": "#/components/schemas/" + name}
	}
	panic("no schema of " + t.String())
}

func (s schemas) object(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous && f.Type.Kind() == reflect.Struct { // its fields follow
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		if name == "" {
			panic(t.String() + "." + f.Name + " has no name in JSON")
		}
		properties[name] = s.of(f.Type)
		if !strings.Contains(options, "omitempty") && !strings.Contains(options, "omitzero") {
			required = append(required, name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

func describeAll() map[string]any {
	all, paths := schemas{}, map[string]any{}
	content := func(v any) map[string]any {
		return map[string]any{"application/json": map[string]any{"schema": all.of(reflect.TypeOf(v))}}
	}
	refusal := map[string]any{"description": "why not", "content": content(Failed{})}
	for _, r := range routes() {
		path := strings.TrimSuffix(r.path, "{$}")
		good := map[string]any{"description": r.summary}
		if r.answer != nil {
			good["content"] = content(r.answer)
		}
		op := map[string]any{"summary": r.summary, "x-roles": r.roles, "responses": map[string]any{"200": good, "default": refusal}}
		var parameters []any
		for _, name := range r.query {
			kind := "string"
			if name == "limit" {
				kind = "integer"
			}
			parameters = append(parameters, map[string]any{"name": name, "in": "query", "schema": map[string]any{"type": kind}})
		}
		if strings.Contains(path, "{file}") {
			parameters = append(parameters, map[string]any{"name": "file", "in": "path", "required": true, "schema": map[string]any{"type": "string"}})
		}
		if parameters != nil {
			op["parameters"] = parameters
		}
		if r.body != nil {
			op["requestBody"] = map[string]any{"content": content(r.body)}
		}
		paths[path] = map[string]any{strings.ToLower(r.method): op}
	}
	return map[string]any{
		"openapi": "3.1.0", "info": map[string]any{"title": "rfsd: one node of a migration", "version": "1"},
		"paths": paths, "components": map[string]any{"schemas": all},
	}
}

func TestTheDescriptionIsWhatTheRouterAndTheTypesSay(t *testing.T) {
	want, err := json.MarshalIndent(describeAll(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if string(description) != string(want) {
		t.Error("openapi.json is not what the code states; go test ./daemon/api -update writes it")
	}
}
