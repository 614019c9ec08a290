package redrive

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestRedrive_LinesOfOneDocument checks which line of a document is sent, and that its only source is never dropped.
func TestRedrive_LinesOfOneDocument(t *testing.T) {
	refused := refusal("a", "1", 7)
	unsent := func(reason doc.Reason, source []byte) doc.Failure {
		f := refusal("a", "1", 7)
		f.Status, f.Reason, f.Detail, f.Source = 0, reason, "", source
		return f
	}
	whole, hash, none := failed.Full, failed.Hash, failed.None
	type line struct {
		doc.Failure

		content failed.Content
	}
	const (
		arrives = "1 documents: 1 indexed, 0 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"
		stays   = "1 documents: 0 indexed, 1 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"
	)
	for _, c := range []struct {
		name          string
		first, second line
		source        *snapshotOf
		refuse        string
		report        string
		sent          int
		left          []string
	}{
		{name: "one that could not be sent, then one that can", first: line{unsent("no_source", nil), whole}, second: line{refused, whole}, report: arrives, sent: 1},
		{name: "one that can be sent, then one that cannot", first: line{refused, whole}, second: line{unsent("no_source", nil), whole}, report: arrives, sent: 1},
		{name: "both can be sent", first: line{refused, whole}, second: line{refused, whole}, report: arrives, sent: 1},
		{name: "both fail again as one", first: line{refused, whole}, second: line{refused, whole}, refuse: "still", report: stays, sent: 1, left: []string{"1 still because of 1"}},
		{name: "a source that was left out, then one in full", first: line{refused, none}, second: line{refused, whole}, report: arrives, sent: 1},
		{name: "a source in full, then one that was left out", first: line{refused, whole}, second: line{refused, hash}, report: arrives, sent: 1},
		{name: "without a digest, then with one that does not fit", first: line{refused, none}, second: line{refused, hash},
			source: &snapshotOf{ids: []string{"1"}, sources: map[string]string{"1": `{"other":1}`}}, report: stays, left: []string{"1 strict_dynamic_mapping_exception "}},
		{name: "neither can be sent, and the second holds the source", first: line{unsent("no_source", nil), whole}, second: line{unsent("too_large", []byte(`{"long":1}`)), whole},
			report: stays, left: []string{"1 too_large "}},
		{name: "neither can be sent, and the first holds the source", first: line{unsent("too_large", []byte(`{"long":1}`)), whole}, second: line{unsent("no_source", nil), whole},
			report: stays, left: []string{"1 too_large "}},
		{name: "neither can be sent, and the second has a source", first: line{unsent("no_source", nil), none}, second: line{unsent("too_large", []byte(`{"long":1}`)), none},
			report: stays, left: []string{"1 too_large "}},
		{name: "neither can be sent, and the first has a source", first: line{unsent("too_large", []byte(`{"long":1}`)), none}, second: line{unsent("no_source", nil), none},
			report: stays, left: []string{"1 too_large "}},
		{name: "a source in full that cannot be sent, then one that was left out and can", first: line{unsent("too_large", []byte(`{"long":1}`)), whole}, second: line{refused, none},
			source: &snapshotOf{ids: []string{"1"}}, report: arrives, sent: 1},
	} {
		for _, files := range []string{"one file", "two files"} {
			t.Run(c.name+" in "+files, func(t *testing.T) {
				dir := t.TempDir()
				for i, l := range []line{c.first, c.second} {
					writer := "w"
					if files == "two files" {
						writer += string(rune('0' + i))
					}
					w, err := failed.Open(dir, writer, l.content)
					if err == nil {
						err = errors.Join(w.Record(t.Context(), []doc.Failure{l.Failure}), w.Close())
					}
					if err != nil {
						t.Fatal(err)
					}
				}
				target := &cluster{refuse: func(string) string { return c.refuse }}
				r := redriveOf(Folder(dir), target)
				if c.source != nil {
					r.Source = c.source
				}
				report, err := r.Run(t.Context())
				if err != nil || numbers(report) != c.report || target.sent != c.sent {
					t.Errorf("%s, %d sent, %v; want %s", numbers(report), target.sent, err, c.report)
				}
				var left []string
				for lines := range maps.Values(held(t, dir)) {
					left = append(left, lines...)
				}
				if !reflect.DeepEqual(left, c.left) {
					t.Errorf("the files hold %q, want %q", left, c.left)
				}
			})
		}
	}
}

// TestRedrive_ABetterLineInAFileInUse checks that a line is not removed for the sake of one in a file that is not touched.
func TestRedrive_ABetterLineInAFileInUse(t *testing.T) {
	dir := t.TempDir()
	lesser := refusal("a", "1", 7)
	lesser.Status, lesser.Source = 0, nil
	write(t, dir, "w0", lesser)
	w, err := failed.Open(dir, "w1", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // of a test
	if err := w.Record(t.Context(), []doc.Failure{refusal("a", "1", 7)}); err != nil {
		t.Fatal(err)
	}
	report, err := redriveOf(Folder(dir), &cluster{}).Run(t.Context())
	if want := "1 documents: 0 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete false"; err != nil || numbers(report) != want {
		t.Errorf("%s, %v; want %s", numbers(report), err, want)
	}
	if got := held(t, dir); len(got["w0.ndjson"]) != 1 || len(got["w1.ndjson"]) != 1 {
		t.Errorf("the files hold %q", got)
	}
}

// TestRedrive_ALesserLineBetweenTwo checks that it does not make the run forget that the document was sent.
func TestRedrive_ALesserLineBetweenTwo(t *testing.T) {
	dir := t.TempDir()
	var text []byte
	for _, content := range []failed.Content{failed.Full, failed.Hash, failed.Full} {
		f := refusal("a", "1", 7)
		text = failed.AppendLine(text, &f, content)
	}
	appendTo(t, filepath.Join(dir, "w.ndjson"), text)
	target := &cluster{}
	report, err := redriveOf(Folder(dir), target).Run(t.Context())
	if want := "1 documents: 1 indexed, 0 failed, 0 filtered, 2 duplicates, 0 remaining, complete true"; err != nil || numbers(report) != want || target.sent != 1 {
		t.Errorf("%s, %d sent, %v; want %s", numbers(report), target.sent, err, want)
	}
}

// freed is a folder of which one file was in use when it was first opened.
type freed struct {
	Folder

	name   string
	opened int
}

func (p *freed) Edit(ctx context.Context, name string) (Edit, error) {
	if filepath.Base(name) == p.name {
		if p.opened++; p.opened == 1 {
			return nil, failed.ErrInUse
		}
	}
	return p.Folder.Edit(ctx, name)
}

// TestRedrive_ABetterLineThatIsFoundLate checks that a line is sent after a lesser one of the same document was found to fail.
func TestRedrive_ABetterLineThatIsFoundLate(t *testing.T) {
	for _, c := range []struct {
		name   string
		source *snapshotOf // of the lesser line, which has no source
		report string
	}{
		{"the lesser one stays", &snapshotOf{}, "2 documents: 1 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{"the lesser one arrives", &snapshotOf{ids: []string{"1"}}, "1 documents: 1 indexed, 0 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for writer, content := range map[string]failed.Content{"w0": failed.None, "w1": failed.Full} {
				w, err := failed.Open(dir, writer, content)
				if err == nil {
					err = errors.Join(w.Record(t.Context(), []doc.Failure{refusal("a", "1", 7)}), w.Close())
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			target := &cluster{}
			r := redriveOf(&freed{Folder: Folder(dir), name: "w1.ndjson"}, target)
			r.Source = c.source
			report, err := r.Run(t.Context())
			if err != nil || numbers(report) != c.report || target.sent != 1 {
				t.Errorf("%s, %d sent, %v; want %s", numbers(report), target.sent, err, c.report)
			}
		})
	}
}

// TestRedrive_LinesInAFileThatWasInUse checks lines of one document in a file that could not be surveyed: its only source is not dropped
// for a line before it, and it is sent once.
func TestRedrive_LinesInAFileThatWasInUse(t *testing.T) {
	for _, c := range []struct {
		name          string
		first, second failed.Content
		report        string
	}{
		{"without a source, then with it", failed.None, failed.Full, "2 documents: 1 indexed, 1 failed, 0 filtered, 0 duplicates, 0 remaining, complete true"},
		{"with its source, then without", failed.Full, failed.None, "1 documents: 1 indexed, 0 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"},
		{"twice the same", failed.Full, failed.Full, "1 documents: 1 indexed, 0 failed, 0 filtered, 1 duplicates, 0 remaining, complete true"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			f := refusal("a", "1", 7)
			appendTo(t, filepath.Join(dir, "w.ndjson"), failed.AppendLine(nil, &f, c.first), failed.AppendLine(nil, &f, c.second))
			target := &cluster{}
			r := redriveOf(&freed{Folder: Folder(dir), name: "w.ndjson"}, target)
			r.Source = &snapshotOf{}
			if report, err := r.Run(t.Context()); err != nil || numbers(report) != c.report || target.sent != 1 {
				t.Errorf("%s, %d sent, %v; want %s", numbers(report), target.sent, err, c.report)
			}
		})
	}
}
