package rollback_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
)

func TestWhatATrialRunLeftUnendedGoesByItsUUID(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(on *cluster, l *rollback.Ledger)
		state  string
	}{
		{"as it was left", func(*cluster, *rollback.Ledger) {}, rollback.Created},
		{"another index of the name", func(on *cluster, _ *rollback.Ledger) { on.index("a", "another", "", "", 3) }, rollback.Refused},
		{"ended, and written to since", func(on *cluster, l *rollback.Ledger) {
			must(t, l.Seal(t.Context()))
			on.answers["/a/_stats/docs"] = strings.ReplaceAll(on.answers["/a/_stats/docs"], `"max_seq_no":`, `"max_seq_no":9`)
		}, rollback.Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r, l := migrated(t)
			c.change(on, l)
			u := undoing(on, r)
			u.Unended = true
			all, err := u.List(t.Context())
			must(t, err)
			for _, e := range all {
				if e.Kind == rollback.Index && e.Name == "a" && e.State != c.state {
					t.Errorf("%+v", e)
				}
			}
		})
	}
}

// TestScratchIndicesGo: those that a killed process left, by their UUIDs and also where the session has ended, and nothing else.
func TestScratchIndicesGo(t *testing.T) {
	for _, c := range []struct {
		name, uuid string
		seq        int
		confirmed  bool
		goes       bool
	}{
		{"created and filled", "us", 99, true, true},
		{"created, and its process died before it recorded that", "us", -1, false, true},
		{"created, not recorded, and others wrote to it", "us", 0, false, false},
		{"removed by hand", "", 99, true, true},
		{"another index of the name", "another", 99, true, false},
	} {
		for _, by := range []string{"discard", "undo"} {
			on, r, l := migrated(t)
			ended(t, on, l)
			s := &rollback.Scratch{l}
			must(t, s.Intend(t.Context(), "scratch"))
			on.scratch("us", -1)
			if c.confirmed {
				must(t, s.Confirm(t.Context(), "scratch"))
			}
			if on.scratch(c.uuid, c.seq); c.uuid == "" {
				delete(on.answers, "/scratch")
			}
			var err error
			if by == "undo" {
				_, err = undoing(on, r).Run(t.Context())
				must(t, err)
			} else if err = s.Discard(t.Context(), "scr", rollback.Filled{}); (err == nil) != c.goes {
				t.Errorf("%s: %v", c.name, err)
			}
			_, left := on.answers["/scratch"]
			_, err = session.CreatedOf(r).Read(t.Context(), rollback.Index, "scratch")
			if recorded := !errors.Is(err, cms.ErrNotFound); left == c.goes || recorded == c.goes {
				t.Errorf("%s, %s: on the target: %v, recorded: %v", c.name, by, left, recorded)
			}
			if by == "discard" && len(on.deleted) > 1 {
				t.Errorf("%s: deleted %v", c.name, on.deleted)
			}
		}
	}
}

// TestScratch_WhatOthersWroteStays: with the index that holds it, and its record. Nor does an index of another name go.
func TestScratch_WhatOthersWroteStays(t *testing.T) {
	for _, c := range []struct {
		name, prefix string
		sent         int64
		goes         bool
	}{
		{"all accounted for", "scr", 10, true},
		{"sent twice", "scr", 12, true},
		{"an operation too many", "scr", 9, false},
		{"another name", "measure-", 10, false},
	} {
		on, r := &cluster{answers: map[string]string{}}, coordinator(t)
		s := &rollback.Scratch{ledger(on, r)}
		must(t, s.Intend(t.Context(), "scratch"))
		on.scratch("us", -1)
		must(t, s.Confirm(t.Context(), "scratch"))
		on.scratch("us", 9)
		err := s.Discard(t.Context(), c.prefix, rollback.Filled{[]string{"scratch", "gone"}, c.sent})
		if (len(on.deleted) > 0) != c.goes || (err == nil) != c.goes || !c.goes && !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%s: removed %q, %v", c.name, on.deleted, err)
		}
	}
}

// scratch puts a scratch index there.
func (c *cluster) scratch(uuid string, seq int) {
	c.index("scratch", uuid, "", "", seq)
	c.answers["/scratch"] = strings.ReplaceAll(c.answers["/scratch"], "@index/", "@scratch/")
}

// TestScratch_ARecordOfAnotherIndexRemovesNothing: whoever writes the records cannot make a trial run delete what it did not create.
func TestScratch_ARecordOfAnotherIndexRemovesNothing(t *testing.T) {
	for _, mark := range []string{"@index/victim", "@template/victim", "@scratch/other", "none"} {
		for _, state := range []string{session.CreationIntended, session.CreationDone} {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			on.index("victim", "uv", "", "", 2)
			on.answers["/victim"] = strings.ReplaceAll(on.answers["/victim"], "@index/victim", mark)
			_, err := session.CreatedOf(r).Change(t.Context(), rollback.Index, "victim", func(c session.Creation, now time.Time) (session.Creation, bool) {
				c.State, c.Since, c.Body = state, now, []byte(`{"uuid":"uv","scratch":true}`)
				return c, true
			})
			must(t, err)
			_ = (&rollback.Scratch{ledger(on, r)}).Discard(t.Context(), "", rollback.Filled{})
			u := undoing(on, r)
			u.Unended = true // as cleanup --trial
			_, err = u.Run(t.Context())
			must(t, err)
			if len(on.deleted) > 0 {
				t.Errorf("%s, %s: removed %q", mark, state, on.deleted)
			}
		}
	}
}
