package cms_test

import (
	"errors"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

func TestItemIDOfKind(t *testing.T) {
	for _, c := range []struct {
		name string
		id   cms.ItemID
		wire string
	}{
		{"a shard has no kind", cms.ItemID{Index: "logs"}, "bG9ncw__0__0"},
		{"another kind is its prefix", cms.ItemID{Kind: "import", Index: "logs", Shard: 2, Cursor: 7}, "import:bG9ncw__2__7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.id.String(); got != c.wire {
				t.Errorf("got %s, want %s", got, c.wire)
			}
			if got, err := cms.ParseID(c.wire); err != nil || got != c.id {
				t.Errorf("%s reads as %+v, %v", c.wire, got, err)
			}
		})
	}
	for _, wire := range []string{":bG9ncw__0__0", "Import:bG9ncw__0__0", "a:b:bG9ncw__0__0", "import:setup", "import:"} {
		if id, err := cms.ParseID(wire); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s reads as %+v, %v", wire, id, err)
		}
	}
}
