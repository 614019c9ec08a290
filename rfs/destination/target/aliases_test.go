package target

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// TestAliasesThatDocumentsCannotBeSentTo asks about the name x, which is an index, a plain alias, or another one.
func TestAliasesThatDocumentsCannotBeSentTo(t *testing.T) {
	for name, c := range map[string]struct {
		indices string // as the target states them
		why     string // "": documents can be sent
	}{
		"an index":                      {indices: `"x":{"aliases":{"y":{"routing":"1"}}}`},
		"an alias":                      {indices: `"a":{"aliases":{"x":{},"y":{"filter":{}}}}`},
		"an alias for writing":          {indices: `"a":{"aliases":{"x":{"is_write_index":true}}}`},
		"an alias with a routing":       {indices: `"a":{"aliases":{"x":{"index_routing":"5","search_routing":"5"}}}`, why: "x is an alias of index a with index_routing and search_routing"},
		"an alias with a filter":        {indices: `"a":{"aliases":{"x":{"filter":{"term":{"n":1}}}}}`, why: "x is an alias of index a with filter"},
		"an alias of two indices":       {indices: `"a":{"aliases":{"x":{}}},"b":{"aliases":{"x":{}}}`, why: "x is an alias of 2 indices"},
		"an alias with one to write to": {indices: `"a":{"aliases":{"x":{"is_write_index":true}}},"b":{"aliases":{"x":{}}}`, why: "x is an alias of 2 indices"},
	} {
		t.Run(name, func(t *testing.T) {
			client := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if p := r.URL.Path; p != "/x" && p != "/x,absent/_alias" {
					t.Errorf("asked for %s", r.URL)
				}
				answer(200, "{"+strings.ReplaceAll(c.indices, `"aliases":`, `"settings":{"index.uuid":"u"},"aliases":`)+"}")(w, r)
			})
			found, err := client.UnfitAliases(t.Context(), []string{"x", "absent"})
			if err != nil || len(found) > 1 || !strings.HasPrefix(found["x"], c.why) || (found["x"] == "") != (c.why == "") {
				t.Errorf("%q, %v; want %q", found, err, c.why)
			}
			uuid, err := client.IndexUUID(t.Context(), "x")
			switch {
			case c.why == "" && (err != nil || uuid != "u"):
				t.Errorf("UUID %q, %v", uuid, err)
			case c.why != "" && (!errors.Is(err, fault.ErrConfig) || !strings.Contains(fault.Text(err), "--index-rename")):
				t.Errorf("UUID %q, %v", uuid, err)
			}
		})
	}
}
