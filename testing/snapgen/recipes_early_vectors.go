package main

import (
	"context"
	"fmt"
	"strings"
)

// earlyVectors is a mapping with the vector types of versions before 8.12.
const earlyVectors = `"cosine":{"type":"dense_vector","dims":3,"index":true,"similarity":"cosine"},"norm":{"type":"dense_vector","dims":3,"index":true,"similarity":"l2_norm"},
"options":{"type":"dense_vector","dims":5,"index":true,"similarity":"l2_norm","index_options":{"type":"hnsw","m":4,"ef_construction":10}},
"unit":{"type":"dense_vector","dims":2,"index":true,"similarity":"dot_product"},"byte":{"type":"dense_vector","dims":4,"element_type":"byte","index":true,"similarity":"l2_norm"},
"byte_cosine":{"type":"dense_vector","dims":4,"element_type":"byte","index":true,"similarity":"cosine"},
"plain":{"type":"dense_vector","dims":3,"index":false},"k":{"type":"keyword"},"number":{"type":"long"}`

var earlyFields = []denseField{
	{name: "cosine", dims: 3}, {name: "norm", dims: 3}, {name: "options", dims: 5}, {name: "unit", dims: 2, unit: true},
	{name: "byte", dims: 4, bytes: true}, {name: "byte_cosine", dims: 4, bytes: true}, {name: "plain", dims: 3},
}

// earlySources returns documents. Each field is in one of every documents, options with every > 1 only in the first.
func earlySources(count, every int) []string {
	var docs []string
	for n := range count {
		members := []string{fmt.Sprintf(`"number":%d`, n)}
		for i, f := range earlyFields {
			if every == 1 || (n+i)%every == 0 && f.name != "options" || n == 0 {
				members = append(members, fmt.Sprintf("%q:%s", f.name, f.value(n)))
			}
		}
		docs = append(docs, "{"+strings.Join(members, ",")+`,"k":"last"}`)
	}
	return docs
}

// makeEarlyVectors creates indices with a few vectors, and with so many that their graphs have several levels.
func makeEarlyVectors(ctx context.Context, l *lab, version string) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	for _, x := range []struct {
		name string
		docs []string
	}{{"dense", earlySources(30, 1)}, {"sparse", earlySources(40, 3)}, {"many", earlySources(300, 1)}, {"many-sparse", earlySources(300, 2)}} {
		index := fmt.Sprintf(`{"settings":{"number_of_replicas":0,"number_of_shards":1},"mappings":{"_source":{"mode":"synthetic"},"properties":{%s}}}`, earlyVectors)
		if err := l.put(ctx, "PUT", "/"+x.name, index); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		half := len(x.docs) / 2
		for i, part := range [][]string{x.docs[:half], append(x.docs[half:len(x.docs):len(x.docs)], x.docs[0])} { // the first document is written again
			var b body
			for n, source := range part {
				b.index(fmt.Sprint((i*half+n)%len(x.docs)), source)
			}
			if err := l.load(ctx, x.name, &b); err != nil {
				return fmt.Errorf("%s: %w", x.name, err)
			}
		}
	}
	if err := l.take(ctx, "snap1", ""); err != nil {
		return err
	}
	return l.askEach(ctx, l.truths["snap1"])
}
