package config

import (
	"strings"
	"testing"
)

func TestWhatANodeComparesAtItsEnd(t *testing.T) {
	for _, c := range []struct {
		name  string
		given Values
		says  string // "": accepted
	}{
		{"no comparison", Values{}, ""},
		{"at its end", Values{"verify": {"true"}, "exit-when-done": {"true"}, "target-host": {"http://127.0.0.1:9200"}}, ""},
		{"it does not end", Values{"verify": {"true"}, "target-host": {"http://127.0.0.1:9200"}}, "--exit-when-done"},
		{"files", Values{"verify": {"true"}, "exit-when-done": {"true"}, "target-host": {"http://127.0.0.1:9200"}, "from": {"out"}}, "rfsd verify --from"},
		{"no cluster", Values{"verify": {"true"}, "exit-when-done": {"true"}}, "--target-host"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var own Own
			err := Decode(c.given, &own)
			var sent struct{ Transfer Transfer }
			if err == nil {
				if err = Decode(c.given, &sent); err == nil {
					err = own.CheckEnd(c.given.Text("from"), "", sent.Transfer)
				}
			}
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
