package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
)

// oldRecipes make documents and relations that later versions refuse.
func oldRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"2.4.6", "5.6.16"} {
		all = append(all, recipe{
			name:     v + "-family",
			holds:    "documents with duplicate keys; parents, children and grandchildren (_parent)",
			onDemand: true, // kept with the package that reads it: -out rfs/migration/worker/testdata
			make: func(ctx context.Context, l *lab) error {
				if err := l.boot(ctx, v); err != nil {
					return err
				}
				if err := l.register(ctx, nil); err != nil {
					return err
				}
				for _, part := range []func(context.Context) error{l.duplicates, l.family} {
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

// duplicates fills an index with documents that repeat a key of an object, which versions before 6 accept.
func (l *lab) duplicates(ctx context.Context) error {
	if err := l.create(ctx, "duplicates", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	var x body
	x.index("none", `{"n":1,"raw":{"a":1,"b":[{"a":2},{"a":3}]}}`)
	x.index("two", `{"n":1, "raw":{},"n":2}`)
	x.index("three", `{"n":1,"n":2,"n":3}`)
	x.index("within", `{"raw":{"a":1,"b":"\u00e9","a":2},"n":4}`)
	x.index("list", `{"raw":{"l":[{"a":1,"a":[1,1]},{"a":5}]},"n":5}`)
	x.index("escaped", `{"n":6,"raw":{"a\/b":1,"a\u002fb":2}}`)
	x.index("nested", `{"raw":{"a":{"b":1,"b":2}},"n":7,"raw":{"c":1e3}}`)
	return l.load(ctx, "duplicates", &x)
}

// family fills an index with parents, children, grandchildren and unrelated documents. All types have documents with the same ids.
func (l *lab) family(ctx context.Context) error {
	index := `{"settings":{"number_of_shards":3,"number_of_replicas":0},"mappings":{` +
		`"company":{"properties":{"n":{"type":"long"}}},"person":{"_parent":{"type":"company"}},"pet":{"_parent":{"type":"person"}},"note":{}}}`
	if err := l.put(ctx, http.MethodPut, "/family", index); err != nil {
		return err
	}
	var companies, people, pets, notes body
	for i := range 6 {
		companies.index(strconv.Itoa(i), fmt.Sprintf(`{"n":%d}`, i))
	}
	for i := range 12 {
		people.index(strconv.Itoa(i), fmt.Sprintf(`{ "n":%d }`, 100+i), `"_parent":`+quote(strconv.Itoa(i/2)))
	}
	for i := range 4 { // routed as their grandparents are
		pets.index(strconv.Itoa(i), fmt.Sprintf(`{"n":%d}`, 200+i), `"_parent":`+quote(strconv.Itoa(3*i)), `"_routing":`+quote(strconv.Itoa(3*i/2)))
	}
	notes.index("0", `{}`).index("1", `{"n":300}`)
	for _, part := range []struct {
		name string
		body *body
	}{{"company", &companies}, {"person", &people}, {"pet", &pets}, {"note", &notes}} {
		if err := l.Bulk(ctx, "/family/"+part.name+"/_bulk", part.body.b.Bytes()); err != nil {
			return err
		}
	}
	if err := l.put(ctx, http.MethodPost, "/family/_refresh", nil); err != nil {
		return err
	}
	for _, q := range familyHits {
		if err := l.finds(ctx, q.query, q.hits); err != nil {
			return err
		}
	}
	return nil
}

// familyHits are the ids that the cluster returns for queries of relations; TestParentsAndChildrenAreFound sends them to a target.
var familyHits = []struct {
	query string
	hits  []string
}{
	{`{"has_child":{"type":"person","query":{"range":{"n":{"gte":106}}}}}`, []string{"company#3", "company#4", "company#5"}},
	{`{"has_child":{"type":"person","query":{"has_child":{"type":"pet","query":{"match_all":{}}}}}}`, []string{"company#0", "company#1", "company#3", "company#4"}},
	{`{"has_parent":{"parent_type":"company","query":{"range":{"n":{"lte":1}}}}}`, []string{"person#0", "person#1", "person#2", "person#3"}},
	{`{"has_parent":{"parent_type":"person","query":{"range":{"n":{"gte":106}}}}}`, []string{"pet#2", "pet#3"}},
}

// finds checks the answer to a query in the index family.
func (l *lab) finds(ctx context.Context, query string, want []string) error {
	var answer struct {
		Hits struct {
			Hits []document
		}
	}
	if err := l.JSON(ctx, http.MethodPost, "/family/_search?size=100", json.RawMessage(`{"query":`+query+`}`), &answer); err != nil {
		return err
	}
	var got []string
	for _, d := range answer.Hits.Hits {
		got = append(got, d.Type+"#"+d.ID)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		return fmt.Errorf("%s finds %v, want %v", query, got, want)
	}
	return nil
}
