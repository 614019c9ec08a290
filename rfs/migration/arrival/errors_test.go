package arrival_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// TestCheck_RecordsNothingAfterAnError fails in each call that a check of two indices makes.
func TestCheck_RecordsNothingAfterAnError(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(a *audit)
		says   string
	}{
		{"the refresh", func(a *audit) { a.fails["refresh a"] = errBroken }, "refresh a: broken"},
		{"the count", func(a *audit) { a.fails["count a"] = errBroken }, "count a: broken"},
		{"the Lucene documents", func(a *audit) { a.fails["lucene a"] = errBroken }, "Lucene documents of a: broken"},
		{"the operations", func(a *audit) { a.fails["operations a"] = errBroken }, "operations on a: broken"},
		{"the aliases", func(a *audit) { a.fails["index a"] = errBroken }, "aliases of a: broken"},
		{"aliases that cannot be read", func(a *audit) { a.aliases["a"] = "[" }, "aliases of a: unexpected end of JSON input: unavailable"},
		{"the identity of the target", func(a *audit) { a.present = errBroken }, "broken"},
		{"the entry", func(a *audit) {
			a.Entry = func(context.Context, session.IndexEntry) (plan.Entry, error) { return plan.Entry{}, errBroken }
		}, "broken"},
		{"the list of indices", func(a *audit) { a.store.lists["index"] = errBroken }, "list indices: broken"},
		{"the list of items", func(a *audit) { a.store.scan = errBroken }, "list items: broken"},
		{"the re-driven documents", func(a *audit) { a.store.lists["redriven"] = errBroken }, "read the re-driven documents: broken"},
		{"the record", func(a *audit) { a.store.puts["index"] = errBroken }, "broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := newAudit()
			a.sends(t, "a", own("a"), indexed(5))
			a.holds("a", 4)
			c.change(a)
			own, err := a.All(t.Context())
			if err == nil || !strings.Contains(err.Error(), c.says) || own != nil {
				t.Fatalf("%v, %+v", err, own)
			}
			if a.store.lists["index"] = nil; a.recorded(t, "a") != nil || a.store.Events("documents_missing") > 0 {
				t.Errorf("recorded: %+v", a.recorded(t, "a"))
			}
		})
	}
}

// TestCheck_ReportsAnErrorOfItsLaterCalls fails where a result is complete already, and where an event is recorded.
func TestCheck_ReportsAnErrorOfItsLaterCalls(t *testing.T) {
	a := newAudit()
	a.sends(t, "a", own("a"), indexed(5))
	a.holds("a", 5)
	if _, err := a.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	a.fails["operations a"] = errBroken
	if _, err := a.All(t.Context()); err == nil || err.Error() != "operations on a: broken" {
		t.Errorf("the operations of what was complete: %v", err)
	}
	a = newAudit()
	a.sends(t, "a", own("a"), indexed(5))
	a.holds("a", 4)
	a.store.puts["event"] = errBroken
	if _, err := a.All(t.Context()); !errors.Is(err, errBroken) {
		t.Errorf("the event: %v", err)
	}
	delete(a.store.puts, "event")
	for range 2 {
		if _, err := a.All(t.Context()); err != nil || a.store.Events("documents_missing") != 1 || a.store.put["index"] != 1 {
			t.Errorf("the same problem again: %v, %d events, %d records", err, a.store.Events("documents_missing"), a.store.put["index"])
		}
	}
}

// TestCheck_ReportsTargetsThatAreNotAsTheyWere finds a target that was replaced, and one that a policy rolls over.
func TestCheck_ReportsTargetsThatAreNotAsTheyWere(t *testing.T) {
	a := newAudit()
	a.sends(t, "a", own("a"), indexed(5))
	a.holds("a", 5)
	a.present = fmt.Errorf("a: %w", objects.ErrRollover)
	own, err := a.All(t.Context())
	if is := a.recorded(t, "a"); err != nil || own != nil || !is.Uncounted || is.Note != "not counted: a: a policy rolls the data stream over" || is.Problem != "" || len(a.calls) > 0 {
		t.Errorf("a rollover: %v, %+v, %+v, calls %q", err, own, is, a.calls)
	}
	a.present = fmt.Errorf("a: %w", engine.ErrTargetReplaced)
	if _, err := a.All(t.Context()); err != nil {
		t.Fatal(err)
	}
	if is := a.recorded(t, "a"); !is.Gone || !strings.HasSuffix(is.Problem, "; 5 documents were sent to it") || is.Uncounted || len(a.calls) > 0 {
		t.Errorf("replaced: %+v, calls %q", is, a.calls)
	}
	if a.store.Events("target_missing") != 1 || a.store.Events("documents_missing") != 0 {
		t.Errorf("%d events target_missing, %d documents_missing", a.store.Events("target_missing"), a.store.Events("documents_missing"))
	}
	a.present = nil
	a.did["a"] = target.Operations{Executed: 5}
	if _, err := a.All(t.Context()); err != nil || a.recorded(t, "a").Problem != "" {
		t.Errorf("it is there again: %v, %+v", err, a.recorded(t, "a"))
	}
}
