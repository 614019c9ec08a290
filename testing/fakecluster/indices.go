package fakecluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// index is an index with its documents.
type index struct {
	name     string
	settings map[string]string // flat, with "index."
	mappings map[string]any
	aliases  map[string]map[string]any
	shards   []*shard
}

// behind returns the indices of a name, a list of names or a pattern.
func (c *Cluster) behind(names string) (all []*index, missing string) {
	for name := range strings.SplitSeq(names, ",") {
		found := false
		for _, n := range slices.Sorted(maps.Keys(c.indices)) {
			x := c.indices[n]
			_, alias := x.aliases[name]
			is := n == name || alias || name == "_all"
			if strings.Contains(name, "*") {
				is, _ = path.Match(name, n)
				found = true
			}
			if is {
				found = true
				all = append(all, x)
			}
		}
		if !found && missing == "" {
			missing = name
		}
	}
	return all, missing
}

// one answers requests for an index by its name alone.
func (c *Cluster) one(method, name string, q url.Values, body []byte) (answer, bool) {
	all, missing := c.behind(name)
	switch method {
	case http.MethodPut:
		return c.create(name, body), true
	case http.MethodHead, http.MethodGet:
		if missing != "" && q.Get("ignore_unavailable") != "true" {
			return noIndex(missing), true
		}
		answer := object{}
		for _, x := range all {
			answer[x.name] = object{"settings": x.listed(q.Get("flat_settings") == "true", ""), "mappings": x.mappings, "aliases": x.aliases}
		}
		return ok(answer), true
	case http.MethodDelete:
		strict := q.Get("expand_wildcards") != "none" || q.Get("ignore_unavailable") == "false" && q.Get("allow_no_indices") == "false"
		switch {
		case missing != "" && strict:
			return noIndex(missing), true
		case missing != "":
			return ok(acknowledged), true
		}
		for _, x := range all {
			if x.name != name && !strings.Contains(name, x.name) {
				return failure(http.StatusBadRequest, "illegal_argument_exception", "The provided expression ["+name+"] matches an alias, specify the corresponding concrete indices instead."), true
			}
			delete(c.indices, x.name)
		}
		return ok(acknowledged), true
	}
	return answer{}, false
}

// flatten adds the values of nested settings by their whole key.
func flatten(into map[string]string, prefix string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			flatten(into, strings.TrimPrefix(prefix+"."+key, "."), value)
		}
	case nil:
	default:
		if !strings.HasPrefix(prefix, "index.") {
			prefix = "index." + prefix
		}
		into[prefix] = text(v)
	}
}

// create creates an index from the matching templates and a body.
func (c *Cluster) create(name string, body []byte) answer {
	if all, _ := c.behind(name); len(all) > 0 {
		return failure(http.StatusBadRequest, "resource_already_exists_exception", "index ["+name+"] already exists", "index", name)
	}
	type form struct {
		Settings map[string]any
		Mappings map[string]any
		Aliases  map[string]map[string]any
	}
	c.uuids++
	x := &index{name: name, mappings: map[string]any{}, aliases: map[string]map[string]any{}, settings: map[string]string{
		"index.number_of_shards": "1", "index.number_of_replicas": "1", "index.uuid": fmt.Sprintf("uuid-%d", c.uuids), "index.provided_name": name,
		"index.creation_date": strconv.FormatInt(time.Now().UnixMilli(), 10), "index.version.created": "136408127",
	}}
	apply := func(raw []byte) error {
		var f form
		if len(raw) == 0 {
			return nil
		}
		if err := json.Unmarshal(raw, &f); err != nil {
			return err
		}
		flatten(x.settings, "", f.Settings)
		merge(x.mappings, f.Mappings)
		maps.Copy(x.aliases, f.Aliases)
		return nil
	}
	for _, key := range slices.Sorted(maps.Keys(c.objects)) {
		var t struct {
			Patterns []string `json:"index_patterns"`
			Template json.RawMessage
		}
		fits := func() bool {
			return json.Unmarshal(c.objects[key], &t) == nil && slices.ContainsFunc(t.Patterns, func(p string) bool { is, _ := path.Match(p, name); return is })
		}
		var err error
		switch place, _, _ := strings.Cut(key, "/"); {
		case place == "_template" && fits():
			err = apply(c.objects[key])
		case place == "_index_template" && fits():
			err = apply(t.Template)
		}
		if err != nil {
			return failure(http.StatusBadRequest, "illegal_argument_exception", err.Error())
		}
	}
	if err := apply(body); err != nil {
		return failure(http.StatusBadRequest, "parse_exception", err.Error())
	}
	n, err := strconv.Atoi(x.settings["index.number_of_shards"])
	if err != nil || n < 1 || n > 1024 {
		return failure(http.StatusBadRequest, "illegal_argument_exception", "number_of_shards")
	}
	for range n {
		x.shards = append(x.shards, &shard{docs: map[string]*document{}, max: -1})
	}
	c.indices[name] = x
	return ok(object{"acknowledged": true, "shards_acknowledged": true, "index": name})
}

// merge merges from into into, recursively.
func merge(into, from map[string]any) {
	for key, v := range from {
		was, isObject := into[key].(map[string]any)
		is, both := v.(map[string]any)
		if isObject && both {
			merge(was, is)
			continue
		}
		into[key] = v
	}
}

// listed returns the settings as in a response: flat or nested, and only those that match key unless it is "".
func (x *index) listed(flat bool, key string) any {
	out := map[string]any{}
	for k, v := range x.settings {
		if key != "" && key != k {
			if is, _ := path.Match(key, k); !is {
				continue
			}
		}
		if flat {
			out[k] = v
			continue
		}
		at := out
		parts := strings.Split(k, ".")
		for _, part := range parts[:len(parts)-1] {
			next, is := at[part].(map[string]any)
			if !is {
				next = map[string]any{}
				at[part] = next
			}
			at = next
		}
		at[parts[len(parts)-1]] = v
	}
	return out
}

// within answers requests for a part of an index.
func (c *Cluster) within(method, name string, parts []string, q url.Values, body []byte) (answer, bool) {
	what := parts[0]
	if what == "_bulk" {
		return c.bulk(name, q, body), true
	}
	if what == "_doc" && len(parts) == 2 {
		return c.single(method, name, parts[1], q, body)
	}
	all, missing := c.behind(name)
	if missing != "" && q.Get("ignore_unavailable") != "true" {
		return noIndex(missing), true
	}
	if strings.Join(parts, "/") == "_search/point_in_time" && method == http.MethodPost {
		return c.openReading(all, q)
	}
	counted := object{"total": len(all), "successful": len(all), "failed": 0}
	switch method + " " + what {
	case "GET _settings":
		key := ""
		if len(parts) > 1 {
			key = parts[1]
		}
		out := object{}
		for _, x := range all {
			if s := x.listed(q.Get("flat_settings") == "true", key); len(s.(map[string]any)) > 0 {
				out[x.name] = object{"settings": s}
			}
		}
		return ok(out), true
	case "PUT _settings":
		var change map[string]any
		if err := json.Unmarshal(body, &change); err != nil {
			return failure(http.StatusBadRequest, "parse_exception", err.Error()), true
		}
		for _, x := range all {
			x.set(change)
		}
		return ok(acknowledged), true
	case "GET _mapping":
		out := object{}
		for _, x := range all {
			out[x.name] = object{"mappings": x.mappings}
		}
		return ok(out), true
	case "PUT _mapping":
		var change map[string]any
		if err := json.Unmarshal(body, &change); err != nil {
			return failure(http.StatusBadRequest, "parse_exception", err.Error()), true
		}
		for _, x := range all {
			merge(x.mappings, change)
		}
		return ok(acknowledged), true
	case "GET _alias":
		out := object{}
		for _, x := range all {
			out[x.name] = object{"aliases": x.aliases}
		}
		return ok(out), true
	case "POST _refresh", "POST _flush":
		return ok(object{"_shards": counted}), true
	case "GET _count", "POST _count":
		return ok(object{"count": count(all, strings.Contains(string(body), `"_routing"`)), "_shards": counted}), true
	case "GET _stats":
		return ok(stats(all, counted)), true
	}
	return answer{}, false
}

func (x *index) set(change map[string]any) {
	for key, v := range change {
		if inner, is := v.(map[string]any); is {
			flatten(x.settings, strings.TrimSuffix(key, "."), inner)
			continue
		}
		if !strings.HasPrefix(key, "index.") {
			key = "index." + key
		}
		if v == nil {
			delete(x.settings, key)
			continue
		}
		x.settings[key] = text(v)
	}
}

// count returns the number of documents, or of those with a routing.
func count(all []*index, routed bool) (n int) {
	for _, x := range all {
		for _, s := range x.shards {
			for _, d := range s.docs {
				if !routed || d.routing != "" {
					n++
				}
			}
		}
	}
	return n
}

func stats(all []*index, counted object) object {
	indices := object{}
	for _, x := range all {
		shards := object{}
		for i, s := range x.shards {
			shards[strconv.Itoa(i)] = []any{object{
				"routing": object{"primary": true, "state": "STARTED"}, "docs": object{"count": len(s.docs), "deleted": 0},
				"seq_no":   object{"max_seq_no": s.max, "local_checkpoint": s.max, "global_checkpoint": s.max},
				"indexing": object{"delete_total": s.deletes, "index_total": s.max + 1},
			}}
		}
		docs := object{"docs": object{"count": count([]*index{x}, false), "deleted": 0}}
		indices[x.name] = object{"uuid": x.settings["index.uuid"], "primaries": docs, "total": docs, "shards": shards}
	}
	docs := object{"docs": object{"count": count(all, false), "deleted": 0}}
	return object{"_shards": counted, "_all": object{"primaries": docs, "total": docs}, "indices": indices}
}

// changeAliases applies all add and remove actions, or none of them.
func (c *Cluster) changeAliases(body []byte) answer {
	var request struct {
		Actions []map[string]map[string]any
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return failure(http.StatusBadRequest, "parse_exception", err.Error())
	}
	type change struct {
		x     *index
		alias string
		to    map[string]any
	}
	var changes []change
	for _, action := range request.Actions {
		for op, a := range action {
			name, alias := text(a["index"]), text(a["alias"])
			x := c.indices[name]
			if x == nil {
				return noIndex(name)
			}
			if op != "add" && op != "remove" {
				return failure(http.StatusBadRequest, "illegal_argument_exception", op)
			}
			var to map[string]any
			if op == "add" {
				to = maps.Clone(a)
				maps.DeleteFunc(to, func(k string, _ any) bool { return k == "index" || k == "alias" })
				for _, other := range c.indices {
					if had := other.aliases[alias]; other != x && text(had["is_write_index"]) == "true" && text(to["is_write_index"]) == "true" {
						return failure(http.StatusInternalServerError, "illegal_state_exception", "alias ["+alias+"] has more than one write index ["+other.name+","+name+"]")
					}
				}
			}
			changes = append(changes, change{x, alias, to})
		}
	}
	for _, ch := range changes {
		if ch.to == nil {
			delete(ch.x.aliases, ch.alias)
			continue
		}
		ch.x.aliases[ch.alias] = ch.to
	}
	return ok(acknowledged)
}

// aliasesOf lists the indices of an alias, or of all.
func (c *Cluster) aliasesOf(names []string) answer {
	out := object{}
	for _, x := range c.indices {
		mine := map[string]any{}
		for alias, a := range x.aliases {
			if len(names) == 0 || slices.Contains(strings.Split(names[0], ","), alias) {
				mine[alias] = a
			}
		}
		if len(mine) > 0 {
			out[x.name] = object{"aliases": mine}
		}
	}
	if len(out) == 0 && len(names) > 0 {
		return answer{http.StatusNotFound, object{"error": "alias [" + names[0] + "] missing", "status": http.StatusNotFound}}
	}
	return ok(out)
}
