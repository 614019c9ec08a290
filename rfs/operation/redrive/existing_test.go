package redrive

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/failed"
)

// versioned is a target that has documents in versions, and compares as external_gte does.
type versioned struct {
	bodies []byte
	refuse []bulk.Refusal // of the only request
}

func (v *versioned) Send(_ context.Context, body []byte, _ int) (bulk.Result, error) {
	v.bodies = append(v.bodies, body...)
	return bulk.Result{Refused: v.refuse}, nil
}

// TestDocumentsOfASessionThatComparesVersionsAreSentWithThem: a document of which the target has a higher version stays there, and
// does not count as indexed; one that fails again keeps its version.
func TestDocumentsOfASessionThatComparesVersionsAreSentWithThem(t *testing.T) {
	dir := t.TempDir()
	conflict, again, fine := refusal("newer", "conflict", 1), refusal("newer", "again", 2), refusal("newer", "fine", 3)
	conflict.Version, again.Version, fine.Version = 7, 8, 9
	write(t, dir, "a", conflict, again, fine)
	on := &versioned{refuse: []bulk.Refusal{
		{Pos: 0, Status: 409, Type: "version_conflict_engine_exception"}, {Pos: 1, Status: 400, Type: "mapper_parsing_exception"},
	}}
	r := redriveOf(Folder(dir), &cluster{})
	r.Bulk = bulk.Options{Sender: on, MaxInFlight: 1}
	report, err := r.Run(t.Context())
	if err != nil || report.Documents != 3 || report.Indexed != 1 || report.Kept != 1 || report.Failed != 1 {
		t.Errorf("%+v, %v", report, err)
	}
	for _, want := range []string{`"_id":"conflict","version":7,"version_type":"external_gte"`, `"version":8`, `"version":9`} {
		if !bytes.Contains(on.bodies, []byte(want)) {
			t.Errorf("without %s: %s", want, on.bodies)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.ndjson"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range failed.Lines(bytes.NewReader(b), 1<<20) {
		if err != nil || l.Failure.ID != "again" || l.Failure.Version != 8 {
			t.Errorf("%+v, %v", l.Failure, err)
		}
	}
}
