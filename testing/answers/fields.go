package answers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/testing/rest"
)

// Record sends searches of every field of an index to a cluster and returns the answers: the documents with the field, the number of
// values and the values, counts by day, and the documents with the first value, with the last, and with values in between. Searches
// that the source itself refuses (aggregations of counters) are left out.
func Record(ctx context.Context, c rest.Client, index string) ([]Search, error) {
	var answer map[string]struct {
		Mappings field
	}
	if err := c.JSON(ctx, http.MethodGet, "/"+index+"/_mapping", nil, &answer); err != nil {
		return nil, err
	}
	of, _, err := ask(ctx, c, ofFields(index, answer[index].Mappings))
	if err != nil {
		return nil, err
	}
	values, err := ofValues(of)
	if err != nil {
		return nil, err
	}
	values, _, err = ask(ctx, c, values)
	return append(of, values...), err
}

// field is a field of a mapping, or the mapping.
type field struct {
	Type       string           `json:"type"`
	Format     string           `json:"format"`
	DocValues  json.RawMessage  `json:"doc_values"` // a boolean, or an object with their parameters
	Metric     string           `json:"time_series_metric"`
	Properties map[string]field `json:"properties"`
	Fields     map[string]field `json:"fields"`
	path       string
	nested     string // the path of the innermost nested object
}

// leaves returns the fields below f, sorted by path.
func (f field) leaves() (all []field) {
	nested := f.nested
	if f.Type == "nested" {
		nested = f.path
	}
	for _, below := range []map[string]field{f.Properties, f.Fields} {
		for name, c := range below {
			c.path, c.nested = strings.TrimPrefix(f.path+"."+name, "."), nested
			all = append(append(all, c), c.leaves()...)
		}
	}
	slices.SortFunc(all, func(a, b field) int { return strings.Compare(a.path, b.path) })
	return all
}

// aggregations returns the aggregations of the field's type, as members of a JSON object; known is false for a type without any.
func (f field) aggregations() (members string, known bool) {
	const values = `"terms":{"terms":{"field":%[1]q,"size":100,"order":{"_key":"asc"}}},"cardinality":{"cardinality":{"field":%[1]q}},"count":{"value_count":{"field":%[1]q}}`
	switch f.Type {
	case "long", "integer", "short", "byte", "double", "float", "half_float", "unsigned_long", "scaled_float":
		members = fmt.Sprintf(values+`,"stats":{"stats":{"field":%[1]q}}`, f.path)
		if f.path == "place" || f.path == "g" { // not negative; percentiles of other fields differ from version to version
			members += fmt.Sprintf(`,"percentiles":{"percentiles":{"field":%q,"hdr":{"number_of_significant_value_digits":3}}}`, f.path)
		}
	case "date", "date_nanos":
		members = fmt.Sprintf(values+`,"days":{"date_histogram":{"field":%[1]q,"calendar_interval":"day","min_doc_count":1}}`, f.path)
	case "keyword", "ip", "boolean":
		members = fmt.Sprintf(values, f.path)
	case "text":
		return "", true
	default:
		return "", false
	}
	if string(f.DocValues) == "false" || f.Metric == "counter" {
		members = ""
	}
	return members, true
}

// words are the search terms for analyzed text.
var words = []string{"quick", "zeta", "alpha", "text"}

// ofFields returns searches for the documents with each field, and for its values.
func ofFields(index string, mapping field) []Search {
	all := []Search{{Index: index, Body: json.RawMessage(`{"size":1000,"_source":false,"query":{"match_all":{}}}`)}}
	for _, f := range mapping.leaves() {
		aggregations, known := f.aggregations()
		if !known {
			continue
		}
		all = append(all, Search{Index: index, Body: f.search(fmt.Sprintf(`{"exists":{"field":%q}}`, f.path), aggregations)})
		if f.Type == "text" {
			for _, w := range words {
				all = append(all, Search{Index: index, Body: f.search(fmt.Sprintf(`{"match":{%q:%q}}`, f.path, w), "")})
			}
		}
	}
	return all
}

// search returns the body of a search of the field, within its nested object if it is in one.
func (f field) search(query, aggregations string) json.RawMessage {
	if aggregations != "" {
		aggregations = `,"aggs":{` + aggregations + `}`
	}
	if f.nested != "" {
		query = fmt.Sprintf(`{"nested":{"path":%q,"query":%s}}`, f.nested, query)
		if aggregations != "" {
			aggregations = fmt.Sprintf(`,"aggs":{"nested":{"nested":{"path":%q}%s}}`, f.nested, aggregations)
		}
	}
	return json.RawMessage(fmt.Sprintf(`{"size":1000,"_source":false,"query":%s%s}`, query, aggregations))
}

// exists decodes a query of ofFields.
type exists struct{ Exists struct{ Field string } }

// buckets decodes the values in an answer to a search of ofFields.
type buckets struct {
	Terms struct {
		Buckets []struct {
			Key  json.RawMessage
			Text json.RawMessage `json:"key_as_string"`
		}
	}
}

// ofValues returns searches for the first and the last of the found values, and for the range between them.
func ofValues(found []Search) (all []Search, err error) {
	for _, s := range found {
		if s.Aggregations == nil {
			continue
		}
		var body struct {
			Query struct {
				exists
				Nested struct {
					Path  string
					Query exists
				}
			}
		}
		var answer struct {
			buckets
			Nested *buckets
		}
		if err := json.Unmarshal(s.Body, &body); err != nil {
			return nil, err
		}
		if err := json.Unmarshal(s.Aggregations, &answer); err != nil {
			return nil, err
		}
		f, values := field{path: body.Query.Exists.Field}, answer.Terms.Buckets
		if answer.Nested != nil {
			f, values = field{path: body.Query.Nested.Query.Exists.Field, nested: body.Query.Nested.Path}, answer.Nested.Terms.Buckets
		}
		if len(values) == 0 {
			continue
		}
		value := func(i int) json.RawMessage {
			if values[i].Text != nil {
				return values[i].Text
			}
			return values[i].Key
		}
		low, high := value(0), value(len(values)-1)
		for _, query := range []string{
			fmt.Sprintf(`{"term":{%q:%s}}`, f.path, low), fmt.Sprintf(`{"term":{%q:%s}}`, f.path, high), fmt.Sprintf(`{"range":{%q:{"gte":%s,"lt":%s}}}`, f.path, low, high),
		} {
			all = append(all, Search{Index: s.Index, Body: f.search(query, "")})
		}
	}
	return all, nil
}
