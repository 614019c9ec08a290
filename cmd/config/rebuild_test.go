package config

import (
	"strings"
	"testing"
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
			m := Migrate{Conversion: Conversion{RebuildSources: c.sources, RebuildText: c.text}}
			m.Repository.URI, m.Snapshot.Name, m.Export.Discard = "/repo", "s", true
			err := m.Check()
			if refused := err != nil && strings.Contains(err.Error(), "give --rebuild-sources, too"); refused != c.refused {
				t.Errorf("%v, want a refusal: %v", err, c.refused)
			}
		})
	}
}
