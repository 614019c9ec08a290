package snapshot

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestNesting_IsBoundedByPathsAndText: what is made of a mapping holds the path of each field, so that the paths count, not the depth.
func TestNesting_IsBoundedByPathsAndText(t *testing.T) {
	long := strings.Repeat("n", 4000)
	nested := func(open, inner string, n int) string {
		return strings.Repeat(open, n) + inner + strings.Repeat("}", n*strings.Count(open, "{"))
	}
	var wide strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&wide, `"field_%d":{"type":"keyword","fields":{"k":{"type":"text"}}},`, i)
	}
	wide.WriteString(`"last":{}`)
	for _, c := range []struct {
		name, mappings, settings string
		refused                  bool
	}{
		{"300,000 fields with a field each", `{"_doc":{"properties":{` + wide.String() + `}}}`, `{}`, false},
		{"900 levels of short names", `{"_doc":{"properties":{` + nested(`"o":{"properties":{`, `"f":{}`, 900) + `}}}`, `{}`, false},
		{"100 levels of long names", `{"_doc":{"properties":{` + nested(`"`+long+`":{"properties":{`, `"f":{}`, 100) + `}}}`, `{}`, false},
		{"990 levels of long names", `{"_doc":{"properties":{` + nested(`"`+long+`":{"properties":{`, `"f":{}`, 990) + `}}}`, `{}`, true},
		{"990 levels of fields of fields", `[{"_doc":{"properties":{"f":{` + nested(`"fields":{"`+long+`":{`, `"type":"text"`, 990) + `}}}}]`, `{}`, true},
		{"arrays in between", `{"_doc":{"dynamic_templates":[` + nested(`{"`+long+`":`, `{}`, 990) + `]}}`, `{}`, true},
		{"900 levels around a long text", `{"_doc":{"properties":{` + nested(`"o":{"properties":{`, `"f":"`+strings.Repeat("x", 4<<20)+`"`, 900) + `}}}`, `{}`, true},
		{"a long escaped name", `{"_doc":{"properties":{"` + strings.Repeat(`\"`, 1000) + `":{}}}}`, `{}`, false},
		{"settings below long names", `{}`, `{"x":{` + nested(`"`+long+`":{`, `"a":[`+strings.Repeat("1,", 150_000)+`1]`, 2) + `}}`, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			settings := strings.Replace(c.settings, "{", `{"index.number_of_shards":1,`, 1)
			settings = strings.Replace(settings, ",}", "}", 1)
			err := (&Index{Name: "i"}).parse("meta.dat", []byte(`{"i":{"settings":`+settings+`,"mappings":`+c.mappings+`}}`))
			if refused := errors.Is(err, fault.ErrCorrupt) && strings.Contains(err.Error(), "meta.dat"); refused != c.refused || err != nil && !refused {
				t.Errorf("refused %t: %v", refused, err)
			}
		})
	}
}
