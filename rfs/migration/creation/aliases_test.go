package creation_test

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/testing/creationtest"
)

func TestAliasesWaitOnlyOnIndicesThatThisSessionCreated(t *testing.T) {
	for _, c := range []struct {
		name    string
		when    metadata.AliasTime
		aliases string
		early   bool
		late    bool
	}{
		{"plain", metadata.AliasesAuto, `{"all":{}}`, true, false},
		{"filter", metadata.AliasesAuto, `{"some":{"filter":{"term":{"a":1}}}}`, false, true},
		{"for writing", metadata.AliasesAuto, `{"all":{"is_write_index":true}}`, false, true},
		{"plain, late", metadata.AliasesLate, `{"all":{}}`, false, true},
		{"filter, early", metadata.AliasesEarly, `{"some":{"filter":{"term":{"a":1}}}}`, true, false},
		{"none", metadata.AliasesLate, ``, false, false},
	} {
		on := creationtest.NewIndices()
		x := twoTypes(plan.Naming{Types: []string{"post"}}).Indices[0]
		x.Source.Aliases = json.RawMessage(c.aliases)
		x.Entry.Ours = []string{"blog"}
		tries := &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Overrides: metadata.Overrides{Aliases: c.when}, Log: slog.New(slog.DiscardHandler)}
		for range 2 { // again, as after a death before the entry was completed
			made, err := tries.Make(t.Context(), x)
			if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if early := strings.Contains(on.Bodies["blog"], `"aliases"`); early != c.early || (made.Late["blog"] != nil) != c.late {
				t.Errorf("%s: created with %s, later %s", c.name, on.Bodies["blog"], made.Late["blog"])
			}
		}
		if err := tries.SetAliases(t.Context(), "blog", json.RawMessage(c.aliases)); err != nil || on.Aliases["blog"] != c.aliases {
			t.Errorf("%s: set %s, %v", c.name, on.Aliases["blog"], err)
		}
		x.Entry.Ours = nil
		if made, err := tries.Make(t.Context(), x); err != nil || len(made.Late) > 0 {
			t.Errorf("%s: an index that was there before: %s, %v", c.name, made.Late, err)
		}
	}
}
