package rollback_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

func TestMarks(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(on *cluster, l *rollback.Ledger)
		mark   int64
		known  bool
	}{
		{"as the migration left it", func(*cluster, *rollback.Ledger) {}, 7, true},
		{"written to since", func(on *cluster, _ *rollback.Ledger) { reset(on, "", `"read":{}`, 12) }, 7, true},
		{"another index of the name", func(on *cluster, _ *rollback.Ledger) { on.index("a", "another", "", "", 12) }, 0, false},
		{"an alias has the name", func(on *cluster, _ *rollback.Ledger) { on.answers["/a"] = `{"b":{"aliases":{"a":{}}}}` }, 0, false},
		{"removed", func(on *cluster, _ *rollback.Ledger) { delete(on.answers, "/a") }, 0, false},
		{"the migration continues", func(_ *cluster, l *rollback.Ledger) { must(t, l.Unseal(t.Context())) }, 0, false},
		{"written to between two runs", func(on *cluster, l *rollback.Ledger) {
			reset(on, "", `"read":{}`, 12)
			must(t, l.Unseal(t.Context()))
			must(t, l.Seal(t.Context()))
		}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r, l := migrated(t)
			ended(t, on, l)
			c.change(on, l)
			m, err := rollback.ReadMarks(t.Context(), on, session.CreatedOf(r))
			must(t, err)
			if mark, known := m.Of("a", 0); mark != c.mark || known != c.known {
				t.Errorf("%d %t, want %d %t", mark, known, c.mark, c.known)
			}
			if _, known := m.Of("a", 1); known {
				t.Error("a shard that is not recorded has a mark")
			}
		})
	}
}

func TestABackingIndexThatIsYoungerThanTheMigrationIsAllChangedSince(t *testing.T) {
	on, r := &cluster{answers: map[string]string{}}, coordinator(t)
	l := ledger(on, r)
	stream(t, on, l)
	backing(on, 3, ".ds-s-1", ".ds-s-2")
	m, err := rollback.ReadMarks(t.Context(), on, session.CreatedOf(r))
	must(t, err)
	for index, want := range map[string]int64{".ds-s-1": 3, ".ds-s-2": -1} {
		if mark, known := m.Of(index, 0); mark != want || !known {
			t.Errorf("%s: %d %t", index, mark, known)
		}
	}
}

// TestLedger_Written names the indices that others have written to since the migration ended.
func TestLedger_Written(t *testing.T) {
	for _, c := range []struct {
		name  string
		names []string
		then  func(on *cluster, l *rollback.Ledger)
		want  string // of index a
	}{
		{"as the migration left it", []string{"a", "b"}, func(*cluster, *rollback.Ledger) {}, ""},
		{"written to since", []string{"a", "b"}, func(on *cluster, _ *rollback.Ledger) { reset(on, "", `"read":{}`, 12) }, "5 operations"},
		{"not asked for", []string{"b"}, func(on *cluster, _ *rollback.Ledger) { reset(on, "", `"read":{}`, 12) }, ""},
		{"no name at all", nil, func(on *cluster, _ *rollback.Ledger) { reset(on, "", `"read":{}`, 12) }, ""},
		{"by a redrive", []string{"a"}, func(on *cluster, l *rollback.Ledger) {
			must(t, l.Around(t.Context(), func() error { reset(on, "", `"read":{}`, 12); return nil }))
		}, ""},
		{"accepted by an earlier run", []string{"a"}, func(on *cluster, l *rollback.Ledger) {
			reset(on, "", `"read":{}`, 12)
			must(t, l.Unseal(t.Context(), "a"))
			must(t, l.Seal(t.Context()))
		}, ""},
		{"documents of another index are sent", []string{"a"}, func(on *cluster, l *rollback.Ledger) {
			must(t, l.Unseal(t.Context(), "b"))
			reset(on, "", `"read":{}`, 12)
		}, "5 operations"},
		{"its documents are sent", []string{"a"}, func(on *cluster, l *rollback.Ledger) {
			must(t, l.Unseal(t.Context(), "a"))
			reset(on, "", `"read":{}`, 12)
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, _, l := migrated(t)
			ended(t, on, l)
			c.then(on, l)
			lists := &listing{Records: l.Records}
			l.Records = lists
			for _, others := range []int{0, 40} {
				names := slices.Clone(c.names)
				for i := range others * min(1, len(c.names)) {
					names = append(names, fmt.Sprint("other", i))
				}
				written, err := l.Written(t.Context(), names)
				must(t, err)
				if is := written["a"]; !strings.Contains(is, c.want) || (is == "") != (c.want == "") || len(written) > 1 {
					t.Errorf("%d names: %q, want %q", len(names), written, c.want)
				}
				if want := min(1, max(0, len(names)-32)); lists.times != want {
					t.Errorf("%d names: the records were listed %d times, want %d", len(names), lists.times, want)
				}
			}
		})
	}
}

// listing counts how often all records are listed.
type listing struct {
	rollback.Records
	times int
}

func (l *listing) All(ctx context.Context) iter.Seq2[session.Creation, error] {
	l.times++
	return l.Records.All(ctx)
}
