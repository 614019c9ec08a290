package config_test

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/config"
)

// TestApproximateTextIsAskedForTwice: --rebuild-text-from-terms alone is refused and states what to add.
func TestApproximateTextIsAskedForTwice(t *testing.T) {
	for _, c := range []struct {
		name          string
		sources, text bool
		refused       bool
	}{
		{"neither", false, false, false}, {"sources", true, false, false}, {"text alone", false, true, true}, {"both", true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := config.Migrate{Conversion: config.Conversion{RebuildSources: c.sources, RebuildText: c.text}}
			m.Repository.URI, m.Snapshot.Name, m.Export.Discard = "/repo", "s", true
			err := m.Check()
			if refused := err != nil && strings.Contains(err.Error(), "give --rebuild-sources, too"); refused != c.refused {
				t.Errorf("%v, want a refusal: %v", err, c.refused)
			}
		})
	}
}
