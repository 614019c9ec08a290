package main

import (
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/rebuild"
)

func TestSourcesAreShown(t *testing.T) {
	whole := plan.Sources{State: plan.SourcesRebuilt, Reason: "synthetic source (logsdb)", Fields: []rebuild.FieldState{{Field: "a", Type: "long", State: rebuild.Exact}}}
	missing := plan.Sources{State: plan.SourcesMissing, Reason: "_source is disabled", Remedy: "do that"}
	var b strings.Builder
	writeSources(&b, []shownIndex{
		{Index: "plain", Sources: plan.Sources{State: plan.SourcesStored}}, {Index: "damaged", Error: "x"}, {Index: "logs", Sources: whole}, {Index: "off", Sources: missing},
	})
	const want = "logs: sources rebuilt: synthetic source (logsdb); rebuilt as the cluster answers it: 1 fields exact\noff: sources missing: _source is disabled\n"
	if b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}
