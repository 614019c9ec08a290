package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// vectorRecipes make indices with indexed vectors, which Lucene keeps in separate files, and with sparse ones.
func vectorRecipes() []recipe {
	var all []recipe
	for _, version := range []string{"8.6.2", "8.11.4"} {
		all = append(all, recipe{
			name: version + "-indexed-vectors", holds: "synthetic sources: indexed dense vectors in the formats of Lucene 9.4 to 9.8",
			onDemand: true, // likewise
			make:     func(ctx context.Context, l *lab) error { return makeEarlyVectors(ctx, l, version) },
		})
	}
	for _, version := range []string{"8.19.21", "9.5.3"} {
		all = append(all, recipe{
			name: version + "-indexed-vectors", holds: "indexed dense vectors in every format, sparse ones; sources synthetic, and stored without vectors",
			onDemand: true, // kept with the package that reads it: -out rfs/source/rebuild/testdata
			make:     func(ctx context.Context, l *lab) error { return makeVectors(ctx, l, version) },
		})
	}
	return append(all, recipe{
		name: "9.5.3-vectors", holds: "dense vectors that 9.2 and later leave out of stored sources, and the same with exclude_source_vectors: false",
		make: func(ctx context.Context, l *lab) error {
			if err := l.boot(ctx, "9.5.3"); err != nil {
				return err
			}
			if err := l.register(ctx, nil); err != nil {
				return err
			}
			for name, setting := range map[string]string{"vec": "", "vec-kept": `,"mapping.exclude_source_vectors":false`} {
				if err := l.create(ctx, name, `"number_of_shards":1`+setting, keptVectors); err != nil {
					return err
				}
				var b body
				for n := range 20 {
					if name == "vec" { // the node stores the source without the indexed vector
						l.stripped = append(l.stripped, document{Index: name, ID: fmt.Sprintf("v%d", n),
							Line: fmt.Sprintf(`{"title":%q,"v":[%d,0.5,-1.25,3],"nest":{"a":%d}}`, words(uint64(n), 3), n, n)})
					}
					b.index(fmt.Sprintf("v%d", n), fmt.Sprintf(`{"title": %q, "v": [%d, 0.5, -1.25, 3], "h": [1, %d, 2.5, 0.1], "nest": {"a": %d}}`, words(uint64(n), 3), n, n, n))
				}
				if err := l.load(ctx, name, &b); err != nil {
					return err
				}
			}
			if err := l.ask(ctx, "vec", "vec-kept"); err != nil {
				return err
			}
			return l.take(ctx, "snap1", "")
		},
	})
}

// keptVectors is a mapping with an indexed vector, which stored sources lack, and with one that is not indexed.
const keptVectors = `"title":{"type":"text"},"v":{"type":"dense_vector","dims":4,"index":false},"nest":{"properties":{"a":{"type":"long"}}},
"h":{"type":"dense_vector","dims":4,"index":true,"similarity":"cosine","index_options":{"type":"int8_hnsw","m":16,"ef_construction":100}}`

// denseField is an indexed vector.
type denseField struct {
	name, params string
	dims         int
	bytes, unit  bool // elements are bytes; the norm is 1
}

// denseFields returns a field of each element type, similarity and format of the version.
func denseFields(nine bool) []denseField {
	options := func(s string) string { return `"index_options":{"type":"` + s + `"}` }
	all := []denseField{
		{name: "flat", params: `"similarity":"l2_norm",` + options("flat"), dims: 3},
		{name: "hnsw", params: options("hnsw"), dims: 3},
		{name: "int8", params: options("int8_hnsw"), dims: 3},
		{name: "int8f", params: `"similarity":"max_inner_product",` + options("int8_flat"), dims: 3},
		{name: "int4", params: options("int4_hnsw"), dims: 4},
		{name: "int4f", params: `"similarity":"l2_norm",` + options("int4_flat"), dims: 4},
		{name: "bbq", params: options("bbq_hnsw"), dims: 64},
		{name: "bbqf", params: `"similarity":"l2_norm",` + options("bbq_flat"), dims: 64},
		{name: "dot", params: `"similarity":"dot_product",` + options("hnsw"), dims: 2, unit: true},
		{name: "byte", params: `"element_type":"byte",` + options("hnsw"), dims: 4, bytes: true},
		{name: "bytef", params: `"element_type":"byte","similarity":"l2_norm",` + options("flat"), dims: 4, bytes: true},
		{name: "bit", params: `"element_type":"bit",` + options("hnsw"), dims: 16, bytes: true},
		{name: "bitf", params: `"element_type":"bit",` + options("flat"), dims: 16, bytes: true},
		{name: "plain", params: `"index":false`, dims: 3},
	}
	if nine {
		all = append(all, denseField{name: "brain", params: `"element_type":"bfloat16",` + options("hnsw"), dims: 3},
			denseField{name: "brainf", params: `"element_type":"bfloat16","similarity":"l2_norm",` + options("flat"), dims: 3})
	}
	return all
}

// value returns a vector of the field as JSON; it depends on the seed.
func (f denseField) value(seed int) string {
	n := f.dims
	if strings.HasPrefix(f.name, "bit") {
		n /= 8
	}
	var all []string
	for i := range n {
		switch {
		case f.bytes:
			all = append(all, fmt.Sprint((seed*37+i*101)%256-128))
		case f.unit:
			all = append(all, []string{"0.6", "-0.8"}[(seed+i)%2])
		default:
			all = append(all, fmt.Sprint(float32((seed*7+i*13)%29-11)/7+0.001*float32(i)))
		}
	}
	return "[" + strings.Join(all, ",") + "]"
}

func denseMapping(fields []denseField) string {
	var all []string
	for _, f := range fields {
		all = append(all, fmt.Sprintf(`%q:{"type":"dense_vector","dims":%d,%s}`, f.name, f.dims, f.params))
	}
	return strings.Join(all, ",")
}

// denseSources returns documents with all vectors, with some, and with none.
func denseSources(fields []denseField) []string {
	var docs []string
	for n := range 24 {
		members := []string{fmt.Sprintf(`"@timestamp":%d`, 1700000000000+n)}
		for i, f := range fields {
			if n%4 == 0 || (n+i)%3 == 0 && n%4 != 3 {
				members = append(members, fmt.Sprintf("%q:%s", f.name, f.value(n)))
			}
		}
		docs = append(docs, "{"+strings.Join(members, ",")+`,"k":"last"}`)
	}
	return append(docs, `{"byte":"7f80ff00","bit":"00ff","@timestamp":1700000000100}`, `{"flat":null,"k":"none","@timestamp":1700000000101}`)
}

func sparseVectors() []string {
	var docs []string
	for n := range 300 {
		docs = append(docs, fmt.Sprintf(`{"s":{"u":%g,"t.%d":%g,"é😀":1},"@timestamp":%d}`, 0.1+float64(n)/3, n%7, 1.0/float64(n+1), 1700000000000+n))
	}
	return append(docs, `{"s":{},"@timestamp":1}`, `{"@timestamp":3}`, `{"z":{"b":0.5,"a":2},"s":{"x":3e38,"w":1.2e-38,"v":null},"@timestamp":4}`)
}

const vectorObjects = `"a":{"type":"dense_vector","dims":2},"b":{"type":"dense_vector","dims":2},"c":{"type":"dense_vector","dims":2},"s":{"type":"sparse_vector"SPARSE},
"o":{"properties":{"k":{"type":"keyword"},"v":{"type":"dense_vector","dims":2},"p":{"properties":{"v":{"type":"dense_vector","dims":2},"k":{"type":"keyword"}}}}}`

var vectorObjectSources = []string{
	`{"o":{"k":"x","v":[1,2]},"@timestamp":1}`, `{"o":{"v":[1,2]},"@timestamp":2}`, `{"o.v":[1,2],"@timestamp":3}`,
	`{"o":{"p.v":[3,4]},"@timestamp":5}`,
	`{"c":[3,3],"b":[1,1],"o":{"p":{"v":[3,4],"k":"z"}},"a":[2,2],"s":{"t":1},"@timestamp":6}`, `{"a":null,"@timestamp":7}`,
	`{ "k" : 1.50, "a" : [1, 2] , "u":"\u00e9", "@timestamp":8 }`, `{"o":[{"v":[1,2]}],"@timestamp":9}`, `{"a":[0.1,0.7],"@timestamp":10}`,
	`{"unmapped":{"a":[1,2]},"b":[7,8]}`, `{"a":[1,2]}`, `{"s":{"t":1}}`,
}

// vectorPlaceless are documents whose source with vectors a node of 9.5 fails to return, since it does not know the vectors' paths.
var vectorPlaceless = []string{
	`{"o":[{"k":"a"},{"v":[1,2]}],"@timestamp":4}`, `{"o":[{"k":"a"},{"k":"b","v":[1,2]},{"k":"c"}],"@timestamp":12}`, `{"k":"none","@timestamp":13}`,
}

const vectorNested = `"top":{"type":"keyword"},"m":{"type":"nested","properties":{"v":{"type":"dense_vector","dims":2}}},
"n":{"type":"nested","properties":{"t":{"type":"keyword"},"v":{"type":"dense_vector","dims":2},"s":{"type":"sparse_vector"SPARSE},
"inner":{"type":"nested","properties":{"q":{"type":"keyword"},"w":{"type":"dense_vector","dims":2}}}}},
"o":{"properties":{"n":{"type":"nested","properties":{"v":{"type":"dense_vector","dims":2}}}}},"v":{"type":"dense_vector","dims":2}`

var vectorNestedSources = []string{
	`{"n":[{"t":"a","v":[1,2]},{"t":"b"},{"v":[3,4]}],"top":"x","v":[9,9],"@timestamp":1}`, `{"n":{"v":[1,0]},"@timestamp":2}`, `{"n":[],"@timestamp":3}`,
	`{"m":[{"v":[1,2]},{"v":[2,1]}],"n":[{"v":[5,6],"s":{"b":1,"a":2}}],"@timestamp":4}`, `{"o":{"n":[{"v":[1,2]},{"v":[3,4]}]},"@timestamp":5}`,
	`{"n":[{"t":"p","inner":[{"q":"x","w":[1,2]},{"w":[2,3]}]},{"inner":{"w":[3,4]},"v":[4,5]}],"@timestamp":6}`, `{"top":"none","@timestamp":7}`,
	`{"n":[{"t":"p"},{"t":"q"}],"@timestamp":8}`,
}

// makeVectors creates the indices of one version.
func makeVectors(ctx context.Context, l *lab, version string) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	nine := strings.HasPrefix(version, "9")
	sparse := `,"store":true`
	logs := `,"mode":"logsdb"`
	if nine {
		sparse, logs = "", logs+`,"codec":"legacy_default"`
	}
	const synthetic, stamp = `,"mapping.source.mode":"synthetic"`, `"@timestamp":{"type":"date"},"k":{"type":"keyword"},`
	fields := denseFields(nine)
	dense, features := stamp+denseMapping(fields), stamp+`"s":{"type":"sparse_vector"`+sparse+`},"z":{"type":"sparse_vector"`+sparse+`}`
	objects, nested := stamp+strings.ReplaceAll(vectorObjects, "SPARSE", sparse), stamp+strings.ReplaceAll(vectorNested, "SPARSE", sparse)
	indices := []synthesized{
		{"dense", synthetic, dense, denseSources(fields)},
		{"dense-stored", "", dense, denseSources(fields)},
		{"sparse", synthetic, features, sparseVectors()},
		{"sparse-stored", "", features, sparseVectors()},
		{"objects", synthetic, objects, vectorObjectSources},
		{"objects-stored", "", objects, vectorObjectSources},
		{"nested", synthetic, nested, vectorNestedSources},
		{"nested-stored", "", nested, vectorNestedSources},
	}
	if nine {
		indices = append(indices, synthesized{"placeless-stored", "", objects, vectorPlaceless})
	} else { // on 9.5.3 the refresh of a second segment never ends
		indices = append(indices, synthesized{"dense-logsdb", logs, dense, denseSources(fields)})
	}
	for _, x := range indices {
		if err := l.create(ctx, x.name, `"number_of_shards":1`+x.settings, x.properties); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		half := len(x.docs) / 2
		for i, part := range [][]string{x.docs[:half], slices.Concat(x.docs[half:], x.docs[:1])} { // the first document is written again
			var b body
			for n, source := range part {
				b.index(fmt.Sprint((i*half+n)%len(x.docs)), source)
			}
			if err := l.load(ctx, x.name, &b); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
	}
	var names []string
	for _, x := range indices {
		names = append(names, x.name)
	}
	if err := l.ask(ctx, names...); err != nil {
		return err
	}
	if err := l.take(ctx, "snap1", ""); err != nil || nine {
		return err
	}
	return l.askEach(ctx, l.truths["snap1"])
}

// askEach requests each document separately: searches of 8.19 return vectors of other documents and segments, since they share the
// state of the reconstruction.
func (l *lab) askEach(ctx context.Context, docs []document) error {
	for i, d := range docs {
		var answer document
		if err := l.JSON(ctx, http.MethodGet, l.docPath(d.Index, d.ID), nil, &answer); err != nil {
			return fmt.Errorf("%s/%s: %w", d.Index, d.ID, err)
		}
		docs[i].Source = answer.Source
	}
	return nil
}
