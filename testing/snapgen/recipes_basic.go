package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// versions are the versions that testing/cluster can start.
var versions = []string{"2.4.6", "5.6.16", "6.8.23", "7.10.2", "7.17.29", "8.19.21", "9.5.3", "os1.3.14", "os2.19.4", "os3.8.0"}

func basicRecipes() []recipe {
	var all []recipe
	for _, v := range versions {
		all = append(all, recipe{
			name:  v + "-basic",
			holds: "odd ids, odd sources, routing; updates and deletes, merged or not; both codecs; no source; empty; aliases and templates",
			make: func(ctx context.Context, l *lab) error {
				if err := l.boot(ctx, v); err != nil {
					return err
				}
				if err := l.register(ctx, nil); err != nil {
					return err
				}
				for _, part := range []func(context.Context) error{l.odd, l.changes, l.merged, l.noSource, l.furniture, l.types} {
					if err := part(ctx); err != nil {
						return err
					}
				}
				return l.take(ctx, "snap1", "")
			},
		})
	}
	return all
}

// odd fills an index with unusual ids and sources, which must be kept byte for byte.
func (l *lab) odd(ctx context.Context) error {
	if err := l.create(ctx, "odd", `"number_of_shards":2`, plain); err != nil {
		return err
	}
	var x body
	for i, id := range oddIDs() {
		x.index(id, note(1000+i))
	}
	for i, source := range oddSources() {
		x.index("source-"+strconv.Itoa(i), source)
	}
	routing := `"routing":`
	if l.typed() {
		routing = `"_routing":`
	}
	for i, r := range []string{"a", "0", "ü/ß", "a b", "42", "\"x\""} {
		x.index("routed-"+strconv.Itoa(i), note(2000+i), routing+quote(r))
	}
	for i := range 5 {
		x.auto(note(3000 + i))
	}
	if err := l.load(ctx, "odd", &x); err != nil {
		return err
	}
	pretty := "{\n  \"n\": 77,\r\n  \"raw\": {\n\t\"a\": \"b  c\"\n  }\n}\n"
	return l.put(ctx, http.MethodPut, l.docPath("odd", "pretty"), pretty)
}

// changes fills an index with several segments, updates, deletions and a segment without live documents.
func (l *lab) changes(ctx context.Context) error {
	if err := l.create(ctx, "changes", `"number_of_shards":1,"refresh_interval":-1`, plain); err != nil {
		return err
	}
	var first, second, third, dead, last body
	for i := range 60 {
		first.index(strconv.Itoa(i), note(i))
	}
	for i := range 20 {
		second.index(strconv.Itoa(i*3), note(100+i)).remove(strconv.Itoa(i*3 + 1))
	}
	for i := range 5 {
		dead.index("dead-"+strconv.Itoa(i), note(200+i))
	}
	for i := range 5 {
		third.remove("dead-" + strconv.Itoa(i)).remove("never-" + strconv.Itoa(i))
	}
	last.index("1", note(300)).index("again", note(301)).remove("again").index("again", note(302))
	for _, x := range []*body{&first, &second, &dead, &third, &last} {
		if err := l.load(ctx, "changes", x); err != nil {
			return err
		}
	}
	return nil
}

// merged fills an index with the DEFLATE codec and merges it after deletions.
func (l *lab) merged(ctx context.Context) error {
	settings := `"number_of_shards":1,"codec":"best_compression"`
	if lacksZstd(l.node.Version) {
		settings = `"number_of_shards":1`
	}
	if err := l.create(ctx, "merged", settings, plain); err != nil {
		return err
	}
	var x, y body
	for i := range 150 {
		x.index(fmt.Sprintf("m%03d", i), note(4000+i))
	}
	for i := range 30 {
		y.remove(fmt.Sprintf("m%03d", i*5)).index(fmt.Sprintf("m%03d", i*5+1), note(5000+i))
	}
	for _, b := range []*body{&x, &y} {
		if err := l.load(ctx, "merged", b); err != nil {
			return err
		}
	}
	if err := l.put(ctx, http.MethodPost, "/merged/_forcemerge?max_num_segments=1", nil); err != nil {
		return err
	}
	var z body
	return l.load(ctx, "merged", z.index("after", note(6000)).remove("m002"))
}

// noSource fills indices that store no source, or only a part of it.
func (l *lab) noSource(ctx context.Context) error {
	for name, source := range map[string]string{"nosource": `{"enabled":false}`, "partsource": `{"excludes":["raw.text"]}`} {
		mapping := `{"_source":` + source + `,"properties":{"n":{"type":"long","store":true}}}`
		if l.typed() {
			mapping = `{"` + typeName + `":` + mapping + `}`
		}
		if err := l.put(ctx, http.MethodPut, "/"+name, `{"settings":{"number_of_shards":1,"number_of_replicas":0},"mappings":`+mapping+`}`); err != nil {
			return err
		}
		var x body
		for i := range 4 {
			x.index("s"+strconv.Itoa(i), note(i))
		}
		if err := l.load(ctx, name, &x); err != nil {
			return err
		}
	}
	return nil
}

// furniture creates everything but documents: an empty index, aliases, a template, a pipeline and a stored setting.
func (l *lab) furniture(ctx context.Context) error {
	if err := l.create(ctx, "empty", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	aliases := `{"actions":[{"add":{"index":"odd","alias":"all"}},{"add":{"index":"changes","alias":"all","filter":{"term":{"n":5}},"routing":"7"}}]}`
	if err := l.put(ctx, http.MethodPost, "/_aliases", aliases); err != nil {
		return err
	}
	pattern, mapping := `"index_patterns":["tpl-*"]`, `{"properties":{"n":{"type":"long"}}}`
	if l.typed() {
		mapping = `{"` + typeName + `":` + mapping + `}`
	}
	old := l.node.Product == "elasticsearch" && l.node.Version < "6"
	if old {
		pattern = `"template":"tpl-*"`
	}
	if err := l.put(ctx, http.MethodPut, "/_template/legacy", `{`+pattern+`,"order":3,"settings":{"number_of_shards":2},"mappings":`+mapping+`}`); err != nil {
		return err
	}
	if l.node.Version < "5" && l.node.Product == "elasticsearch" {
		return nil // ingest pipelines came with 5.0
	}
	return l.put(ctx, http.MethodPut, "/_ingest/pipeline/nothing", `{"description":"does nothing","processors":[]}`)
}

// types fills an index with several mapping types, which versions before 6 allow.
func (l *lab) types(ctx context.Context) error {
	if l.node.Product != "elasticsearch" || l.node.Version >= "6" {
		return nil
	}
	index := `{"settings":{"number_of_shards":2,"number_of_replicas":0},"mappings":{"company":{},"person":{"_parent":{"type":"company"}},"note":{}}}`
	if err := l.put(ctx, http.MethodPut, "/types", index); err != nil {
		return err
	}
	var companies, people, notes body
	for i := range 6 {
		id := strconv.Itoa(i)
		companies.index(id, note(i))
		notes.index(id, note(10+i))
		people.index(id, note(20+i), `"_parent":`+quote(strconv.Itoa(i/2)))
	}
	for name, x := range map[string]*body{"company": &companies, "person": &people, "note": &notes} {
		if err := l.Bulk(ctx, "/types/"+name+"/_bulk", x.b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}
