package phase_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/phase"
)

const (
	docBegin = "<!-- generated from the table in rfs/migration/phase/phases.go: RFSD_UPDATE=1 go test ./rfs/migration/phase -run PhasesDocument -->\n"
	docEnd   = "<!-- end of the generated part -->\n"
)

// stateOf names a state for people.
func stateOf(state string) string {
	if state == "" {
		return "(no record)"
	}
	return state
}

// recordContents is what the bodies of the records hold.
var recordContents = map[string]string{
	session.SnapshotPhase: "name, repository, UUID, shards and bytes",
	session.MetadataPhase: "created, existing and omitted objects, with the reasons",
	session.IndexPhase:    "snapshot, number of indices, omitted indices, missing shards",
	session.DocsPhase:     "the items are records of their own; the lease in SETUP is the one of `shard_setup`, attempts are failed attempts",
}

// phaseTable is the state machine as a table and as a diagram.
func phaseTable() string {
	var b strings.Builder
	b.WriteString("\n| phase | record | state | what a worker does | what follows | when tried again |\n|---|---|---|---|---|---|\n")
	fmt.Fprintf(&b, "| %s | `meta` | | start the session or join it; other settings than those at its start are refused | 1 | |\n", phase.Start)
	for _, r := range phase.Machine() {
		fmt.Fprintf(&b, "| %s %s | `phase:%s` | %s | %s | %s | %s |\n", r.Number, r.Phase, r.Record, stateOf(r.State), r.Does,
			strings.Join(r.Next, ", "), strings.Join(r.Again, ", "))
	}
	b.WriteString("\n```mermaid\nstateDiagram-v2\n    [*] --> snapshot_none: container start\n")
	first := map[string]string{} // number of a phase → its first state
	for _, r := range phase.Machine() {
		if _, ok := first[r.Number]; !ok {
			first[r.Number] = node(r.Record, r.State)
		}
	}
	for _, r := range phase.Machine() {
		for _, next := range r.Next {
			to := node(r.Record, next)
			switch {
			case next == phase.End:
				to = "[*]"
			case first[next] != "":
				to = first[next]
			}
			fmt.Fprintf(&b, "    %s --> %s\n", node(r.Record, r.State), to)
		}
		for _, again := range r.Again {
			fmt.Fprintf(&b, "    %s --> %s: try again\n", node(r.Record, r.State), node(r.Record, again))
		}
	}
	b.WriteString("```\n\n| record | `state` | `expire`, `attempts` | content |\n|---|---|---|---|\n")
	for _, name := range session.PhaseNames() {
		var states []string
		for _, r := range phase.Machine() {
			if r.Record == name && r.State != "" {
				states = append(states, r.State)
			}
		}
		fmt.Fprintf(&b, "| `phase:%s` | %s | end of the lease, and attempts | %s |\n", name, strings.Join(states, ", "), recordContents[name])
	}
	b.WriteString("\n")
	return b.String()
}

func node(record, state string) string {
	if state == "" {
		state = "none"
	}
	return record + "_" + state
}

func TestPhasesDocumentShowsTheTable(t *testing.T) {
	name := filepath.Join("..", "..", "..", "docs", "PHASES.md")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(b), docBegin)
	_, tail, ok2 := strings.Cut(rest, docEnd)
	if !ok || !ok2 {
		t.Fatalf("%s lacks the marks of its generated part", name)
	}
	want := head + docBegin + phaseTable() + docEnd + tail
	if want == string(b) {
		return
	}
	if os.Getenv("RFSD_UPDATE") == "" {
		t.Fatalf("%s differs from the table in phases.go; RFSD_UPDATE=1 writes it", name)
	}
	if err := os.WriteFile(name, []byte(want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestEveryStateIsReachedAndLeadsToTheEnd walks the table.
func TestEveryStateIsReachedAndLeadsToTheEnd(t *testing.T) {
	rows := phase.Machine()
	at := func(record, state string) int {
		return slices.IndexFunc(rows, func(r phase.Row) bool { return r.Record == record && r.State == state })
	}
	reached, ends := map[int]bool{}, false
	next := []int{0}
	for len(next) > 0 {
		i := next[0]
		next = next[1:]
		if reached[i] {
			continue
		}
		reached[i] = true
		for _, to := range rows[i].Next {
			j := at(rows[i].Record, to)
			if j < 0 {
				j = slices.IndexFunc(rows, func(r phase.Row) bool { return r.Number == to })
			}
			switch {
			case to == phase.End:
				ends = true
			case j < 0:
				t.Errorf("%s in %s is followed by %q, which is not a line", rows[i].Record, stateOf(rows[i].State), to)
			default:
				next = append(next, j)
			}
		}
	}
	for i, r := range rows {
		if !reached[i] {
			t.Errorf("%s in %s is never reached", r.Record, stateOf(r.State))
		}
		if r.Does.String() == "" {
			t.Errorf("%s in %s: no description of what is done", r.Record, stateOf(r.State))
		}
	}
	if !ends {
		t.Error("nothing ends")
	}
}

func TestParsePhases(t *testing.T) {
	for in, want := range map[string]phase.Phases{
		"": nil, "indices": {phase.PhaseIndices}, " documents , snapshot,": {phase.PhaseDocuments, phase.PhaseSnapshot}, "snapshot,metadata,indices,documents": {phase.PhaseSnapshot, phase.PhaseMetadata, phase.PhaseIndices, phase.PhaseDocuments},
	} {
		if got, err := phase.ParsePhases(in); !slices.Equal(got, want) || err != nil {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := phase.ParsePhases("documents,index"); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), `"index"`) {
		t.Errorf("%v", err)
	}
}
