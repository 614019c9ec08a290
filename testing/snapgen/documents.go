package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
)

// typeName is the mapping type of documents on versions that have types.
const typeName = "doc"

// body collects a bulk request.
type body struct{ b bytes.Buffer }

// index adds a document. meta are additional members of the action line, such as `"routing":"a"`.
func (x *body) index(id, source string, meta ...string) *body {
	members := append([]string{`"_id":` + quote(id)}, meta...)
	fmt.Fprintf(&x.b, "{\"index\":{%s}}\n%s\n", strings.Join(members, ","), source)
	return x
}

// auto adds a document without an id; the cluster assigns one.
func (x *body) auto(source string) *body {
	fmt.Fprintf(&x.b, "{\"index\":{}}\n%s\n", source)
	return x
}

// remove adds a deletion; meta as for index.
func (x *body) remove(id string, meta ...string) *body {
	fmt.Fprintf(&x.b, "{\"delete\":{%s}}\n", strings.Join(append([]string{`"_id":` + quote(id)}, meta...), ","))
	return x
}

func quote(s string) string {
	b, err := json.Marshal(s)
	if err != nil {
		return `""` // a string always marshals
	}
	return string(b)
}

// create creates an index. properties and settings are JSON members without braces.
func (l *lab) create(ctx context.Context, index, settings, properties string) error {
	mapping := `{"properties":{` + properties + `}}`
	if l.typed() {
		mapping = `{"` + typeName + `":` + mapping + `}`
	}
	return l.put(ctx, http.MethodPut, "/"+index, fmt.Sprintf(`{"settings":{"number_of_replicas":0,%s},"mappings":%s}`, settings, mapping))
}

// load sends a bulk body to an index and refreshes the index, which writes a segment.
func (l *lab) load(ctx context.Context, index string, x *body) error {
	path := "/" + index + "/_bulk"
	if l.typed() {
		path = "/" + index + "/" + typeName + "/_bulk"
	}
	if err := l.Bulk(ctx, path, x.b.Bytes()); err != nil {
		return err
	}
	return l.put(ctx, http.MethodPost, "/"+index+"/_refresh", nil)
}

// docPath returns the API path of a document.
func (l *lab) docPath(index, id string) string {
	t := "_doc"
	if l.typed() {
		t = typeName
	}
	return "/" + index + "/" + t + "/" + url.PathEscape(id)
}

// plain is the mapping of ordinary documents, such as note returns.
const plain = `"n":{"type":"long"},"raw":{"type":"object","enabled":false}`

// words returns n words that compress like prose. The same seed yields the same text.
func words(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 99))
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		for range 1 + r.IntN(4) {
			b.WriteByte("bdfgklmnprst"[r.IntN(12)])
			b.WriteByte("aeiou"[r.IntN(5)])
		}
	}
	return b.String()
}

// note returns the source of an ordinary document.
func note(n int) string {
	return fmt.Sprintf(`{"n": %d, "raw": {"text": %q, "even": %v}}`, n, words(uint64(n), 12), n%2 == 0)
}

// oddIDs returns ids of each stored form: numbers, base64 of different lengths, and UTF-8 strings.
func oddIDs() []string {
	return []string{
		"0", "1", "42", "007", "-5", "9223372036854775807", "18446744073709551616", "1234567890123456789012345678901",
		"a", "ab", "abc", "abcd", "AAAA", "AAA_", "-_-_", "----", "____", "====", "abc=", "QUJD", "AVqmSAUDwzJ5-GX3mQxt", "VuaYZ4cB8nG1sT0kLxQe",
		"a b", " ", "*", "?", "#", "%", "%41", "+plus", "a/b/c", "../x", "C:\\dir", "\"quoted\"", "{\"index\":{}}", "_underscore", "true", "null",
		"ü", "Straße", "日本語", "😀", "e\u0301", "é", "a\u2028b", "tab\there", strings.Repeat("long-id-", 60),
	}
}

// oddSources returns sources whose bytes change if they are decoded and encoded again.
func oddSources() []string {
	return []string{
		`{}`, `{ }`, `{"n":1}`, "\t{ \"n\" :  2 }  ", `{"n": 3, "raw": {"big": 123456789012345678901234567890, "neg": -0, "exp": 1E5, "tiny": 1e-400, "huge": 1e400}}`,
		`{"n":4,"raw":{"exact":0.1000,"more":3.14159265358979323846264338327950288,"long":9223372036854775808}}`,
		`{"raw":{"a":1.0,"b":1.00,"c":100e-2},"n":5}`, `{"n":6,"raw":{"esc":"\u00fc\u2028\/\b\f\n\r\t\"\\","pair":"\ud83d\ude00","plain":"ü😀"}}`,
		`{"n":7,"raw":{"html":"<script>alert('&')</script>","u":"\u003cb\u003e"}}`, `{"n":8,"raw":{"line":"{\"index\":{\"_index\":\"evil\"}}\\n{}"}}`,
		`{"n":9,"raw":{"nil":null,"t":true,"f":false,"empty":"","list":[],"nested":[[[{}]]]}}`, `{"raw":{"order":{"z":1,"a":2,"m":3}},"n":10}`,
		`{"n":11,"raw":{"key with space":1,"ключ":2,"":3,"a.b":4}}`, `{"n":12,"raw":{"latin":"` + "\u00a0\u00ff\u007f\ufeff" + `"}}`,
		`{"n":13,"raw":{"comment":"// no comment","block":"/* neither */"}}`, `{"n":14,"raw":{"repeated":"` + strings.Repeat("abcdefghij", 7000) + `"}}`,
		`{"n":15,"raw":{"prose":"` + words(15, 900) + `"}}`,
	}
}
