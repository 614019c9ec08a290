package plan

import (
	"slices"
	"testing"
)

func TestOneTypeKeepsTheNameOfTheIndex(t *testing.T) {
	n := newNaming("logs", []string{"doc"}, SplitTypes, EmitAuto, nil)
	if !slices.Equal(n.Targets(), []string{"logs"}) || n.TypeOf("logs") != "" {
		t.Errorf("%+v", n)
	}
}
