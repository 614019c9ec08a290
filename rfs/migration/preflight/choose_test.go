package preflight_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name    string
		wanted  preflight.Sections
		cluster bool
		version string
		want    preflight.Sections
		refusal string
	}{
		{"all of a cluster", nil, true, "", preflight.AllSections(), ""},
		{"all of a version", nil, false, "2.19", preflight.Sections{preflight.Changes, preflight.Sizes}, ""},
		{"all without a target", nil, false, "", preflight.Sections{preflight.Sizes}, ""},
		{"one", preflight.Sections{preflight.Access}, true, "", preflight.Sections{preflight.Access}, ""},
		{"a version and a cluster", nil, true, "2.19", nil, "exclude each other"},
		{"access to a version", preflight.Sections{preflight.Sizes, preflight.Access}, false, "2.19", nil, "--only access needs a target"},
		{"changes without a target", preflight.Sections{preflight.Changes}, false, "", nil, "--only changes needs a target"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := preflight.Choose(c.wanted, c.cluster, c.version)
			if c.refusal != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refusal) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v", got, err)
			}
		})
	}
}
