package phase_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

func TestChoose(t *testing.T) {
	for _, c := range []struct {
		name             string
		wanted           phase.Phases
		created, cluster bool
		want             phase.Phases
		refusal          string
	}{
		{"all of a live source", nil, true, true, phase.Phases{"snapshot", "metadata", "indices", "documents"}, ""},
		{"all of a snapshot", nil, false, true, phase.Phases{"metadata", "indices", "documents"}, ""},
		{"all of an export", nil, false, false, phase.Phases{"documents"}, ""},
		{"some", phase.Phases{"indices"}, true, true, phase.Phases{"indices"}, ""},
		{"a snapshot that exists", phase.Phases{"snapshot"}, false, true, nil, "needs a source cluster (--source-host)"},
		{"indices of an export", phase.Phases{"documents", "indices"}, false, false, nil, "indices needs a target cluster (--target-host)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := phase.Choose(c.wanted, c.created, c.cluster)
			if c.refusal != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refusal) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%v, %v", got, err)
			}
			if left := got.Without(phase.PhaseSnapshot); left.Has(phase.PhaseSnapshot) || len(left) != len(slices.DeleteFunc(slices.Clone(c.want), func(x string) bool { return x == "snapshot" })) {
				t.Errorf("without the snapshot: %v", left)
			}
		})
	}
}
