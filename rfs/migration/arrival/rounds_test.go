package arrival

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// TestRoundNote: what a round cannot have left on its targets is named, and nothing else.
func TestRoundNote(t *testing.T) {
	for _, c := range []struct {
		name  string
		is    progress.Arrival
		whole bool
		want  []string // none: no note
	}{
		{"as expected", progress.Arrival{Expected: 5, Found: 5, Operations: 3, Written: 3, Accounted: true}, false, nil},
		{"fewer documents", progress.Arrival{Expected: 5, Found: 4, Operations: 3, Written: 3, Accounted: true}, false, []string{"5 documents were expected"}},
		{"a shard was sent as a whole", progress.Arrival{Expected: 5, Found: 4}, true, nil},
		{"writes of others", progress.Arrival{Expected: 5, Found: 5, Operations: 5, Written: 3, Accounted: true}, false, []string{"2 operations on it during this round are not of the round"}},
		{"new documents of others", progress.Arrival{Expected: 5, Found: 6, Operations: 4, Written: 3, Accounted: true}, false, []string{"5 documents were expected", "1 operations"}},
		{"operations are unknown", progress.Arrival{Expected: 5, Found: 5, Operations: 5, Written: 3}, false, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			note := roundNote(&arrivalGroup{all: []*arriving{{whole: c.whole}}}, &c.is)
			for _, want := range c.want {
				if !strings.Contains(note, want) {
					t.Errorf("%q lacks %q", note, want)
				}
			}
			if len(c.want) == 0 && note != "" {
				t.Errorf("%q", note)
			}
		})
	}
}
