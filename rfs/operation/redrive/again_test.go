package redrive

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// snapshotOf is a source that holds the documents of ids, the last first. A source that is not stated is that of refusal.
type snapshotOf struct {
	ids     []string
	sources map[string]string
	asked   int
	err     error
}

func (s *snapshotOf) Read(_ context.Context, wanted []Document, each func(n int, d *doc.Document) error) error {
	s.asked += len(wanted)
	if s.err != nil {
		return s.err
	}
	for n, w := range slices.Backward(wanted) {
		if !slices.Contains(s.ids, w.ID) {
			continue
		}
		source := s.sources[w.ID]
		if source == "" {
			source = `{"id":"` + w.ID + `"}`
		}
		if err := each(n, &doc.Document{Index: []byte(w.Index), ID: []byte(w.ID), Routing: []byte("r"), Source: []byte(source), Ordinal: w.Ordinal}); err != nil {
			return err
		}
	}
	return nil
}

func TestDocumentsWithoutContentAreReadAgain(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		name    string
		content failed.Content
		source  *snapshotOf
		refuse  string
		report  string
		err     error
		held    []string
	}{
		{name: "hash: all arrive", content: failed.Hash, source: &snapshotOf{ids: ids},
			report: "5 documents: 5 indexed, 0 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{name: "none: all arrive", content: failed.None, source: &snapshotOf{ids: ids},
			report: "5 documents: 5 indexed, 0 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{name: "what fails again stays, without content", content: failed.Hash, source: &snapshotOf{ids: ids}, refuse: "c", held: []string{"c"},
			report: "5 documents: 4 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{name: "what the snapshot does not hold stays", content: failed.None, source: &snapshotOf{ids: []string{"b", "d"}}, held: []string{"a", "c", "e"},
			report: "5 documents: 2 indexed, 3 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{name: "a source that is another one stays", content: failed.Hash, source: &snapshotOf{ids: ids, sources: map[string]string{"b": `{}`}}, held: []string{"b"},
			report: "5 documents: 4 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{name: "without a snapshot nothing is sent and nothing is lost", content: failed.Hash, err: fault.ErrConfig, held: ids,
			report: "5 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 5 remaining, complete false"},
		{name: "damage of the snapshot loses nothing", content: failed.None, source: &snapshotOf{err: fault.ErrCorrupt}, err: fault.ErrCorrupt, held: ids,
			report: "5 documents: 0 indexed, 0 failed, 0 filtered, 0 duplicates, 5 remaining, complete false"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			w, err := failed.Open(dir, "w", c.content)
			if err != nil {
				t.Fatal(err)
			}
			for i, id := range ids {
				if err := w.Record(t.Context(), []doc.Failure{refusal("logs", id, int64(i))}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			target := &cluster{refuse: func(id string) string { return map[string]string{c.refuse: "later"}[id] }}
			r := redriveOf(Folder(dir), target)
			if c.source != nil {
				r.Source = c.source
			}
			report, err := r.Run(t.Context())
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || numbers(report) != c.report {
				t.Errorf("%s, %v\nwant %s", numbers(report), err, c.report)
			}
			var got []string
			for _, line := range held(t, dir)["w.ndjson"] {
				id, _, _ := strings.Cut(line, " ")
				got = append(got, id)
			}
			if !slices.Equal(got, c.held) {
				t.Errorf("the file holds %q, want %q", got, c.held)
			}
			if b, err := os.ReadFile(filepath.Join(dir, "w.ndjson")); err == nil && strings.Contains(string(b), `"source":`) {
				t.Errorf("sources were written: %s", b)
			}
			for _, line := range target.got {
				if !strings.Contains(line, `"r"`) {
					t.Errorf("sent without routing: %s", line)
				}
			}
			if c.err == nil && len(c.held) == 0 {
				asked := c.source.asked
				if report, err = r.Run(t.Context()); err != nil || report.Documents != 0 || c.source.asked != asked {
					t.Errorf("a second run: %s, %v, %d documents read", numbers(report), err, c.source.asked-asked)
				}
			}
		})
	}
}

// TestLinesWithAndWithoutContentInOneFile: those that are sent at once and those that are read again keep their own fates.
func TestLinesWithAndWithoutContentInOneFile(t *testing.T) {
	dir := t.TempDir()
	var text []byte
	for i, id := range []string{"a", "b", "c", "d", "e", "f"} {
		f := refusal("logs", id, int64(i))
		content := failed.Full
		if i%2 == 0 {
			content = failed.Hash
		}
		text = failed.AppendLine(text, &f, content)
	}
	if err := os.WriteFile(filepath.Join(dir, "w.ndjson"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	c := &cluster{refuse: func(id string) string { return map[string]string{"b": "later", "c": "later"}[id] }}
	r := redriveOf(Folder(dir), c)
	r.Source = &snapshotOf{ids: []string{"a", "c", "e"}}
	report, err := r.Run(t.Context())
	want := map[string][]string{"w.ndjson": {"b later because of b", "c later "}}
	if err != nil || report.Indexed != 4 || report.Failed != 2 || !maps.EqualFunc(held(t, dir), want, slices.Equal) {
		t.Errorf("%s, %v, %q", numbers(report), err, held(t, dir))
	}
}

// TestWhatIsRecordedIsSent: documents of a control index arrive, are forgotten, or have the reason of now.
func TestWhatIsRecordedIsSent(t *testing.T) {
	recorded := map[string]Record{}
	for i := range 5 {
		id := fmt.Sprint(i)
		f := refusal("logs", id, int64(i))
		f.Source, f.Detail = nil, ""
		if i == 4 {
			f.Status = 0 // never sent
		}
		recorded[id] = Record{Failure: f, Class: "strict_mapping"}
	}
	storage := Recorded{
		Name: "control index", Drafts: t.TempDir(),
		List: func(context.Context) iter.Seq2[Record, error] {
			return func(yield func(Record, error) bool) {
				for _, id := range slices.Sorted(maps.Keys(recorded)) {
					if !yield(recorded[id], nil) {
						return
					}
				}
			}
		},
		Note: func(_ context.Context, failures []doc.Failure) error {
			for _, f := range failures {
				recorded[f.ID] = Record{Failure: f}
			}
			return nil
		},
	}
	c := &cluster{refuse: func(id string) string { return map[string]string{"2": "later"}[id] }}
	r := redriveOf(storage, c)
	r.Source = &snapshotOf{ids: []string{"0", "1", "2", "3", "4"}}
	r.Arrived = func(_ context.Context, arrived func(Document) bool) error {
		maps.DeleteFunc(recorded, func(_ string, x Record) bool {
			return arrived(Document{x.Failure.Index, x.Failure.ID, x.Failure.Shard, x.Failure.Ordinal})
		})
		return nil
	}
	report, err := r.Run(t.Context())
	if want := "5 documents: 3 indexed, 2 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want {
		t.Errorf("%s, %v", numbers(report), err)
	}
	if now := recorded["2"].Failure; len(recorded) != 2 || now.Reason != "later" || now.Ordinal != 2 || now.Shard != 3 {
		t.Errorf("recorded: %+v", recorded)
	}
	if left, err := os.ReadDir(storage.Drafts); err != nil || len(left) > 0 {
		t.Errorf("files that are left: %v, %v", left, err)
	}
}
