package rules

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// A document is neither left out nor kept by a condition that cannot be answered.
func TestUnreadableSourcesAreErrorsInEveryCondition(t *testing.T) {
	for _, where := range []string{
		"", // of the act itself
		`where = { field = "a", equals = 1 }`,
		`where = { field = "a", exists = false }`,
		`where = { not = { field = "a", equals = 1 } }`,
		`where = { all = [{ field = "a", equals = 1 }, { field = "b", equals = 1 }] }`,
		`where = { any = [{ field = "a", equals = 1 }, { field = "b", equals = 1 }] }`,
		`where = { not = { all = [{ field = "a", equals = 1 }] } }`,
		`where = { not = { any = [{ field = "a", equals = 1 }] } }`,
	} {
		for _, act := range []string{`leave-out = true`, `index = "y"`, `drop = ["a"]`, `rename = [{ from = "a", to = "c" }]`, `copy = [{ from = "a", to = "c" }]`} {
			if where == "" && (strings.HasPrefix(act, "leave-out") || strings.HasPrefix(act, "index")) {
				continue // needs no look at the source
			}
			for _, source := range []string{`{"a":`, `{"a":[1`, `["a"]`, `{"a" 1}`} {
				e := parse(t, "[[document]]\nmatch = \"*\"\n"+act+"\n"+where+"\n").Documents("x")
				d := doc.Document{Index: []byte("x"), Source: []byte(source)}
				keep, err := e.Edit(&d, 0)
				if err == nil || keep || string(d.Index) != "x" || string(d.Source) != source {
					t.Errorf("%s, %s, %q: keep %v, %v, now %s in %s", where, act, source, keep, err, d.Source, d.Index)
				}
			}
		}
	}
}

// Each edit reads what the one before it wrote: into the same buffer it would read what it has just overwritten.
func TestEditsThatLengthenADocumentDoNotReadWhatTheyWrote(t *testing.T) {
	long := strings.Repeat("long", 20)
	rule := `rename = [{ from = "a", to = "` + long + `1" }, { from = "b", to = "` + long + `2" }, { from = "c", to = "` + long + `3" }]` + "\n" +
		`copy = [{ from = "d", to = "e" }, { from = "d", to = "f" }]` + "\n" + `drop = ["d"]`
	e := parse(t, "[[document]]\nmatch = \"*\"\n"+rule+"\n").Documents("x")
	for _, c := range []struct{ before, after string }{
		{`{"a":1,"b":2,"c":3,"d":"x"}`, `{"` + long + `1":1,"` + long + `2":2,"` + long + `3":3,"e":"x","f":"x"}`},
		{`{"c":3,"b":2,"a":1,"d":[1,2]}`, `{"` + long + `3":3,"` + long + `2":2,"` + long + `1":1,"e":[1,2],"f":[1,2]}`},
	} {
		for range 3 { // buffers have grown
			d := doc.Document{Source: []byte(c.before)}
			if keep, err := e.Edit(&d, 0); err != nil || !keep || string(d.Source) != c.after {
				t.Errorf("%s became %s, want %s: %v", c.before, d.Source, c.after, err)
			}
		}
	}
}
