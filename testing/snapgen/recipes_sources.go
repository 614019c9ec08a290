package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

func sourceRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"2.4.6", "7.10.2", "os2.19.4"} {
		all = append(all, recipe{
			name:  v + "-sources",
			holds: "sources indexed as SMILE, CBOR and YAML; sources with line breaks and comments",
			make: func(ctx context.Context, l *lab) error {
				if err := l.boot(ctx, v); err != nil {
					return err
				}
				return l.sources(ctx)
			},
		})
	}
	return append(all, recipe{
		name: "7.10.2-large", onDemand: true,
		holds: "a document of 120 MB between small ones, and an index of small ones",
		make:  large,
	})
}

// binaryValues are documents to be indexed in formats other than JSON.
var binaryValues = []string{
	`{"n":1}`, `{}`, `{"n":-1,"raw":{"text":"ü😀 \" \\ \n\t","empty":"","list":[1,-2,3.5,true,false,null,[],{}]}}`,
	`{"n":2,"raw":{"long":9223372036854775807,"min":-9223372036854775808,"int":2147483647,"double":0.1,"small":1.0E-7,"big":1.7976931348623157E308}}`,
	`{"n":3,"raw":{"text":"` + words(3, 300) + `"}}`, `{"n":4,"raw":{"same":["abc","abc","abc"],"again":[{"name":1},{"name":2},{"name":3}]}}`,
	`{"n":5,"raw":{"` + strings.Repeat("k", 70) + `":"` + strings.Repeat("v", 70) + `","ключ":"значение"}}`,
}

// sources fills one index with sources in other formats, and one with hand-written JSON.
func (l *lab) sources(ctx context.Context) error {
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	if err := l.create(ctx, "binary", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	if err := l.create(ctx, "byhand", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	if err := l.binary(ctx); err != nil {
		return err
	}
	docs, err := l.dump(ctx, "binary")
	if err != nil {
		return err
	}
	hand, err := l.byHand(ctx)
	if err != nil {
		return err
	}
	l.truths["snap1"] = append(docs, hand...)
	return l.snapshot(ctx, "snap1", "", "SUCCESS", false)
}

// binary indexes each value in each format. The cluster itself converts it: it answers in the requested format.
func (l *lab) binary(ctx context.Context) error {
	if err := l.create(ctx, "convert", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	for i, value := range binaryValues {
		id := strconv.Itoa(i)
		if err := l.put(ctx, http.MethodPut, l.docPath("convert", id), value); err != nil {
			return err
		}
		for _, format := range []string{"smile", "cbor", "yaml", "json"} {
			source, err := l.Send(ctx, http.MethodGet, l.sourcePath("convert", id)+"?format="+format, "", nil)
			if err != nil {
				return err
			}
			if _, err := l.Send(ctx, http.MethodPut, l.docPath("binary", format+"-"+id), "application/"+format, source); err != nil {
				return err
			}
		}
	}
	return l.steps(ctx, step{"DELETE /convert", ""}, step{"POST /binary/_refresh", ""})
}

// sourcePath returns the API path of a document's source.
func (l *lab) sourcePath(index, id string) string {
	if l.typed() {
		return l.docPath(index, id) + "/_source"
	}
	return "/" + index + "/_source/" + id
}

// written is a hand-written source, and the line that has to arrive.
type written struct{ source, line string }

// handWritten lists sources that clusters accept though they are not strict JSON. In the line, line breaks outside of strings are
// removed, // comments are removed with their line break, and line breaks in /* */ comments become blanks.
var handWritten = []written{
	{"{\"n\":1}", "{\"n\":1}"},
	{"{\n  \"n\" : 2\n}\n", "{  \"n\" : 2}"},
	{"{\r\n\"n\":3\r\n}\r\n", "{\"n\":3}"},
	{"\n\n{\"n\":\n4}", "{\"n\":4}"},
	{"{\"n\":5, // five\n\"raw\":{}}", "{\"n\":5, \"raw\":{}}"},
	{"{\"n\":6, /* six */ \"raw\":{}}", "{\"n\":6, /* six */ \"raw\":{}}"},
	{"{\"n\":7, /* se\nven */\n\"raw\":{}}", "{\"n\":7, /* se ven */\"raw\":{}}"},
	{"{\"n\":8,\n// {\"index\":{\"_index\":\"evil\",\"_id\":\"1\"}}\n// {\"n\":666}\n\"raw\":{}}", "{\"n\":8,\"raw\":{}}"},
	{"{\"n\":9,\"raw\":{\"url\":\"http://x//y\",\"c\":\"/* no */ // no\"}}", "{\"n\":9,\"raw\":{\"url\":\"http://x//y\",\"c\":\"/* no */ // no\"}}"},
	{"{\"n\":10 // last\n}", "{\"n\":10 }"},
	{"{/* first */\"n\":11}", "{/* first */\"n\":11}"},
	{"{\"n\":12,\"raw\":{\"q\":\"\\\"// still \\\\\"}}// end\n", "{\"n\":12,\"raw\":{\"q\":\"\\\"// still \\\\\"}}"},
}

// byHand indexes hand-written sources and returns their truth: lines, if a source has comments.
func (l *lab) byHand(ctx context.Context) ([]document, error) {
	var docs []document
	for i, w := range handWritten {
		d := document{Index: "byhand", ID: fmt.Sprintf("w%02d", i), Line: w.line}
		if l.typed() {
			d.Type = typeName
		}
		if err := l.put(ctx, http.MethodPut, l.docPath(d.Index, d.ID), w.source); err != nil {
			return nil, err
		}
		docs = append(docs, d)
	}
	return slices.Clip(docs), l.put(ctx, http.MethodPost, "/byhand/_refresh", nil)
}

// large indexes a document that is larger than any buffer.
func large(ctx context.Context, l *lab) error {
	if err := l.boot(ctx, "7.10.2", largeNode()...); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	if err := l.create(ctx, "large", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	var x, y body
	if err := l.load(ctx, "large", x.index("before", note(1))); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(`{"n":2,"raw":{"list":[`)
	for i := 0; b.Len() < 120<<20; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`"` + words(uint64(i%500), 100) + `"`)
	}
	b.WriteString(`]}}`)
	if err := l.put(ctx, http.MethodPut, l.docPath("large", "giant"), b.String()); err != nil {
		return err
	}
	if err := l.load(ctx, "large", y.index("after", note(3))); err != nil {
		return err
	}
	if err := l.create(ctx, "small", `"number_of_shards":2`, plain); err != nil {
		return err
	}
	var z body
	for i := range 40 {
		z.index(fmt.Sprint("s-", i), note(i))
	}
	if err := l.load(ctx, "small", &z); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}
