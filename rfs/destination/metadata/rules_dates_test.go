package metadata

import (
	"encoding/json"
	"testing"
)

func TestDatePatternsOfJodaAreWrittenForJava(t *testing.T) {
	for _, c := range []struct{ created, in, want string }{
		{"1070699", "dateOptionalTime", "date_optional_time||epoch_millis"},
		{"1070699", "YYYY/MM/dd||epoch_millis", "yyyy/MM/dd||epoch_millis"},
		{"2040699", "yyyy-MM-dd'T'HH:mm:ss.SSSZZ", "yyyy-MM-dd'T'HH:mm:ss.SSSXXX"},
		{"5061699", "xxxx-'W'ww-e 'YZ' Z||strict_date_optional_time", "YYYY-'W'ww-e 'YZ' XX||strict_date_optional_time"},
		{"6082399", "YYYY ZZZ||date||basicDate", "yyyy VV||date||basic_date"},
		{"6082399", "8YYYY||Z", "YYYY||Z"},
		{"7100299", "YYYY Z", "YYYY Z"},
		{"136408127", "YYYY Z", "YYYY Z"},
		{"8512000", "strictDateOptionalTime||epoch_millis", "strict_date_optional_time||epoch_millis"},
	} {
		t.Run(c.created+" "+c.in, func(t *testing.T) {
			f, err := json.Marshal(c.in)
			if err != nil {
				t.Fatal(err)
			}
			in := Index{Settings: map[string]string{"index.version.created": c.created},
				Mappings: []Mapping{{"t", json.RawMessage(`{"properties":{"d":{"type":"date","format":` + string(f) + `}}}`)}}}
			body, _, err := Convert(os219, Wanted{Name: "i", Index: in})
			if err != nil {
				t.Fatal(err)
			}
			got := tree(t, body)["mappings"].(map[string]any)["properties"].(map[string]any)["d"].(map[string]any)["format"]
			if got != c.want {
				t.Errorf("%v, want %s", got, c.want)
			}
		})
	}
}
