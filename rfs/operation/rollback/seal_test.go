package rollback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

func TestSequenceNumbersThatAreNotReportedAreUnknown(t *testing.T) {
	for _, answer := range []string{`{}`, `{"indices":{"a":{"shards":{}}}}`, `{"indices":{"a":{"shards":{"0":[{"routing":{"primary":true}}]}}}}`,
		`{"indices":{"a":{"shards":{"0":[{"routing":{"primary":false},"seq_no":{"max_seq_no":7}}]}}}}`} {
		for _, atEnd := range []bool{true, false} { // of the migration, or of the undo only
			on, r, l := migrated(t)
			was := on.answers["/a/_stats/docs"]
			if atEnd {
				on.answers["/a/_stats/docs"] = answer
			}
			must(t, l.Seal(t.Context()))
			on.answers["/a/_stats/docs"] = was
			if !atEnd {
				on.answers["/a/_stats/docs"] = answer
			}
			all, err := undoing(on, r).List(t.Context())
			must(t, err)
			for _, e := range all {
				if e.Kind == rollback.Index && (e.State == rollback.Refused) != (e.Name == "a") {
					t.Errorf("%s: %+v", answer, e)
				}
			}
		}
	}
}

func TestAContinuedMigrationDoesNotTakeWhatOthersWroteForItsOwn(t *testing.T) {
	on, r, l := migrated(t)
	ended(t, on, l)
	reset(on, "", `"read":{}`, 8) // another client writes
	must(t, l.Unseal(t.Context()))
	reset(on, "", `"read":{}`, 20) // the migration goes on
	must(t, l.Seal(t.Context()))
	all, err := undoing(on, r).List(t.Context())
	must(t, err)
	for _, e := range all {
		if e.Kind == rollback.Index && (e.State == rollback.Refused) != (e.Name == "a") {
			t.Errorf("%+v", e)
		}
	}
}

func TestWhatRedriveSendsIsTheSessionsOwn(t *testing.T) {
	for _, theirs := range []int{0, 1} { // documents that others wrote before
		on, r, l := migrated(t)
		ended(t, on, l)
		reset(on, "", `"read":{}`, 7+theirs)
		must(t, l.Around(t.Context(), func() error {
			reset(on, "", `"read":{}`, 12)
			return nil
		}))
		all, err := undoing(on, r).List(t.Context())
		must(t, err)
		for _, e := range all {
			if e.Kind == rollback.Index && (e.State == rollback.Refused) != (e.Name == "a" && theirs > 0) {
				t.Errorf("%d documents of others: %+v", theirs, e)
			}
		}
	}
}

// TestLedger_AKilledRedriveKeepsTheSeal: what others write after the death of a redrive is not sealed by later runs.
func TestLedger_AKilledRedriveKeepsTheSeal(t *testing.T) {
	errKilled := errors.New("killed")
	for _, sent := range []int{0, 5} { // by the redrive, before its death
		on, r, l := migrated(t)
		ended(t, on, l)
		func() {
			defer func() { _ = recover() }()
			_ = l.Around(t.Context(), func() error {
				reset(on, "", `"read":{}`, 7+sent)
				panic(errKilled) // nothing is recorded from here on
			})
		}()
		reset(on, "", `"read":{}`, 7+sent+1) // another client writes
		for _, run := range []func(context.Context) error{
			func(ctx context.Context) error { return l.Seal(ctx) }, func(ctx context.Context) error { return l.Around(ctx, func() error { return nil }) },
			func(ctx context.Context) error { return errors.Join(l.Unseal(ctx), l.Seal(ctx)) },
		} {
			must(t, run(t.Context()))
			all, err := undoing(on, r).List(t.Context())
			must(t, err)
			for _, e := range all {
				if e.Kind == rollback.Index && (e.State == rollback.Refused) != (e.Name == "a") {
					t.Errorf("%d documents sent before the death: %+v", sent, e)
				}
			}
		}
	}
}

// TestLedger_WhatTheDocumentsDoNotAccountForIsRefused: an application that writes during the migration.
func TestLedger_WhatTheDocumentsDoNotAccountForIsRefused(t *testing.T) {
	both := []string{"a", "b"} // 16 operations
	for _, c := range []struct {
		name   string
		own    []rollback.Own
		redone int // operations of a redrive, after which the migration goes on
		want   []string
	}{
		{"all accounted for", []rollback.Own{{both[:1], 8}, {both[1:], 8}}, 0, nil},
		{"more accounted for: answers that came twice", []rollback.Own{{both[:1], 9}}, 0, nil},
		{"one operation too many", []rollback.Own{{both[:1], 7}, {both[1:], 8}}, 0, []string{"a"}},
		{"in one of two indices that types are split over", []rollback.Own{{both, 15}}, 0, both},
		{"together with an index that is not the session's", []rollback.Own{{[]string{"a", "theirs"}, 7}}, 0, nil},
		{"nothing is known", nil, 0, nil},
		{"after a redrive", []rollback.Own{{both[:1], 8}}, 3, nil},
		{"after a redrive, and another client", []rollback.Own{{both[:1], 7}}, 3, []string{"a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r, l := migrated(t)
			if c.redone > 0 {
				must(t, l.Seal(t.Context()))
				must(t, l.Around(t.Context(), func() error { reset(on, "", "", 7+c.redone); return nil }))
				must(t, l.Unseal(t.Context()))
			}
			must(t, l.Seal(t.Context(), c.own...))
			must(t, l.Seal(t.Context())) // repeated, as after a death
			all, err := undoing(on, r).List(t.Context())
			must(t, err)
			var refused []string
			for _, e := range all {
				if e.State == rollback.Refused {
					refused = append(refused, e.Name)
					if !strings.Contains(e.Reason, "during the migration: 1 operations") {
						t.Errorf("%+v", e)
					}
				}
			}
			if !slices.Equal(refused, c.want) {
				t.Errorf("refused %q, want %q", refused, c.want)
			}
		})
	}
}

// dying are records that cannot be changed any more after some changes.
type dying struct {
	rollback.Records
	left atomic.Int64
}

func (d *dying) Change(ctx context.Context, kind, name string, f func(session.Creation, time.Time) (session.Creation, bool)) (bool, error) {
	if d.left.Add(-1) < 0 {
		return false, fault.ErrUnavailable
	}
	return d.Records.Change(ctx, kind, name, f)
}

// TestLedger_ADeathWhileItSealsLeavesNoIndexOfOthersToUndo: an application wrote to both indices during the migration.
func TestLedger_ADeathWhileItSealsLeavesNoIndexOfOthersToUndo(t *testing.T) {
	both := []string{"a", "b"}
	for name, own := range map[string][]rollback.Own{
		"each index by itself": {{both[:1], 7}, {both[1:], 7}}, "types that are split over both": {{both, 15}},
	} {
		for changes := range 3 {
			t.Run(fmt.Sprintf("%s, %d changes", name, changes), func(t *testing.T) {
				on, r, l := migrated(t)
				whole := l.Records
				last := &dying{Records: whole}
				last.left.Store(int64(changes))
				l.Records = last
				if err := l.Seal(t.Context(), own...); (err == nil) != (changes == 2) {
					t.Fatalf("sealed: %v", err)
				}
				kept := func(when string) {
					t.Helper()
					all, err := undoing(on, r).List(t.Context())
					must(t, err)
					for _, e := range all {
						if e.Kind == rollback.Index && slices.Contains(both, e.Name) && e.State != rollback.Refused {
							t.Errorf("%s: %+v", when, e)
						}
					}
				}
				kept("after the death")
				l.Records = whole
				must(t, l.Seal(t.Context(), own...))
				kept("after the migration was run to its end")
			})
		}
	}
}
