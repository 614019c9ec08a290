package failed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// TestReserve_WhileAWriterHasTheFile checks who may replace a file.
func TestReserve_WhileAWriterHasTheFile(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, "w")
	if err := w.Record(t.Context(), failures(1)); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, "w.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // of a test
	if err := Reserve(f); !errors.Is(err, ErrInUse) {
		t.Errorf("while it is written: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := Reserve(f); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	second := open(t, dir, "w")
	closed, err := os.Open(filepath.Join(dir, "w.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(closed.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	if err := Reserve(closed); err == nil || errors.Is(err, ErrInUse) {
		t.Errorf("a closed file: %v", err)
	}
}

// TestLines_WhatALineNeeds checks which lines are failed documents, and which files hold such.
func TestLines_WhatALineNeeds(t *testing.T) {
	written := AppendLine(nil, &doc.Failure{Index: "a", ID: "1", Reason: doc.NoSource}, Full)
	if bytes.Contains(written, []byte("source\":")) || bytes.Contains(written, []byte("base64")) {
		t.Errorf("a document without a source: %s", written)
	}
	for _, c := range []struct {
		name, text string
		line, file bool
	}{
		{"as it is written", string(written), true, true},
		{"without an index", `{"id":"1"}` + "\n", true, false},
		{"without an id", `{"index":"a"}` + "\n", true, false},
		{"with neither", `{"shard":1}` + "\n", false, false},
		{"a shard that is not a number", `{"index":"a","id":"1","shard":"x"}` + "\n", false, false},
		{"text", "attack\n", false, false},
		{"a pair of an import", `{"index":{"_index":"a","_id":"1"}}` + "\n", false, false},
		{"another order", `{"index":"a","shard":0,"id":"1","ordinal":1,"reason":"x","status":1}` + "\n", true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := IsLine([]byte(c.text)); got != c.file {
				t.Errorf("a file of failed documents: %v", got)
			}
			n := 0
			for l, err := range Lines(strings.NewReader(c.text), 1<<20) {
				if n++; err != nil || (l.Err == nil) != c.line || l.Err != nil && !errors.Is(l.Err, fault.ErrCorrupt) {
					t.Errorf("%+v, %v", l, err)
				}
				if string(l.Text) != c.text {
					t.Errorf("%q", l.Text)
				}
			}
			if n != 1 {
				t.Errorf("%d lines", n)
			}
		})
	}
	if IsLine(append([]byte(`{"index":"a"}`+"\n"), written...)) {
		t.Error("a file counts as one of failed documents for what its second line holds")
	}
}

// TestWatched_CountsWhatItKnowsWhenItIsFull checks that a class that has a sum of its own keeps it.
func TestWatched_CountsWhatItKnowsWhenItIsFull(t *testing.T) {
	w, _, _, noted := watching()
	all := make([]doc.Failure, maxSums+1)
	for n := range all {
		all[n] = strict(strings.Repeat("x", n+1), 0)
	}
	again := []doc.Failure{strict("x", 1), strict("x", 2)}
	if err := errors.Join(w.Record(t.Context(), all), w.Record(t.Context(), again), w.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	if first := (*noted)[len(*noted)-1][0]; first.Index != "x" || first.Count != 3 {
		t.Errorf("%.60v", first)
	}
}
