package redrive

import (
	"context"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestRedrive_LaterRounds: documents that later rounds have deleted are not sent, and leave the files; all others are sent.
func TestRedrive_LaterRounds(t *testing.T) {
	dir, on := t.TempDir(), &cluster{}
	write(t, dir, "a", refusal("i", "deleted", 1), refusal("i", "sent-again", 2), refusal("i", "untouched", 3), refusal("j", "deleted", 4))
	r := redriveOf(Folder(dir), on)
	r.Later = func(_ context.Context, indices []string, each func(*doc.Document)) error {
		if !slices.Equal(indices, []string{"i", "j"}) {
			t.Errorf("asked for %q", indices)
		}
		for _, d := range []doc.Document{{ID: []byte("deleted"), Delete: true}, {ID: []byte("sent-again")}, {ID: []byte("sent-again"), Delete: true}, {ID: []byte("other"), Delete: true},
			{ID: []byte("untouched"), Routing: []byte("r"), Delete: true}} {
			d.Index = []byte("i")
			each(&d)
		}
		return nil
	}
	report, err := r.Run(t.Context())
	if err != nil || report.Documents != 4 || report.Indexed != 3 || report.Deleted != 1 || report.Failed != 0 || len(on.got) != 3 {
		t.Errorf("%+v, %q, %v", report, on.got, err)
	}
	for name, lines := range held(t, dir) {
		if len(lines) > 0 {
			t.Errorf("%s has %q", name, lines)
		}
	}
	again := redriveOf(Folder(dir), on)
	again.Later = func(context.Context, []string, func(*doc.Document)) error {
		t.Error("asked without documents")
		return nil
	}
	if report, err := again.Run(t.Context()); err != nil || report.Documents != 0 {
		t.Errorf("%+v, %v", report, err)
	}
}
