package worker_test

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/testing/truth"
)

// The cluster's own dump has each source as it was indexed: key order, blanks, forms of numbers and escapes.
func TestSourcesArriveByteForByte(t *testing.T) {
	want, err := truth.Load(false, demo+".ndjson.gz")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if sum, err := exportOnce(t, dir, 0); err != nil || !sum.Complete {
		t.Fatalf("%+v, %v", sum, err)
	}
	got, err := truth.LoadExport(filepath.Join(dir, "out"))
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) || len(want) == 0 {
		t.Errorf("%d documents, want %d", len(got), len(want))
	}
	for key, source := range want {
		if !bytes.Equal(got[key], source) {
			t.Fatalf("%+v is\n%s\nwant\n%s", key, got[key], source)
		}
	}
}
