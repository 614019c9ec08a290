package config_test

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
)

func TestWhatANodeComparesAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		given config.Values
		says  string // "": accepted
	}{
		{"no comparison", config.Values{}, ""},
		{"at its end", config.Values{"verify": {"true"}, "exit-when-done": {"true"}, "target-host": {"http://127.0.0.1:9200"}}, ""},
		{"it does not end", config.Values{"verify": {"true"}, "target-host": {"http://127.0.0.1:9200"}}, "--exit-when-done"},
		{"files", config.Values{"verify": {"true"}, "exit-when-done": {"true"}, "target-host": {"http://127.0.0.1:9200"}, "from": {"out"}}, "rfsd verify --from"},
		{"no cluster", config.Values{"verify": {"true"}, "exit-when-done": {"true"}}, "--target-host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var own config.Own
			err := config.Decode(c.given, &own)
			var sent struct{ Transfer config.Transfer }
			if err == nil {
				if err = config.Decode(c.given, &sent); err == nil {
					err = own.CheckEnd(c.given.Text("from"), "", sent.Transfer)
				}
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
