package resend_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/document/rules"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/stream/importer"
	"github.com/rfsd/rfsd/rfs/stream/resend"
)

// started returns the records of a session that has started with settings and a policy for documents that the target has.
func started(t *testing.T, settings map[string]string, existing string) *cms.Coordinator {
	t.Helper()
	kept := control(t)
	identity := map[string]string{phase.ExistingKey: existing}
	if _, err := session.IdentityOf(kept).Init(t.Context(), session.Meta{Identity: identity, Settings: settings}); err != nil {
		t.Fatal(err)
	}
	return kept
}

func round(number int, a session.Account) session.Round {
	return session.Round{Number: number, Snapshot: fmt.Sprint("snap-", number), Arrived: 1, Account: a}
}

// TestState_Snapshot opens what a session migrated, and refuses what it did not.
func TestState_Snapshot(t *testing.T) {
	dir := t.TempDir()
	blobs, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "rules.toml")
	if err := os.WriteFile(file, []byte("# nothing\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	given, err := rules.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		settings map[string]string // nil: the session has no state
		rules    *rules.Set
		refusal  string
		versions bool
	}{
		{"of the session", map[string]string{"repository": ""}, nil, "", false},
		{"with its rules", map[string]string{"repository": "", "rules": given.Digest()}, given, "", false},
		{"of a round", map[string]string{"repository": "", plan.FollowKey: "snap-1"}, nil, "", true},
		{"of another repository", map[string]string{"repository": "s3://b/r"}, nil, "was migrated from s3://b/r: give it as --repo-uri", false},
		{"without rules", map[string]string{"repository": ""}, given, "without rules: leave --rules out", false},
		{"with other rules", map[string]string{"repository": "", "rules": "digest"}, given, "with other rules: give its file as --rules", false},
		{"of a session without state", nil, nil, "the session move has no state, which names the places of its documents", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			kept := control(t)
			if c.settings != nil {
				kept = started(t, c.settings, "")
				if _, err := session.EntriesOf(kept).Create(t.Context(), session.IndexEntry{Name: "logs", Shards: 1, Body: json.RawMessage(`{"locator":{"index":"logs"},"naming":{"index":"logs"}, "shards":1}`)}); err != nil {
					t.Fatal(err)
				}
			}
			s, err := resend.Read(t.Context(), "move", kept)
			if err != nil {
				t.Fatal(err)
			}
			again, err := s.Snapshot(t.Context(), blobs, c.rules)
			if c.refusal != "" {
				if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.refusal) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || again.Repo == nil || again.Versions != c.versions {
				t.Errorf("%+v, %v", again, err)
			}
		})
	}
	s, err := resend.Read(t.Context(), "move", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Files(t.Context(), importer.Comparison{}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("files of a session whose state was removed: %v", err)
	}
}

// TestRead_Followed: a session that was followed after its migration is not sent again without versions.
func TestRead_Followed(t *testing.T) {
	kept := started(t, map[string]string{"repository": ""}, "keep")
	for n := range 2 {
		if _, err := session.RoundsOf(kept).Start(t.Context(), session.Round{Number: n, Snapshot: fmt.Sprint("snap-", n)}); err != nil {
			t.Fatal(err)
		}
		if _, err := resend.Read(t.Context(), "move", kept); errors.Is(err, session.ErrFollowed) != (n == 1) {
			t.Errorf("after round %d: %v", n, err)
		}
		if _, err := session.RoundsOf(kept).Arrive(t.Context(), round(n, session.Account{})); err != nil {
			t.Fatal(err)
		}
	}
}

// TestState_Later: a redrive of a round asks what later rounds have deleted, and only then.
func TestState_Later(t *testing.T) {
	all := session.Followed{Rounds: []session.Round{round(0, session.Account{Deleted: 5}), round(1, session.Account{Updated: 3}), round(2, session.Account{Inserted: 1})}}
	for _, c := range []struct {
		name   string
		rules  string
		number int
		want   bool
	}{
		{"updates without rules", "", 0, false},
		{"updates that rules may move", "digest", 0, true},
		{"no later deletion", "digest", 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, err := resend.Read(t.Context(), "move", started(t, map[string]string{"rules": c.rules, plan.FollowKey: "first"}, ""))
			if err != nil {
				t.Fatal(err)
			}
			later := s.Later(all, c.number, nil, slog.New(slog.DiscardHandler))
			if (later != nil) != c.want {
				t.Fatalf("asks: %t", later != nil)
			}
			if later != nil {
				if err := later(t.Context(), []string{"logs"}, func(*doc.Document) {}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "give --repo-uri") {
					t.Errorf("without the snapshot: %v", err)
				}
			}
		})
	}
}

// TestState_LaterStartedOver: a round that starts over sends every document again, so that nothing of former rounds is delivered after it.
func TestState_LaterStartedOver(t *testing.T) {
	over, begun := round(2, session.Account{}), round(2, session.Account{})
	over.Whole, begun.Whole, begun.Arrived = true, true, 0
	first := []session.Round{round(0, session.Account{}), round(1, session.Account{Deleted: 1})}
	s, err := resend.Read(t.Context(), "move", started(t, map[string]string{plan.FollowKey: "first"}, ""))
	if err != nil {
		t.Fatal(err)
	}
	for name, since := range map[string][]session.Round{"arrived": {over, round(3, session.Account{})}, "in progress": {begun}} {
		for number, refused := range []bool{true, true, false, false} {
			later := s.Later(session.Followed{Rounds: slices.Concat(first, since)}, number, nil, slog.New(slog.DiscardHandler))
			if (later != nil) != refused {
				t.Fatalf("%s, round %d: asks: %t", name, number, later != nil)
			}
			if later == nil {
				continue
			}
			if err := later(t.Context(), []string{"logs"}, func(*doc.Document) {}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "round 2 has started over") {
				t.Errorf("%s, round %d: %v", name, number, err)
			}
		}
	}
}

var errRefused = errors.New("refused")

// silent is a store that takes no records.
type silent struct{ cms.Store }

func (silent) Put(context.Context, cms.Record) (cms.Revision, error) {
	return cms.Revision{}, errRefused
}

func (silent) PutAll(context.Context, []cms.Record) ([]error, error) {
	return nil, errRefused
}

// TestRecorder_StoreDoesNotAnswer: nothing counts as recorded then, which keeps the watermark where it is.
func TestRecorder_StoreDoesNotAnswer(t *testing.T) {
	w, err := failed.Open(t.TempDir(), "w", failed.Full)
	if err != nil {
		t.Fatal(err)
	}
	kept := control(t)
	failure := []doc.Failure{{Index: "logs", ID: "a", Reason: "mapper_parsing_exception", Status: 400}}
	r := &resend.Recorder{Recorder: w, Kept: cms.New(cms.Config{Store: silent{kept.Store()}, Creator: "test"})}
	if err := r.Record(t.Context(), failure); !errors.Is(err, errRefused) {
		t.Error(err)
	}
	r.Kept = kept
	if err := r.Record(t.Context(), failure); err != nil {
		t.Error(err)
	}
	s := &resend.State{Name: "move", Kept: kept}
	n := 0
	for d, err := range s.Recorded().List(t.Context()) {
		if n++; err != nil || d.Failure.ID != "a" || d.Class != "mapping" {
			t.Errorf("%+v, %v", d, err)
		}
	}
	if n != 1 {
		t.Errorf("%d documents are recorded", n)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}
