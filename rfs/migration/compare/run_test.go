package compare

import (
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/boltstore"
)

func newState(t *testing.T) *cms.Coordinator {
	t.Helper()
	store := boltstore.Open(t)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	return c
}

// TestRun_NamesRefusedAliases: documents are equal, and something is still missing.
func TestRun_NamesRefusedAliases(t *testing.T) {
	c := newState(t)
	body := []byte(`{"refused_aliases":[{"index":"logs-1","alias":"logs","reason":"more than one write index"}]}`)
	for _, e := range []session.IndexEntry{{Name: "logs-1", Body: body}, {Name: "other", Body: []byte(`{}`)}, {Name: "later", Body: []byte(`[]`)}} {
		if _, err := session.EntriesOf(c).Create(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	r := &verify.Report{}
	if err := warnOfAliases(t.Context(), r, c); err != nil || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "refuses the alias logs of logs-1") || !strings.Contains(r.Warnings[0], "rfsd migrate again") {
		t.Errorf("%q, %v", r.Warnings, err)
	}
}

// TestRun_KnowsRecordedFailures reads the documents that are recorded as failed, each once.
func TestRun_KnowsRecordedFailures(t *testing.T) {
	c := newState(t)
	noted := []session.Refused{{Index: "logs", ID: "a", Shard: 1}, {Index: "logs", ID: "b", Ordinal: 7}, {Index: "other", ID: "a"}, {Index: "logs", Ordinal: 9}} // the last without its id
	if err := session.RefusalsOf(c).Keep(t.Context(), noted); err != nil {
		t.Fatal(err)
	}
	all := &verify.Failed{}
	all.Add("logs", "a") // from the directory of this machine
	if err := AddRecorded(t.Context(), all, c); err != nil || all.Len() != 3 {
		t.Errorf("%d documents, %v", all.Len(), err)
	}
}

// TestRun_MoreFailuresThanCanBeHeld checks that a comparison ends where it would take failed documents for missing ones.
func TestRun_MoreFailuresThanCanBeHeld(t *testing.T) {
	all := &verify.Failed{}
	for n := 0; all.Add("logs", strconv.Itoa(n)); n++ {
		if n > 1<<21 {
			t.Fatal("nothing bounds them")
		}
	}
	c := newState(t)
	if err := session.RefusalsOf(c).Keep(t.Context(), []session.Refused{{Index: "logs", ID: "one more"}}); err != nil {
		t.Fatal(err)
	}
	if err := AddRecorded(t.Context(), all, c); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "1048576") {
		t.Errorf("%v", err)
	}
}

// TestRun_StateThatCannotBeRead checks that a comparison does not go on without what the session recorded.
func TestRun_StateThatCannotBeRead(t *testing.T) {
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := AddRecorded(t.Context(), &verify.Failed{}, c); err == nil || !strings.Contains(err.Error(), "the control index") {
		t.Errorf("failed documents: %v", err)
	}
	if err := warnOfAliases(t.Context(), &verify.Report{}, c); err == nil {
		t.Error("aliases that were refused")
	}
	if _, err := FailedIn(t.Context(), nil, "dir", c); err == nil {
		t.Error("the mark of the session")
	}
}
