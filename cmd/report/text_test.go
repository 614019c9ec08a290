package report

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/cmd/output"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/migration/follow"
	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/rfs/migration/summary"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

func TestPlan_GroupsRepeatedDifferences(t *testing.T) {
	var e preflight.Report
	for n := range 12 {
		e.Indices = append(e.Indices, preflight.Index{Index: fmt.Sprintf("logs-%02d", n), Targets: []preflight.Object{{
			Name: fmt.Sprintf("logs-%02d", n), Changes: []preflight.Differs{{Path: "index.codec", Detail: "dropped", Rule: "r"}, {Path: "a", Detail: "gone", Rule: "s", Loses: true}},
		}}})
	}
	e.Indices[3].Targets[0].Changes[0].Detail = "another"
	var out bytes.Buffer
	writeDifferences(&out, &e)
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 3 || !strings.Contains(out.String(), "! 12 indices (logs-00, logs-01, logs-02 and 9 more): a: gone (s)") || !strings.Contains(out.String(), "logs-03: index.codec: another (r)") {
		t.Errorf("%s", out.String())
	}
}

func TestRedrive_NamesIndicesWithoutPolicies(t *testing.T) {
	r := Redrive{}
	for n := range 12 {
		r.PoliciesWait = append(r.PoliciesWait, fmt.Sprintf("logs-%02d", n))
	}
	var out bytes.Buffer
	r.WriteText(&out)
	if !strings.Contains(out.String(), "the same rfsd migrate or worker attaches it: logs-00, ") || !strings.Contains(out.String(), "logs-09 and 2 more\n") {
		t.Errorf("%s", out.String())
	}
}

func TestMigration_GroupsWhatManyIndicesShare(t *testing.T) {
	r := Migration{Summary: &summary.Summary{}}
	for n := range 12 {
		name := fmt.Sprintf("logs-%02d", n)
		r.Indices = append(r.Indices, summary.Index{Index: name, Targets: []string{name}, AliasesWait: true, Differs: []string{"index " + name + ": x is y"}})
	}
	var out bytes.Buffer
	r.WriteText(&out)
	if n := strings.Count(out.String(), "aliases wait"); n != 1 {
		t.Errorf("%d lines about aliases:\n%s", n, out.String())
	}
	if n := strings.Count(out.String(), "x is y"); n != 1 {
		t.Errorf("%d lines about differences:\n%s", n, out.String())
	}
}

func TestMigration_DocumentsOnTheTarget(t *testing.T) {
	index := func(name, target string, arrival *progress.Arrival) summary.Index {
		return summary.Index{Index: name, Targets: []string{target}, Shards: 1, Done: 1, Arrival: arrival}
	}
	for _, c := range []struct {
		name    string
		indices []summary.Index
		rows    map[string]string // the last two columns of a line
		text    string
	}{
		{"counted", []summary.Index{index("a", "a", &progress.Arrival{Found: 5, Lucene: 9}), index("b", "b", &progress.Arrival{Found: 2, Lucene: 2})},
			map[string]string{"INDEX": "ON TARGET LUCENE", "a": "5 9", "b": "2 2", "total": "7 11"}, ""},
		{"two that share a target count once", []summary.Index{index("a", "c", &progress.Arrival{Found: 5, Lucene: 9, Shared: true}), index("b", "c", &progress.Arrival{Found: 5, Lucene: 9, Shared: true})},
			map[string]string{"a": "5 9", "b": "5 9", "total": "5 9"}, "2 indices (a, b): the number on the target counts all indices with the target c"},
		{"what was not counted is not zero", []summary.Index{index("a", "a", &progress.Arrival{Uncounted: true, Note: "not counted: why"}), index("b", "b", &progress.Arrival{Found: 2, Lucene: 2})},
			map[string]string{"a": "- -", "b": "2 2", "total": "- -"}, "index a: the target has - documents, 0 were indexed: not counted: why"},
		{"of a former release", []summary.Index{index("a", "a", &progress.Arrival{Found: 5})}, map[string]string{"a": "5 -", "total": "5 -"}, ""},
		{"of files nothing is known", []summary.Index{index("a", "a", nil)}, map[string]string{"INDEX": "FILTERED BYTES", "a": "0 0 B"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			r := Migration{Summary: &summary.Summary{Indices: c.indices}}
			r.WriteText(&out)
			rows := map[string]string{}
			for line := range strings.Lines(out.String()) {
				if f := strings.Fields(line); len(f) > 2 {
					rows[f[0]] = strings.Join(f[1:], " ")
				}
			}
			for name, want := range c.rows {
				if !strings.HasSuffix(rows[name], " "+want) {
					t.Errorf("%s ends with %q, want %q", name, rows[name], want)
				}
			}
			if !strings.Contains(out.String(), c.text) {
				t.Errorf("no %q in\n%s", c.text, out.String())
			}
		})
	}
}

// Digits of counts are grouped; those of rounds and shards are names.
func TestMigration_Numbers(t *testing.T) {
	r := Migration{Summary: &summary.Summary{Problems: []summary.Problem{{Index: "a", Shard: 1234, Reason: "corrupt", Undelivered: 56789}}},
		Round: &follow.Report{Number: 1234, Snapshot: "s", Arrived: true}}
	var out bytes.Buffer
	r.WriteText(&out)
	for _, want := range []string{"index a shard 1234 failed", "shard 1234: at most 56,789 documents were", "round 1234: snapshot s"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in\n%s", want, out.String())
		}
	}
}

func TestMigration_DryRun(t *testing.T) {
	for _, dry := range []bool{true, false} {
		r := Migration{Summary: &summary.Summary{}, DryRun: dry}
		var out bytes.Buffer
		r.WriteText(&out)
		if strings.Contains(out.String(), "nothing was sent") != dry {
			t.Errorf("dry run %v:\n%s", dry, out.String())
		}
	}
}

func TestImport_Interrupted(t *testing.T) {
	for _, c := range []struct {
		name   string
		err    error
		has    []string
		hasNot string
	}{
		{"interrupted", context.Canceled, []string{"not complete: the same command continues", "36,000 documents were read by this process", "9,000"}, ""},
		{"the same command cannot continue", fmt.Errorf("other files: %w", fault.ErrConfig), []string{"not complete: remove the cause of the error"}, "the same command continues"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &Import{OwnDocuments: 36000, Status: importer.Status{}}
			r.Documents = 9000
			r.cause = c.err
			var out bytes.Buffer
			r.WriteText(&out)
			for _, want := range c.has {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is missing in\n%s", want, out.String())
				}
			}
			if c.hasNot != "" && strings.Contains(out.String(), c.hasNot) {
				t.Errorf("%q is in\n%s", c.hasNot, out.String())
			}
		})
	}
}

// TestConclude_NothingStarted: a run that is refused before anything is done prints its error alone.
func TestConclude_NothingStarted(t *testing.T) {
	refused := fmt.Errorf("the target has documents already: %w", fault.ErrConfig)
	for _, c := range []struct {
		name   string
		run    func(w *output.Writer) error
		prints bool
	}{
		{"a migration", func(w *output.Writer) error {
			return (&Migration{Summary: &summary.Summary{Phases: []summary.Phase{{Phase: "metadata", State: "in_progress"}}}}).Conclude(w, refused)
		}, false},
		{"a migration that has started", func(w *output.Writer) error {
			return (&Migration{Summary: &summary.Summary{Indices: []summary.Index{{Index: "a"}}}}).Conclude(w, refused)
		}, true},
		{"a migration that was interrupted", func(w *output.Writer) error {
			return (&Migration{Summary: &summary.Summary{}}).Conclude(w, context.Canceled)
		}, true},
		{"an import", func(w *output.Writer) error { return (&Import{}).Conclude(w, refused) }, false},
		{"an import that has started", func(w *output.Writer) error {
			return (&Import{Status: importer.Status{Totals: importer.Totals{Files: 1}}}).Conclude(w, refused)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			err := c.run(output.New(&out))
			if (out.Len() > 0) != c.prints || err == nil {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
}
