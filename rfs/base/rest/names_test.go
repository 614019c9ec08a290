package rest_test

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/rest"
)

// TestInParts: every name is in one path, in order, and no path is longer than a request line.
func TestInParts(t *testing.T) {
	many := func(n int, name string) (names []string) {
		for i := range n {
			names = append(names, fmt.Sprintf("%s%04d", name, i))
		}
		return names
	}
	for _, c := range []struct {
		name  string
		names []string
		parts int
	}{
		{"none", nil, 0},
		{"one", []string{"a"}, 1},
		{"one that is too long", []string{strings.Repeat("a", 3000)}, 1},
		{"short names", many(100, "i"), 1},
		{"long names", many(100, strings.Repeat("i", 200)), 34},
		{"names of escaped letters", many(100, strings.Repeat("索", 60)), 25},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all []string
			parts := 0
			for part, path := range rest.InParts(c.names) {
				parts++
				all = append(all, part...)
				if len(path) > 4000 {
					t.Errorf("a path of %d bytes", len(path))
				}
				if is, err := url.PathUnescape(path); err != nil || is != "/"+strings.Join(part, ",") {
					t.Errorf("%s, %v", is, err)
				}
			}
			if parts != c.parts || !slices.Equal(all, c.names) {
				t.Errorf("%d names in %d parts, want %d in %d", len(all), parts, len(c.names), c.parts)
			}
		})
	}
}
