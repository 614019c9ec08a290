package fakecluster

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// shard holds documents by their ids.
type shard struct {
	docs    map[string]*document
	max     int64 // sequence number; -1: none
	deletes int64
	next    int64 // order of arrival
}

// document is a live document.
type document struct {
	id, routing string
	source      []byte
	version     int64
	seq, order  int64
}

// shardOf returns the shard of a document.
func (x *index) shardOf(id, routing string) *shard {
	h := fnv.New32a()
	_, _ = h.Write([]byte(cmp.Or(routing, id)))
	return x.shards[int(h.Sum32())%len(x.shards)]
}

// put writes a document and returns its version and sequence number, and whether it existed.
func (x *index) put(id, routing string, source []byte) (d *document, replaced bool) {
	s := x.shardOf(id, routing)
	was := s.docs[id]
	s.max++
	s.next++
	d = &document{id: id, routing: routing, source: slices.Clone(source), version: 1, seq: s.max, order: s.next}
	if was != nil {
		d.version = was.version + 1
	}
	s.docs[id] = d
	return d, was != nil
}

func (x *index) remove(id, routing string) bool {
	s := x.shardOf(id, routing)
	if s.docs[id] == nil {
		return false
	}
	s.max++
	s.deletes++
	delete(s.docs, id)
	return true
}

// writeIndex returns the write index of a name.
func (c *Cluster) writeIndex(name string) (*index, *answer) {
	all, missing := c.behind(name)
	if missing != "" {
		a := noIndex(missing)
		return nil, &a
	}
	if len(all) == 1 {
		return all[0], nil
	}
	for _, x := range all {
		if text(x.aliases[name]["is_write_index"]) == "true" {
			return x, nil
		}
	}
	a := failure(http.StatusBadRequest, "illegal_argument_exception", "no write index is defined for alias ["+name+"]")
	return nil, &a
}

// refuse returns why the mapping of an index rejects a source: an unknown field with a strict mapping, or an invalid long.
func (x *index) refuse(source []byte) (typ, reason string) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(source, &fields) != nil {
		return "mapper_parsing_exception", "failed to parse"
	}
	known, _ := x.mappings["properties"].(map[string]any)
	for _, name := range slices.Sorted(keys(fields)) {
		field, is := known[name].(map[string]any)
		if !is {
			if text(x.mappings["dynamic"]) == "strict" {
				return "strict_dynamic_mapping_exception", "mapping set to strict, dynamic introduction of [" + name + "] within [_doc] is not allowed"
			}
			continue
		}
		if text(field["type"]) != "long" {
			continue
		}
		if _, err := strconv.ParseFloat(strings.Trim(string(fields[name]), `"`), 64); err != nil {
			return "mapper_parsing_exception", "failed to parse field [" + name + "] of type [long]"
		}
	}
	return "", ""
}

func keys(m map[string]json.RawMessage) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

var dropped = regexp.MustCompile(`ctx\.containsKey\('([^']+)'\)`)

// drops reports whether the final pipeline of an index drops a source: it has a drop processor with the condition
// ctx.containsKey('FIELD').
func (c *Cluster) drops(x *index, source []byte) bool {
	var pipeline struct {
		Processors []struct{ Drop *struct{ If string } }
	}
	var fields map[string]json.RawMessage
	name := x.settings["index.final_pipeline"]
	if json.Unmarshal(c.objects["_ingest/pipeline/"+name], &pipeline) != nil || json.Unmarshal(source, &fields) != nil {
		return false
	}
	for _, p := range pipeline.Processors {
		if p.Drop == nil {
			continue
		}
		m := dropped.FindStringSubmatch(p.Drop.If)
		if m == nil {
			return true
		}
		if _, has := fields[m[1]]; has {
			return true
		}
	}
	return false
}

// bulk answers a bulk request.
func (c *Cluster) bulk(index string, q url.Values, body []byte) answer {
	lines := bytes.Split(bytes.TrimSuffix(body, []byte("\n")), []byte("\n"))
	items, errs := []any{}, false
	for i := 0; i < len(lines); i++ {
		var action map[string]struct {
			Index       string `json:"_index"`
			ID          string `json:"_id"`
			Routing     any    `json:"routing"`
			Version     *int64 `json:"version"`
			VersionType string `json:"version_type"`
		}
		if err := json.Unmarshal(lines[i], &action); err != nil || len(action) != 1 {
			return failure(http.StatusBadRequest, "illegal_argument_exception", fmt.Sprintf("Malformed action/metadata line [%d]: %v", i+1, err))
		}
		for op, meta := range action {
			var source []byte
			if op != "delete" {
				if i++; i >= len(lines) {
					return failure(http.StatusBadRequest, "illegal_argument_exception", "The bulk request must be terminated by a newline [\\n]")
				}
				source = lines[i]
			}
			routing := ""
			if meta.Routing != nil {
				routing = text(meta.Routing)
			}
			name := cmp.Or(meta.Index, index)
			item := object{"_index": name, "_id": meta.ID}
			var wrong *answer
			x, wrong := c.writeIndex(name)
			if q.Get("require_alias") == "true" && (x == nil || x.name == name) {
				a := failure(http.StatusNotFound, "index_not_found_exception", "require_alias")
				wrong = &a
			}
			if wrong == nil {
				item["_index"] = x.name
				wrong = c.item(x, op, meta.ID, routing, source, item)
			}
			if wrong != nil {
				errs = true
				item["status"], item["error"] = wrong.status, wrong.body.(object)["error"]
			}
			items = append(items, object{op: item})
		}
	}
	return ok(object{"took": 1, "errors": errs, "items": items})
}

// item executes one operation of a bulk request and adds its result.
func (c *Cluster) item(x *index, op, id, routing string, source []byte, item object) *answer {
	refused := func(a answer) *answer { return &a }
	if op == "delete" {
		item["status"], item["result"] = http.StatusOK, "deleted"
		if !x.remove(id, routing) {
			item["status"], item["result"] = http.StatusNotFound, "not_found"
		}
		return nil
	}
	if op != "index" && op != "create" {
		return refused(failure(http.StatusBadRequest, "illegal_argument_exception", "the fake cluster does not know the operation "+op))
	}
	if id == "" {
		c.uuids++
		id = fmt.Sprintf("generated-%d", c.uuids)
		item["_id"] = id
	}
	if c.drops(x, source) {
		item["status"], item["result"], item["_version"] = http.StatusOK, "noop", -3
		return nil
	}
	if typ, reason := x.refuse(source); typ != "" {
		return refused(failure(http.StatusBadRequest, typ, reason))
	}
	if op == "create" && x.shardOf(id, routing).docs[id] != nil {
		return refused(failure(http.StatusConflict, "version_conflict_engine_exception", "["+id+"]: version conflict, document already exists"))
	}
	d, replaced := x.put(id, routing, source)
	item["_version"], item["_seq_no"], item["_primary_term"] = d.version, d.seq, 1
	item["status"], item["result"] = http.StatusCreated, "created"
	if replaced {
		item["status"], item["result"] = http.StatusOK, "updated"
	}
	return nil
}

// single reads or writes one document.
func (c *Cluster) single(method, name, id string, q url.Values, body []byte) (answer, bool) {
	x, wrong := c.writeIndex(name)
	if wrong != nil {
		return *wrong, true
	}
	routing := q.Get("routing")
	switch method {
	case http.MethodGet:
		d := x.shardOf(id, routing).docs[id]
		if d == nil {
			return answer{http.StatusNotFound, object{"_index": x.name, "_id": id, "found": false}}, true
		}
		return ok(object{"_index": x.name, "_id": id, "found": true, "_version": d.version, "_seq_no": d.seq, "_primary_term": 1, "_source": json.RawMessage(d.source)}), true
	case http.MethodPut:
		d, _ := x.put(id, routing, body)
		return ok(object{"_index": x.name, "_id": id, "result": "created", "_version": d.version}), true
	case http.MethodDelete:
		x.remove(id, routing)
		return ok(object{"result": "deleted"}), true
	}
	return answer{}, false
}

// mget reads documents by their ids.
func (c *Cluster) mget(body []byte) answer {
	var request struct {
		Docs []struct {
			Index   string `json:"_index"`
			ID      string `json:"_id"`
			Routing string `json:"routing"`
		}
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return failure(http.StatusBadRequest, "parse_exception", err.Error())
	}
	var out bytes.Buffer
	out.WriteString(`{"docs":[`)
	for i, want := range request.Docs {
		if i > 0 {
			out.WriteByte(',')
		}
		var d *document
		if x, wrong := c.writeIndex(want.Index); wrong == nil {
			d = x.shardOf(want.ID, want.Routing).docs[want.ID]
		}
		if d == nil {
			fmt.Fprintf(&out, `{"_id":%s,"found":false}`, quoted(want.ID))
			continue
		}
		routing := ""
		if d.routing != "" {
			routing = `"_routing":` + quoted(d.routing) + ","
		}
		fmt.Fprintf(&out, `{"_index":%s,"_id":%s,%s"found":true,"_seq_no":%d,"_version":%d,"_source":%s}`, quoted(want.Index), quoted(d.id), routing, d.seq, d.version, d.source)
	}
	out.WriteString("]}")
	return ok(json.RawMessage(out.Bytes()))
}

func quoted(s string) string {
	b, err := encode(s)
	if err != nil {
		return `""`
	}
	return string(b)
}

// reading is a point in time: the documents at the moment it was opened.
type reading struct {
	index string
	docs  []*document
}

func (c *Cluster) openReading(all []*index, q url.Values) (answer, bool) {
	if len(all) != 1 {
		return answer{}, false
	}
	shards := all[0].shards
	if n, is := strings.CutPrefix(q.Get("preference"), "_shards:"); is {
		i, err := strconv.Atoi(n)
		if err != nil || i >= len(shards) {
			return failure(http.StatusBadRequest, "illegal_argument_exception", "no shard "+n), true
		}
		shards = shards[i : i+1]
	}
	r := &reading{index: all[0].name}
	for _, s := range shards {
		for _, d := range s.docs {
			r.docs = append(r.docs, d)
		}
	}
	slices.SortFunc(r.docs, func(a, b *document) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.id, b.id)) })
	c.uuids++
	id := fmt.Sprintf("pit-%d", c.uuids)
	c.readings[id] = r
	return ok(object{"pit_id": id, "_shards": object{"total": 1, "successful": 1, "failed": 0}, "creation_time": 1}), true
}

// search answers a page of a point in time.
func (c *Cluster) search(body []byte) (answer, bool) {
	var request struct {
		Size  int
		PIT   *struct{ ID string }
		After []int `json:"search_after"`
	}
	if err := json.Unmarshal(body, &request); err != nil || request.PIT == nil {
		return answer{}, false
	}
	r := c.readings[request.PIT.ID]
	if r == nil {
		return failure(http.StatusNotFound, "search_context_missing_exception", "No search context found"), true
	}
	from := 0
	if len(request.After) > 0 {
		from = request.After[0] + 1
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, `{"pit_id":%s,"timed_out":false,"_shards":{"total":1,"successful":1,"failed":0},"hits":{"hits":[`, quoted(request.PIT.ID))
	for i := from; i < min(from+request.Size, len(r.docs)); i++ {
		d := r.docs[i]
		if i > from {
			out.WriteByte(',')
		}
		fmt.Fprintf(&out, `{"_index":%s,"_id":%s,`, quoted(r.index), quoted(d.id))
		if d.routing != "" {
			fmt.Fprintf(&out, `"_routing":%s,`, quoted(d.routing))
		}
		fmt.Fprintf(&out, `"_seq_no":%d,"_primary_term":1,"_source":%s,"sort":[%d]}`, d.seq, d.source, i)
	}
	out.WriteString("]}}")
	return ok(json.RawMessage(out.Bytes())), true
}

func (c *Cluster) closeReadings(body []byte) answer {
	var request struct {
		IDs []string `json:"pit_id"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return failure(http.StatusBadRequest, "parse_exception", err.Error())
	}
	for _, id := range request.IDs {
		delete(c.readings, id)
	}
	return ok(object{"pits": []any{}})
}
