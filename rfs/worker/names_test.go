package worker

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/metadata"
)

// TestSession_AnEntryNamesWhatTheSettingsName: who writes the coordination store cannot send documents to another index.
func TestSession_AnEntryNamesWhatTheSettingsName(t *testing.T) {
	for _, c := range []struct {
		name, target string
		stream       bool
		refused      bool
	}{
		{"docs", "new-docs", false, false},
		{"docs", "payroll", false, true},
		{"docs", "docs", false, true},
		{"docs", "payroll", true, true},
		{".ds-logs-1", "new-.ds-logs-1", true, false},
	} {
		s := process(t, newMemory(), newOutside(), 1, &life{})
		s.Names = func(index string) string { return "new-" + index }
		e := Entry{Naming: Naming{Index: c.target}, Shards: 1}
		if c.stream {
			e.Stream = &metadata.StreamPart{Stream: "logs"}
		}
		haveIndex(t, s.Coordinator, c.name, "uuid", e)
		if err := s.checkNames(c.name, Entry{Naming: Naming{Index: s.Names(c.name)}, Late: map[string]json.RawMessage{"payroll": nil}}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("aliases of another index: %v", err)
		}
		_, err := s.entry(t.Context(), c.name, 0)
		if errors.Is(err, fault.ErrConfig) != c.refused || !c.refused && err != nil {
			t.Errorf("%s to %s: %v", c.name, c.target, err)
		}
	}
}
