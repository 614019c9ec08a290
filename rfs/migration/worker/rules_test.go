package worker_test

import (
	"bytes"
	"errors"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/testing/failedtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

// TestWhatRulesLeaveOutIsCountedOverAllPieces interrupts a migration with rules again and
// again: whatever was read is indexed, failed or filtered, exactly once.
func TestWhatRulesLeaveOutIsCountedOverAllPieces(t *testing.T) {
	set, err := rules.Parse("rules", []byte("[[document]]\nmatch = \"orders\"\nwhere = {field = \"status\", in = [\"open\", \"paid\"]}\nleave-out = true\n"))
	if err != nil {
		t.Fatal(err)
	}
	edit := func(index string) shards.DocumentEditor {
		if e := set.Documents(index); e != nil {
			return e
		}
		return nil
	}
	repository := filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")
	dir := t.TempDir()
	whole := &migrationtest.Sink{Docs: map[string][32]byte{}, Edit: edit}
	want, err := runOnce(t, dir, repository, "whole.db", whole, 0)
	if err != nil || !want.Complete || want.Totals.Filtered == 0 || want.Totals.Live != want.Totals.Indexed+want.Totals.Filtered {
		t.Fatalf("%+v, %v", want, err)
	}
	pieces := &migrationtest.Sink{Docs: map[string][32]byte{}, Edit: edit}
	for range 40 {
		if sum, err := runOnce(t, dir, repository, "pieces.db", pieces, 1+rand.IntN(4)); err == nil && sum.Complete {
			break
		}
	}
	got, err := runOnce(t, dir, repository, "pieces.db", pieces, 0)
	if err != nil || !got.Complete {
		t.Fatalf("%+v, %v", got, err)
	}
	if g, w := got.Totals, want.Totals; g.Live != w.Live || g.Indexed != w.Indexed || g.Filtered != w.Filtered || g.Failed != w.Failed {
		t.Errorf("%+v, want %+v", g, w)
	}
	if !maps.Equal(whole.Docs, pieces.Docs) {
		t.Error("the pieces hold other documents")
	}
}

// stubborn cannot read documents that hold a text.
type stubborn string

func (s stubborn) Forget() {}

func (s stubborn) Edit(d *doc.Document, _ int64) (bool, error) {
	if bytes.Contains(d.Source, []byte(s)) {
		return false, errors.New("no JSON object")
	}
	return true, nil
}

func TestDocumentsThatRulesCannotReadAreRecordedAsFailed(t *testing.T) {
	dir := t.TempDir()
	s := &migrationtest.Sink{Docs: map[string][32]byte{}, Edit: func(index string) shards.DocumentEditor {
		if index == "catalogue" {
			return stubborn("sugar bowl")
		}
		return nil
	}}
	sum, err := runOnce(t, dir, filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"), "state.db", s, 0)
	if err != nil || sum.Totals.Failed != 1 || sum.Totals.Live != sum.Totals.Indexed+1 {
		t.Fatalf("%+v, %v", sum, err)
	}
	n := 0
	for f, err := range failedtest.Read(filepath.Join(dir, "failed")) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; f.ID != "p/sugar bowl" || f.Reason != doc.BadSource || f.Detail != "the rules cannot be applied: no JSON object" || !bytes.Contains(f.Source, []byte("sugar bowl")) {
			t.Errorf("%+v", f)
		}
	}
	if n != 1 {
		t.Errorf("%d failures", n)
	}
}
