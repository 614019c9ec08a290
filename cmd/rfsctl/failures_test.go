package main

import (
	"encoding/json"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/boltcms"
)

func TestRefusedDocumentsAreListedAndSummedUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	store, err := boltcms.Open(path, time.Now)
	must(t, err)
	c, err := cms.New(cms.Config{Store: store, Creator: "test"})
	must(t, err)
	logs := []cms.Refused{
		{Index: "logs", ID: "a", Shard: 1, Ordinal: 7, Reason: "mapper_parsing_exception", Status: 400},
		{Index: "logs", ID: "b\x1b[2J", Shard: 1, Ordinal: 9, Reason: "mapper_parsing_exception", Status: 400},
	}
	other := cms.Refused{Index: "other", Ordinal: 1, Reason: "source_missing"}
	must(t, c.KeepRefused(t.Context(), append([]cms.Refused{other}, logs...)))
	must(t, store.Close())

	var got refusedDocuments
	code, out, errs := rfsctl(t, "failures", "--coordinator-file", path, "--output", "json", "--index", "logs")
	if code != 0 || json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if want := (refusedDocuments{logs, []refusedGroup{{"logs", "mapper_parsing_exception", 2}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	code, out, errs = rfsctl(t, "failures", "--coordinator-file", path)
	if code != 0 || !strings.Contains(out, "source_missing") || !strings.Contains(out, "2 × logs: mapper_parsing_exception") || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	code, out, errs = rfsctl(t, "report", "--coordinator-file", path)
	if code != 0 || !strings.Contains(out, "1 × other: source_missing") {
		t.Errorf("report: exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := rfsctl(t, "failures", "--coordinator-file", kept(t, time.Hour)); code != 0 || !strings.Contains(out, "no refused documents") {
		t.Errorf("a session without any: exit %d: %s", code, out)
	}
	if code, _, _ := rfsctl(t, "failures", "logs", "--coordinator-file", path); code != 1 {
		t.Errorf("a stray argument: exit %d", code)
	}
}
