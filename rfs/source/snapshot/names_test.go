package snapshot

import (
	"fmt"
	"strings"
	"testing"
)

// TestCatalog_NamesSnapshots: an unknown snapshot is answered with the others in order, but not with thousands of them.
func TestCatalog_NamesSnapshots(t *testing.T) {
	for _, c := range []struct {
		held int
		want string // ends the list
	}{
		{0, "which holds none ("},
		{3, "which holds s00, s01, s02 ("},
		{mostNamed, "s48, s49 ("},
		{1000, " and 950 more ("},
	} {
		is := Catalog{newest: map[string]int32{}, blob: "index-1"}
		for n := range c.held {
			is.newest[fmt.Sprintf("s%02d", n)] = int32(n)
		}
		if _, err := is.Find("nope"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d snapshots: %v", c.held, err)
		}
	}
}
