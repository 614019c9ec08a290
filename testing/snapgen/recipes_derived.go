package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// derivedSample is a field type that OpenSearch derives, with values in all forms of sources.
type derivedSample struct {
	params  string
	values  []string // JSON, neither sorted nor distinct
	bare    bool     // is never without doc values, or never without store
	nulls   bool     // rejects nulls in arrays
	ignored string   // a value that the mapping ignores; "": none
}

var derivedSamples = map[string]derivedSample{
	"keyword":       {params: `"type":"keyword"`, values: []string{`"ü\u0001\"q\\/"`, `"b😀"`, `"a"`, `"b😀"`, `7`, `true`}},
	"keyword_null":  {params: `"type":"keyword","null_value":"N"`, values: []string{`"Zeta"`, `null`, `"ALPHA"`}},
	"long":          {params: `"type":"long","ignore_malformed":true`, values: []string{`3`, `-9223372036854775808`, `9223372036854775807`, `3`, `"17"`, `2.7`}, ignored: `"x"`},
	"integer":       {params: `"type":"integer","ignore_malformed":true`, values: []string{`3`, `-2147483648`, `0`, `3`}, ignored: `99999999999`},
	"short":         {params: `"type":"short"`, values: []string{`3`, `-32768`, `1`}},
	"byte":          {params: `"type":"byte"`, values: []string{`3`, `-128`, `127`}},
	"double":        {params: `"type":"double"`, values: []string{`0.1`, `-1e300`, `1e-7`, `123456789.125`, `12345678`, `0.001`, `-0.0`, `1e7`, `4.9E-324`, `9007199254740993`, `2e-3`, `9.999e-4`}},
	"float":         {params: `"type":"float"`, values: []string{`0.1`, `3.4e38`, `1e-10`, `16777216`, `0.001`, `-2`, `-0.0`, `2e23`, `1.4E-45`, `8.5899346E9`}},
	"half_float":    {params: `"type":"half_float"`, values: []string{`0.1`, `65504`, `0.00006`, `-2`, `-0.0`, `5.9604645E-8`}},
	"unsigned_long": {params: `"type":"unsigned_long"`, values: []string{`1`, `18446744073709551615`, `9223372036854775808`, `0`, `"7"`}},
	"scaled_float":  {params: `"type":"scaled_float","scaling_factor":100`, values: []string{`0.29`, `1.005`, `-3.14159`, `12345678.9`, `1e7`, `0.0`}},
	"scaled_third":  {params: `"type":"scaled_float","scaling_factor":3`, values: []string{`0.29`, `1.005`, `-3.14159`, `12345678.9`}},
	"scaled_tenth":  {params: `"type":"scaled_float","scaling_factor":0.1`, values: []string{`12.3`, `1e20`, `105`}},
	"boolean":       {params: `"type":"boolean"`, values: []string{`true`, `false`, `"true"`, `"", "false"`}},
	"date":          {params: `"type":"date"`, values: []string{`"2023-11-14T22:13:20.123Z"`, `1700000000000`, `"2023-11-14"`, `-1`, `"1969-01-01T00:00:00+02:00"`, `"+12023-11-14T00:00:00Z"`, `"-0001-11-14"`, `"0999-01-01"`}},
	"date_seconds":  {params: `"type":"date","format":"epoch_second"`, values: []string{`1700000000`, `1700000001.5`, `12`}},
	"date_millis":   {params: `"type":"date","format":"epoch_millis"`, values: []string{`1700000000000`, `5`, `-5`}},
	"date_custom":   {params: `"type":"date","format":"yyyy/MM/dd HH:mm:ss||epoch_millis"`, values: []string{`"2023/11/14 22:13:20"`, `1700000000001`}},
	"date_print":    {params: `"type":"date","format":"strict_date_optional_time||epoch_millis","print_format":"yyyy-MM-dd"`, values: []string{`"2023-11-14T22:13:20"`, `1700000000001`}},
	"nanos":         {params: `"type":"date_nanos"`, values: []string{`"2023-11-14T22:13:20.123456789Z"`, `"2023-11-14T22:13:20.12Z"`, `1700000000000`}},
	"nanos_full":    {params: `"type":"date_nanos","format":"strict_date_optional_time_nanos"`, values: []string{`"2023-11-14T22:13:20.123456789Z"`, `"2023-11-14T22:13:20.1234Z"`, `"2023-11-14"`}},
	"nanos_millis":  {params: `"type":"date_nanos","format":"epoch_millis"`, values: []string{`1700000000000.5`, `"1700000000000.123456"`, `7`}},
	"nanos_time":    {params: `"type":"date_nanos","format":"date_time"`, values: []string{`"2023-11-14T22:13:20.123456Z"`, `"2023-11-14T22:13:20.001Z"`}},
	"ip":            {params: `"type":"ip"`, values: []string{`"192.168.0.1"`, `"::1"`, `"2001:db8::ff00:42:8329"`, `"10.0.0.1"`, `"::ffff:1.2.3.4"`, `"1::"`, `"1:0:0:2:0:0:0:3"`, `"::1.2.3.4"`, `"0:0:1::"`}},
	"geo_point":     {params: `"type":"geo_point"`, values: []string{`{"lat":41.12,"lon":-71.34}`, `"40.5,-70.25"`, `[ -73.5, 12.25 ]`, `{"lat":0.0,"lon":0.00001}`}, nulls: true},
	"text":          {params: `"type":"text"`, values: []string{`"The quick 😀"`, `"brown\tfox"`, `"a"`, `"The quick 😀"`, `5`}, bare: true},
	"text_multi":    {params: `"type":"text","fields":{"raw":{"type":"keyword","ignore_above":8}}`, values: []string{`"zeta"`, `"alpha"`, `"longer than eight"`, `"zeta"`}, bare: true},
	"keyword_multi": {params: `"type":"keyword","fields":{"t":{"type":"text"},"n":{"type":"long","ignore_malformed":true}}`, values: []string{`"zeta"`, `"12"`, `"zeta"`}, bare: true},
	"wildcard":      {params: `"type":"wildcard"`, values: []string{`"zeta"`, `"alpha"`, `"zeta"`, `"ü😀\n"`}, bare: true},
	"binary":        {params: `"type":"binary","store":true`, values: []string{`"aGVsbG8="`, `"AAEC"`, `"aGVsbG8="`}, bare: true},
	"binary_values": {params: `"type":"binary","store":true,"doc_values":true`, values: []string{`"aGVsbG8="`, `"AAEC"`}, bare: true},
}

// derivedForms returns the mapping of all samples (with doc values, stored, and both), and documents with one form of values each.
func derivedForms() (properties string, docs []string) {
	forms := []func(s derivedSample) string{
		func(s derivedSample) string { return s.values[0] },
		func(s derivedSample) string { return "[" + strings.Join(s.values, ",") + "]" },
		func(s derivedSample) string { return "[" + s.values[len(s.values)-1] + "]" },
		func(derivedSample) string { return "null" },
		func(derivedSample) string { return "[]" },
		func(s derivedSample) string {
			if s.nulls {
				return s.values[0]
			}
			return "[null," + s.values[0] + ",null]"
		},
		func(s derivedSample) string { return orNull(s.ignored) },
	}
	var fields []string
	for i, suffix := range []string{"", "_both", "_stored"} {
		more := []string{"", `,"store":true`, `,"store":true,"doc_values":false`}[i]
		for _, name := range slices.Sorted(maps.Keys(derivedSamples)) {
			if s := derivedSamples[name]; i == 0 || !s.bare {
				fields = append(fields, fmt.Sprintf(`"%s%s":{%s%s}`, name, suffix, s.params, more))
			}
		}
	}
	for _, form := range forms {
		for i, suffix := range []string{"", "_both", "_stored"} {
			var members []string
			for _, name := range slices.Sorted(maps.Keys(derivedSamples)) {
				if s := derivedSamples[name]; i == 0 || !s.bare {
					members = append(members, fmt.Sprintf(`"%s%s":%s`, name, suffix, form(s)))
				}
			}
			docs = append(docs, "{"+strings.Join(members, ",")+"}")
		}
	}
	return strings.Join(fields, ","), append(docs, "{}")
}

// derivedOrder returns a mapping with so many names that the cluster's hash map of them has several layers. Two names have the same hash.
func derivedOrder() (properties string, docs []string) {
	names := []string{"Aa", "BB", "AaAa", "BBBB", "AaBB", "user", "message", "@timestamp", "ü", "😀", "_note"}
	for i := range 150 {
		names = append(names, fmt.Sprintf("f%d", i))
	}
	var fields, members []string
	for i, name := range names {
		fields = append(fields, fmt.Sprintf(`%q:{"type":%q}`, name, []string{"keyword", "text"}[i%2]))
		members = append(members, fmt.Sprintf(`%q:"v%d"`, name, i))
	}
	return strings.Join(fields, ","), []string{"{" + strings.Join(members, ",") + "}", `{"f3":"only","_note":"stored"}`}
}

const derivedObjects = `"k":{"type":"keyword"},"empty":{"type":"object"},"const":{"type":"constant_keyword","value":"fix \"😀\""},
"obj":{"properties":{"x":{"type":"keyword"},"const":{"type":"constant_keyword","value":"in"},"y":{"properties":{"z":{"type":"long"},"t":{"type":"text"}}}}}`

var derivedObjectSources = []string{
	`{}`, `{"k":"a"}`, `{"obj":{"x":"1"}}`, `{"const":"fix \"😀\""}`, `{"unmapped":{"a":1},"k":"q"}`,
	`{"obj":[{"x":"b","y":{"z":3}},{"x":"a","y":[{"z":1,"t":"one"},{"t":"two"}]}]}`, `{"obj.y.z":4,"obj":{"y.t":"dots"}}`,
}

// makeDerived creates the indices with derived sources.
func makeDerived(ctx context.Context, l *lab) error {
	if err := l.boot(ctx, "os3.8.0"); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	types, typeDocs := derivedForms()
	order, orderDocs := derivedOrder()
	indices := []struct {
		name, mapping string
		docs          []string
	}{
		{"types", `"dynamic":"false","properties":{` + types + `}`, typeDocs},
		{"order", `"properties":{` + order + `}`, orderDocs},
		{"objects", `"dynamic":"false","properties":{` + derivedObjects + `}`, derivedObjectSources},
		{"dots", `"disable_objects":true,"properties":{"a.b":{"type":"keyword"},"a.c":{"type":"long"}}`, []string{`{"a.b":"x","a":{"c":1}}`, `{"a.c":2}`}},
		{"dynamic", `"properties":{}`, []string{`{"s":"txt","n":1,"f":1.5,"b":true,"d":"2023-11-14","o":{"p":"q"}}`, `{"n2":12345678901,"a":[2,1],"e":{}}`}},
		{"lost", `"properties":{"m":{"type":"match_only_text"},"k":{"type":"keyword"}}`, []string{`{"m":"text that is not kept","k":"a"}`}},
	}
	for _, x := range indices {
		body := fmt.Sprintf(`{"settings":{"index":{"number_of_shards":1,"number_of_replicas":0,"derived_source.enabled":true}},"mappings":{%s}}`, x.mapping)
		if err := l.steps(ctx, step{"PUT /" + x.name, body}); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		if err := l.each(ctx, x.name, x.docs); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	return l.mergedDerived(ctx, types, typeDocs)
}

// mergedDerived creates an index, replaces, deletes and merges its documents, then takes the snapshot.
func (l *lab) mergedDerived(ctx context.Context, types string, docs []string) error {
	body := `{"settings":{"index":{"number_of_shards":2,"number_of_replicas":0,"derived_source.enabled":true}},"mappings":{"dynamic":"false","properties":{` + types + `}}}`
	if err := l.steps(ctx, step{"PUT /merged", body}); err != nil {
		return err
	}
	for range 2 {
		if err := l.each(ctx, "merged", docs); err != nil {
			return err
		}
		if err := l.steps(ctx, step{"POST /merged/_flush", ""}); err != nil {
			return err
		}
	}
	if err := l.steps(ctx, step{"DELETE /merged/_doc/3", ""}, step{"POST /merged/_forcemerge?max_num_segments=1", ""}); err != nil {
		return err
	}
	if err := l.ask(ctx, "dynamic", "merged", "objects", "order", "types"); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}
