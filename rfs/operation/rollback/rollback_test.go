package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// cluster answers by path; a DELETE removes what is there.
type cluster struct {
	answers map[string]string
	deleted []string
	rejects string // a DELETE of this path
	dies    int    // at this DELETE, after it was done; 0: never
	any     string // the answer to every request; "": by path
}

func (c *cluster) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if c.any != "" {
		return c.anything(method, path)
	}
	a, ok := c.answers[path]
	if !ok {
		return http.StatusNotFound, []byte(`{}`), nil
	}
	if method != http.MethodDelete {
		return http.StatusOK, []byte(withMarks(a)), nil
	}
	if path == c.rejects {
		return http.StatusBadRequest, []byte(`{"error":"in use"}`), nil
	}
	delete(c.answers, path)
	if c.deleted = append(c.deleted, path); len(c.deleted) == c.dies {
		return 0, nil, fmt.Errorf("killed: %w", fault.ErrUnavailable)
	}
	return http.StatusOK, []byte(`{}`), nil
}

// index puts an index with one shard there.
func (c *cluster) index(name, uuid, settings, aliases string, seq int) {
	c.answers["/"+name] = fmt.Sprintf(`{%q:{"settings":{"index.uuid":%q%s},"aliases":{%s},"mappings":{"_meta":{"theirs":1,"rfsd":"@index/%s"}}}}`, name, uuid, settings, aliases, name)
	c.answers["/"+name+"/_stats/docs"] = fmt.Sprintf(`{"indices":{%q:{"shards":{"0":[{"routing":{"primary":true},"seq_no":{"max_seq_no":%d}}]}}}}`, name, seq)
}

// sessionMark is that of the session of the last coordinator.
var sessionMark objects.Mark

var placeOfMark = regexp.MustCompile(`"(@@?)([a-z-]+)/([^"]+)"`)

// withMarks puts the mark of the session into an answer, in the place of "@kind/name", or of "@@kind/name" as a description.
func withMarks(answer string) string {
	return placeOfMark.ReplaceAllStringFunc(answer, func(at string) string {
		m := placeOfMark.FindStringSubmatch(at)
		mark, _ := json.Marshal(map[string]string{"session": sessionMark.Session, "kind": m[2], "name": m[3], "mark": sessionMark.Token})
		if m[1] == "@@" {
			mark, _ = json.Marshal("of the user rfsd:" + string(mark))
		}
		return string(mark)
	})
}

func coordinator(t *testing.T) *cms.Coordinator {
	t.Helper()
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := cms.New(cms.Config{Store: store, Creator: "t"})
	if _, err := session.IdentityOf(c).Init(t.Context(), session.Meta{}); err != nil {
		t.Fatal(err)
	}
	token, err := session.IdentityOf(c).Mark(t.Context())
	must(t, err)
	sessionMark = objects.Mark{Session: "s", Token: token}
	return c
}

func ledger(c *cluster, r *cms.Coordinator) *Ledger {
	return NewLedger(c, r, "s", slog.New(slog.DiscardHandler))
}

func undoing(c *cluster, r *cms.Coordinator) *Undo {
	return &Undo{API: c, Records: session.CreatedOf(r), Phases: session.PhasesOf(r), Mark: sessionMark, Tuned: func(context.Context) iter.Seq2[session.Tuned, error] { return func(func(session.Tuned, error) bool) {} },
		Restore: func(context.Context) (map[string]string, error) { return nil, nil }}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// states returns the list as "kind name state".
func states(all []Entry) (got []string) {
	for _, e := range all {
		got = append(got, e.Kind+" "+e.Name+" "+e.State)
	}
	return got
}

func template(shards int) string {
	return fmt.Sprintf(`{"t":{"order":0,"index_patterns":["x-*"],"settings":{"index":{"number_of_shards":"%d"}},"mappings":{"_meta":{"rfsd":"@template/t"}},"aliases":{}}}`, shards)
}

func TestAnIntentIsDecidedByWhatTheTargetHas(t *testing.T) {
	theirs := func(c *cluster, path string) { c.answers[path] = strings.ReplaceAll(c.answers[path], "/t\"", "/u\"") }
	for _, c := range []struct {
		name       string
		kind       string
		on         func(*cluster)
		want, kept []string // without and with another run of the migration
	}{
		{"the process died before it created the index", Index, func(*cluster) {}, nil, nil},
		{"the process died after it created the index", Index, func(c *cluster) { c.index("t", "u", "", "", -1) }, []string{"index t created"}, []string{"index t created"}},
		{"another client created it", Index, func(c *cluster) { c.index("t", "u", "", "", -1); theirs(c, "/t") }, nil, nil},
		{"another client created it by a template of the session", Index, func(c *cluster) {
			c.index("t", "u", "", "", -1)
			c.answers["/t"] = strings.ReplaceAll(c.answers["/t"], "@index/t", "@template/t")
		}, nil, nil},
		{"it holds copies only, and the record states that it is a migrated one", Index, func(c *cluster) {
			c.index("t", "u", "", "", -1)
			c.answers["/t"] = strings.ReplaceAll(c.answers["/t"], "@index/t", "@scratch/t")
		}, nil, nil},
		{"an alias has the name", Index, func(c *cluster) { c.answers["/t"] = `{"other":{"settings":{},"aliases":{"t":{}}}}` }, nil, nil},
		{"the process died after it created the template", "template", func(c *cluster) { c.answers["/_template/t"] = template(2) }, []string{"template t created"}, []string{"template t created"}},
		{"another client created it", "template", func(c *cluster) { c.answers["/_template/t"] = template(2); theirs(c, "/_template/t") }, nil, nil},
		{"no template is there", "template", func(*cluster) {}, nil, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r := &cluster{answers: map[string]string{}}, coordinator(t)
			l := ledger(on, r)
			must(t, l.Intend(t.Context(), c.kind, "t"))
			c.on(on)
			all, err := undoing(on, r).List(t.Context())
			if must(t, err); !slices.Equal(states(all), c.want) {
				t.Errorf("list: %q", states(all))
			}
			must(t, l.Decide(t.Context(), c.kind, "t"))
			if all, err = undoing(on, r).List(t.Context()); err != nil || !slices.Equal(states(all), c.kept) {
				t.Errorf("list after another run: %q, %v", states(all), err)
			}
		})
	}
}

func TestWhatExistedBeforeIsNeverListed(t *testing.T) {
	on, r := &cluster{answers: map[string]string{"/_template/t": template(2)}}, coordinator(t)
	on.index("old", "u", "", "", 5)
	l := ledger(on, r)
	must(t, l.Decide(t.Context(), Index, "old"))
	must(t, l.Decide(t.Context(), "template", "t"))
	must(t, l.Intend(t.Context(), "pipeline", "p"))
	must(t, l.Withdraw(t.Context(), "pipeline", "p")) // the target refused it
	on.answers["/_ingest/pipeline/p"] = `{"p":{"processors":[]}}`
	all, err := undoing(on, r).List(t.Context())
	if must(t, err); len(all) != 0 {
		t.Errorf("list: %q", states(all))
	}
}

// migrated is a session that ended: index a with an alias, index b, template t, pipeline p.
func migrated(t *testing.T) (*cluster, *cms.Coordinator, *Ledger) {
	t.Helper()
	on, r := &cluster{answers: map[string]string{"/_template/t": template(2), "/_ingest/pipeline/p": `{"p":{"description":"@@pipeline/p"}}`, "/_all/_settings/index.default_pipeline,index.final_pipeline": `{}`}}, coordinator(t)
	l := ledger(on, r)
	for _, name := range []string{"a", "b"} {
		must(t, l.Intend(t.Context(), Index, name))
		on.index(name, "u"+name, "", "", -1)
		must(t, l.Confirm(t.Context(), Index, name))
		on.index(name, "u"+name, "", "", 7)
	}
	for kind, name := range map[string]string{"template": "t", "pipeline": "p"} {
		must(t, l.Intend(t.Context(), kind, name))
		must(t, l.Confirm(t.Context(), kind, name))
	}
	return on, r, l
}

// ended gives index a its alias and ends the session.
func ended(t *testing.T, on *cluster, l *Ledger) {
	t.Helper()
	must(t, l.Seal(t.Context()))
	must(t, l.IntendAliases(t.Context(), "a", json.RawMessage(`{"read":{}}`)))
	reset(on, "", `"read":{}`, 7)
}

// reset changes index a.
func reset(on *cluster, settings, aliases string, seq int) {
	on.index("a", "ua", settings, aliases, seq)
}

func TestUndoRefusesDocumentsOfAMigrationThatDidNotEnd(t *testing.T) {
	on, r, _ := migrated(t)
	on.index("b", "ub", "", "", -1)
	all, err := undoing(on, r).List(t.Context())
	must(t, err)
	for _, e := range all {
		if e.Name == "a" && (e.State != Refused || !strings.Contains(e.Reason, "run the migration to its end")) {
			t.Errorf("%+v", e)
		}
		if e.Name == "b" && e.State != Created { // nothing was ever written to it
			t.Errorf("%+v", e)
		}
	}
	all, err = undoing(on, r).Run(t.Context()) // the session is closed: its migration cannot be run any more
	must(t, err)
	for _, e := range all {
		if e.Name == "a" && (e.State != Refused || strings.Contains(e.Reason, "run the migration")) {
			t.Errorf("%+v", e)
		}
	}
}

func TestWhatATrialRunLeftUnendedGoesByItsUUID(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(on *cluster, l *Ledger)
		state  string
	}{
		{"as it was left", func(*cluster, *Ledger) {}, Created},
		{"another index of the name", func(on *cluster, _ *Ledger) { on.index("a", "another", "", "", 3) }, Refused},
		{"ended, and written to since", func(on *cluster, l *Ledger) {
			must(t, l.Seal(t.Context()))
			on.answers["/a/_stats/docs"] = strings.ReplaceAll(on.answers["/a/_stats/docs"], `"max_seq_no":`, `"max_seq_no":9`)
		}, Refused},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, r, l := migrated(t)
			c.change(on, l)
			u := undoing(on, r)
			u.Unended = true
			all, err := u.List(t.Context())
			must(t, err)
			for _, e := range all {
				if e.Kind == Index && e.Name == "a" && e.State != c.state {
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
			s := &Scratch{l}
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
			} else if err = s.Discard(t.Context(), "scr", Filled{}); (err == nil) != c.goes {
				t.Errorf("%s: %v", c.name, err)
			}
			_, left := on.answers["/scratch"]
			_, err = session.CreatedOf(r).Read(t.Context(), Index, "scratch")
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
		s := &Scratch{ledger(on, r)}
		must(t, s.Intend(t.Context(), "scratch"))
		on.scratch("us", -1)
		must(t, s.Confirm(t.Context(), "scratch"))
		on.scratch("us", 9)
		err := s.Discard(t.Context(), c.prefix, Filled{[]string{"scratch", "gone"}, c.sent})
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
			_, err := session.CreatedOf(r).Change(t.Context(), Index, "victim", func(c session.Creation, now time.Time) (session.Creation, bool) {
				c.State, c.Since, c.Body = state, now, object{UUID: "uv", Scratch: true}.encode()
				return c, true
			})
			must(t, err)
			_ = (&Scratch{ledger(on, r)}).Discard(t.Context(), "", Filled{})
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

// TestLedger_DiscardsWhatAnUndoRemoves: an index that the source recreated is removed from the target only where an undo would remove it.
func TestLedger_DiscardsWhatAnUndoRemoves(t *testing.T) {
	for _, c := range []struct {
		name, uuid string
		before     func(on *cluster, l *Ledger)
		discarded  bool
		refused    string
	}{
		{name: "as the last round left it", uuid: "ua", discarded: true},
		{name: "another index has the name", uuid: "former"},
		{name: "it was written to since", uuid: "ua", before: func(on *cluster, _ *Ledger) { reset(on, "", "", 9) }, refused: "it was written to after the migration"},
		{name: "it does not carry the mark", uuid: "ua", before: func(on *cluster, _ *Ledger) {
			on.answers["/a"] = strings.ReplaceAll(on.answers["/a"], "@index/a", "none")
		}, refused: "mark"},
		{name: "the round that filled it has not ended", uuid: "ua", before: func(_ *cluster, l *Ledger) { must(t, l.Unseal(t.Context())) }, refused: "run the migration to its end"},
	} {
		t.Run(c.name, func(t *testing.T) {
			on, _, l := migrated(t)
			must(t, l.Seal(t.Context()))
			if c.before != nil {
				c.before(on, l)
			}
			discarded, err := l.Discard(t.Context(), "a", c.uuid)
			if c.refused != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refused) {
					t.Errorf("%v, want %q", err, c.refused)
				}
			} else if err != nil || discarded != c.discarded {
				t.Errorf("%v, %v", discarded, err)
			}
			if gone := len(on.deleted) == 1 && on.deleted[0] == "/a"; gone != c.discarded || len(on.deleted) > 1 {
				t.Errorf("removed %q", on.deleted)
			}
		})
	}
	_, _, l := migrated(t)
	if discarded, err := l.Discard(t.Context(), "theirs", "ut"); discarded || err != nil {
		t.Errorf("an index without a record: %v, %v", discarded, err)
	}
}

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
				if e.Kind == Index && (e.State == Refused) != (e.Name == "a") {
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
		if e.Kind == Index && (e.State == Refused) != (e.Name == "a") {
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
			if e.Kind == Index && (e.State == Refused) != (e.Name == "a" && theirs > 0) {
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
				if e.Kind == Index && (e.State == Refused) != (e.Name == "a") {
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
		own    []Own
		redone int // operations of a redrive, after which the migration goes on
		want   []string
	}{
		{"all accounted for", []Own{{both[:1], 8}, {both[1:], 8}}, 0, nil},
		{"more accounted for: answers that came twice", []Own{{both[:1], 9}}, 0, nil},
		{"one operation too many", []Own{{both[:1], 7}, {both[1:], 8}}, 0, []string{"a"}},
		{"in one of two indices that types are split over", []Own{{both, 15}}, 0, both},
		{"together with an index that is not the session's", []Own{{[]string{"a", "theirs"}, 7}}, 0, nil},
		{"nothing is known", nil, 0, nil},
		{"after a redrive", []Own{{both[:1], 8}}, 3, nil},
		{"after a redrive, and another client", []Own{{both[:1], 7}}, 3, []string{"a"}},
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
				if e.State == Refused {
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
	Records
	left int
}

func (d *dying) Change(ctx context.Context, kind, name string, f func(session.Creation, time.Time) (session.Creation, bool)) (bool, error) {
	if d.left--; d.left < 0 {
		return false, fault.ErrUnavailable
	}
	return d.Records.Change(ctx, kind, name, f)
}

// TestLedger_ADeathWhileItSealsLeavesNoIndexOfOthersToUndo: an application wrote to both indices during the migration.
func TestLedger_ADeathWhileItSealsLeavesNoIndexOfOthersToUndo(t *testing.T) {
	both := []string{"a", "b"}
	for name, own := range map[string][]Own{
		"each index by itself": {{both[:1], 7}, {both[1:], 7}}, "types that are split over both": {{both, 15}},
	} {
		for changes := range 3 {
			t.Run(fmt.Sprintf("%s, %d changes", name, changes), func(t *testing.T) {
				on, r, l := migrated(t)
				whole := l.Records
				l.Records = &dying{whole, changes}
				if err := l.Seal(t.Context(), own...); (err == nil) != (changes == 2) {
					t.Fatalf("sealed: %v", err)
				}
				kept := func(when string) {
					t.Helper()
					all, err := undoing(on, r).List(t.Context())
					must(t, err)
					for _, e := range all {
						if e.Kind == Index && slices.Contains(both, e.Name) && e.State != Refused {
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

func TestUndoContinuesAfterEveryDeath(t *testing.T) {
	for dies := 1; dies <= 4; dies++ {
		on, r, l := migrated(t)
		ended(t, on, l)
		on.dies = dies
		if _, err := undoing(on, r).Run(t.Context()); !errors.Is(err, fault.ErrUnavailable) {
			t.Fatalf("death at %d: %v", dies, err)
		}
		if _, err := undoing(on, r).Run(t.Context()); err != nil {
			t.Fatalf("after death at %d: %v", dies, err)
		}
		if len(on.deleted) != 4 || len(slices.Compact(slices.Sorted(slices.Values(on.deleted)))) != 4 {
			t.Errorf("after death at %d: removed %q", dies, on.deleted)
		}
		if all, err := undoing(on, r).List(t.Context()); err != nil || len(all) != 0 {
			t.Errorf("after death at %d: left %q, %v", dies, states(all), err)
		}
	}
}

func TestASessionThatIsUndoneCreatesNothing(t *testing.T) {
	_, r, l := migrated(t)
	must(t, session.IdentityOf(r).BeginUndo(t.Context()))
	if err := l.Intend(t.Context(), Index, "c"); !errors.Is(err, session.ErrUndone) {
		t.Errorf("intent: %v", err)
	}
	if _, err := session.IdentityOf(r).Init(t.Context(), session.Meta{}); !errors.Is(err, session.ErrUndone) {
		t.Errorf("joined: %v", err)
	}
	if _, err := session.IdentityOf(r).Init(t.Context(), session.Meta{AcceptChange: true}); !errors.Is(err, session.ErrUndone) {
		t.Errorf("joined with another purpose: %v", err)
	}
	must(t, session.IdentityOf(r).BeginUndo(t.Context()))
}

func TestARepositoryThatTheSourceKnewIsNotListed(t *testing.T) {
	for _, c := range []struct {
		name       string
		dies       bool // the first process, before it knows the outcome
		registered bool
		want       int
	}{{"registered", false, true, 1}, {"known before", false, false, 0}, {"the answer was lost", true, false, 1}} {
		t.Run(c.name, func(t *testing.T) {
			r := coordinator(t)
			l := ledger(&cluster{}, r)
			first, err := l.IntendRepository(t.Context(), "backup")
			must(t, err)
			if c.dies {
				first, err = l.IntendRepository(t.Context(), "backup")
				must(t, err)
			}
			must(t, l.RegisteredRepository(t.Context(), "backup", first, c.registered))
			all, err := undoing(nil, r).List(t.Context())
			if must(t, err); len(all) != c.want || c.want > 0 && all[0].State != OnSource {
				t.Errorf("list: %q", states(all))
			}
		})
	}
}
