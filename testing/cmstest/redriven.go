package cmstest

import (
	"reflect"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func redriven(t *testing.T, s cms.Store) {
	c, ctx := Coordinator(t, s, time.Minute), t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	is := func(place string, want ...session.RedrivenIndex) {
		t.Helper()
		all, err := session.RedrivesOf(c).All(ctx)
		must(err)
		for _, x := range all {
			if x.Place == place && !reflect.DeepEqual(x.Indices, want) {
				t.Errorf("%s: %+v, want %+v", place, x.Indices, want)
			}
		}
	}
	if all, err := session.RedrivesOf(c).All(ctx); err != nil || len(all) != 0 {
		t.Fatalf("before the first: %+v, %v", all, err)
	}
	must(session.RedrivesOf(c).NoteLeft(ctx, "a:/failed", false, map[string]int64{"logs": 10, "other": 2}))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Left: 10}, session.RedrivenIndex{Index: "other", Left: 2})
	first := session.RedrivenFile{Name: "w", Lines: 12, Documents: map[string]int64{"logs": 5, "other": 2}}
	must(session.RedrivesOf(c).Note(ctx, "a:/failed", false, first))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Delivered: 5, Left: 5}, session.RedrivenIndex{Index: "other", Delivered: 2})

	// The file was not replaced: the same documents are delivered again.
	must(session.RedrivesOf(c).NoteLeft(ctx, "a:/failed", false, map[string]int64{"logs": 10, "other": 2}))
	first.Documents["logs"] = 4
	must(session.RedrivesOf(c).Note(ctx, "a:/failed", false, first))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Delivered: 4, Left: 6}, session.RedrivenIndex{Index: "other", Delivered: 2})

	// It was replaced, and has fewer lines now.
	must(session.RedrivesOf(c).Note(ctx, "a:/failed", false, session.RedrivenFile{Name: "w", Lines: 6, Documents: map[string]int64{"logs": 6}}))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Delivered: 10}, session.RedrivenIndex{Index: "other", Delivered: 2})

	// Another machine sees the same files.
	must(session.RedrivesOf(c).NoteMoved(ctx, "a:/failed", []string{"w", "x"}))
	must(session.RedrivesOf(c).NoteLeft(ctx, "a:/failed", false, map[string]int64{"logs": 3}))
	must(session.RedrivesOf(c).NoteMoved(ctx, "c:/apart", []string{"y"}))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Delivered: 10, Left: 3}, session.RedrivenIndex{Index: "other", Delivered: 2})
	must(session.RedrivesOf(c).NoteMoved(ctx, "b:/failed", []string{"x", "z"}))
	must(session.RedrivesOf(c).NoteLeft(ctx, "b:/failed", false, map[string]int64{"logs": 3}))
	is("a:/failed", session.RedrivenIndex{Index: "logs", Delivered: 10}, session.RedrivenIndex{Index: "other", Delivered: 2})
	is("b:/failed", session.RedrivenIndex{Index: "logs", Left: 3})
}
