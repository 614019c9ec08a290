package compare

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// TestRun_KnowsRecordedFailures reads the documents that are recorded as failed, each once.
func TestRun_KnowsRecordedFailures(t *testing.T) {
	store, err := boltcms.Open(filepath.Join(t.TempDir(), "c.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c, err := cms.New(cms.Config{Store: store, Creator: "test"})
	if err != nil {
		t.Fatal(err)
	}
	noted := []session.Refused{{Index: "logs", ID: "a", Shard: 1}, {Index: "logs", ID: "b", Ordinal: 7}, {Index: "other", ID: "a"}, {Index: "logs", Ordinal: 9}} // the last without its id
	if err := session.Of(c).KeepRefused(t.Context(), noted); err != nil {
		t.Fatal(err)
	}
	all := &verify.Failed{}
	all.Add("logs", "a") // from the directory of this machine
	if err := addRecorded(t.Context(), all, c); err != nil || all.Len() != 3 {
		t.Errorf("%d documents, %v", all.Len(), err)
	}
}
