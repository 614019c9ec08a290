package failed

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// strict is a document that a strict mapping refuses, with a message that quotes a value.
func strict(index string, ordinal int64) doc.Failure {
	return doc.Failure{Index: index, ID: "jane.doe", Shard: 1, Ordinal: ordinal, Status: 400, Reason: "strict_dynamic_mapping_exception", Detail: "of secret value"}
}

// watching returns a recorder with what it logs and notes.
func watching() (w *Watched, under *failedtest.Recorder, lines *strings.Builder, noted *[][]Sum) {
	lines, under, noted = &strings.Builder{}, &failedtest.Recorder{}, &[][]Sum{}
	log := slog.New(slog.NewTextHandler(lines, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}}))
	w = &Watched{Recorder: under, Log: log, Note: func(_ context.Context, sums []Sum) error {
		*noted = append(*noted, sums)
		return nil
	}}
	return w, under, lines, noted
}

// TestWatched_LogsTheFirstOfAClassThenCounts checks that a rejection is seen at once, and that many do not fill the log.
func TestWatched_LogsTheFirstOfAClassThenCounts(t *testing.T) {
	w, under, lines, _ := watching()
	for n := range int64(1234) {
		if err := w.Record(t.Context(), []doc.Failure{strict([]string{"logs", "other"}[n%2], n)}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Record(t.Context(), []doc.Failure{{Index: "logs", Ordinal: 7, Reason: doc.NoSource}}); err != nil {
		t.Fatal(err)
	}
	remedy := `remedy="add the field to the mapping, or allow new ones: PUT logs/_mapping {\"dynamic\":true}"`
	want := []string{
		`level=WARN msg="a document failed" index=logs shard=1 ordinal=0 class=strict_mapping reason=strict_dynamic_mapping_exception ` + remedy,
		`level=WARN msg="documents failed" class=strict_mapping documents=10 indices=2`,
		`level=WARN msg="documents failed" class=strict_mapping documents=100 indices=2`,
		`level=WARN msg="documents failed" class=strict_mapping documents=1000 indices=2`,
		`level=WARN msg="a document failed" index=logs shard=0 ordinal=7 class=no_source reason=no_source remedy=`,
	}
	got := strings.Split(strings.TrimSuffix(lines.String(), "\n"), "\n")
	if len(got) != len(want) {
		t.Fatalf("%d lines:\n%s", len(got), lines)
	}
	for i := range want {
		if !strings.HasPrefix(got[i], want[i]) {
			t.Errorf("line %d:\n%s\nwant\n%s", i, got[i], want[i])
		}
	}
	if strings.Contains(lines.String(), "secret") || strings.Contains(lines.String(), "jane") {
		t.Errorf("values and ids are logged:\n%s", lines)
	}
	if len(under.All()) != 1235 {
		t.Errorf("%d were recorded", len(under.All()))
	}
}

// TestWatched_NotesEachClassBeforeItIsRecorded checks the account, and how often it is written.
func TestWatched_NotesEachClassBeforeItIsRecorded(t *testing.T) {
	w, under, _, _ := watching()
	broken := errors.New("the store does not answer")
	fail := true
	note := w.Note
	w.Note = func(ctx context.Context, sums []Sum) error {
		if fail {
			return broken
		}
		return note(ctx, sums)
	}
	if err := w.Record(t.Context(), []doc.Failure{strict("logs", 0)}); !errors.Is(err, broken) || len(under.All()) != 0 {
		t.Errorf("%v, %d recorded", err, len(under.All()))
	}
	fail = false
	w, _, _, noted := watching()
	for n := range int64(100) {
		if err := w.Record(t.Context(), []doc.Failure{strict("logs", n)}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(*noted); n != 7 { // 1, 2, 4, …, 64
		t.Errorf("100 documents of a class were noted %d times", n)
	}
	if err := w.Record(t.Context(), []doc.Failure{strict("other", 0)}); err != nil || len(*noted) != 8 {
		t.Errorf("the first document of another index: %v, noted %d times", err, len(*noted))
	}
	if err := w.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := len(*noted); n != 8 {
		t.Errorf("a flush without anything new was noted: %d", n)
	}
	if err := errors.Join(w.Record(t.Context(), []doc.Failure{strict("other", 1)}), w.Flush(t.Context())); err != nil {
		t.Fatal(err)
	}
	sum := func(index string, n int64) Sum {
		return Sum{Index: index, Class: "strict_mapping", Reason: "strict_dynamic_mapping_exception", Count: n,
			Remedy: "add the field to the mapping, or allow new ones: PUT " + index + `/_mapping {"dynamic":true}`}
	}
	if got, want := (*noted)[len(*noted)-1], []Sum{sum("logs", 100), sum("other", 2)}; !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestWatched_IsBounded checks that any number of indices takes a bounded account, and that no more are counted in the log.
func TestWatched_IsBounded(t *testing.T) {
	w, _, lines, noted := watching()
	all := make([]doc.Failure, maxSums+5)
	for n := range all {
		all[n] = strict(fmt.Sprint("logs-", n), 0)
	}
	if err := w.Record(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	last := (*noted)[len(*noted)-1]
	if len(*noted) != 1 || len(last) != maxSums+1 || !reflect.DeepEqual(last[0], Sum{Count: 5}) {
		t.Errorf("%d times, %d sums, the first %+v", len(*noted), len(last), last[0])
	}
	if err := w.Record(t.Context(), slices.Repeat(all[:1], 10_000-len(all))); err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("documents=10000 indices=%d\n", maxSums); !strings.HasSuffix(lines.String(), want) {
		t.Errorf("the log ends with %.300s, want %s", lines, want)
	}
}
