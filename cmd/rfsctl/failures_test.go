package main

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/outputtest"
)

func TestRefusedDocumentsAreListedAndSummedUp(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c.db")
	store, err := boltcms.Open(path, time.Now)
	must(t, err)
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	logs := []session.Refused{
		{Index: "logs", ID: "a", Shard: 1, Ordinal: 7, Reason: "illegal_argument_exception", Class: "total_fields_limit", Status: 400},
		{Index: "logs", ID: "b\x1b[2J", Shard: 1, Ordinal: 9, Reason: "illegal_argument_exception", Class: "total_fields_limit", Status: 400},
	}
	other := session.Refused{Index: "other", Ordinal: 1, Reason: "no_source"}
	must(t, session.RefusalsOf(c).Keep(t.Context(), append([]session.Refused{other}, logs...)))
	must(t, store.Close())

	var got status.Failures
	code, out, errs := rfsctl(t, "failures", "--coordinator-file", path, "--output", "json", "--index", "logs")
	if code != 6 || outputtest.Decode(out, &got) != nil {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if want := (status.Failures{GivenUp: []progress.Failure{}, Documents: logs, Groups: []status.RefusedGroup{{Index: "logs", Class: "total_fields_limit", Reason: "illegal_argument_exception", Count: 2, Remedy: `PUT logs/_settings {"index.mapping.total_fields.limit":NUMBER}`}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v", got)
	}
	code, out, errs = rfsctl(t, "failures", "--coordinator-file", path)
	if code != 6 || !strings.Contains(out, "no_source") || !strings.Contains(out, "2 × logs: total_fields_limit (illegal_argument_exception)\n    remedy: PUT logs/_settings") || strings.Contains(out, "\x1b") {
		t.Errorf("exit %d: %q %s", code, out, errs)
	}
	code, out, errs = rfsctl(t, "report", "--coordinator-file", path)
	if code != 0 || !strings.Contains(out, "1 × other: no_source") {
		t.Errorf("report: exit %d: %s%s", code, out, errs)
	}
	if code, out, _ := rfsctl(t, "failures", "--coordinator-file", kept(t, time.Hour)); code != 7 || !strings.Contains(out, "3 documents failed\n") {
		t.Errorf("a session of a former version, which names no place: exit %d: %s", code, out)
	}
	if code, _, _ := rfsctl(t, "failures", "logs", "--coordinator-file", path); code != 1 {
		t.Errorf("a stray argument: exit %d", code)
	}
}

func TestFailuresOfADirectoryAreGroupedByRemedy(t *testing.T) {
	dir := t.TempDir()
	w, err := failed.Open(dir, "w", failed.Full)
	must(t, err)
	long := doc.Failure{
		Index: "logs", ID: "a", Reason: "illegal_argument_exception", Status: 400, Source: []byte(`{}`),
		Detail: `Document contains at least one immense term in field="message" (whose UTF8 encoding is longer than the max length 32766)`,
	}
	strict := doc.Failure{Index: "logs", ID: "b", Ordinal: 1, Reason: "strict_dynamic_mapping_exception", Status: 400}
	must(t, w.Record(t.Context(), []doc.Failure{long, strict, long}))
	must(t, w.Close())
	var got status.Failures
	code, out, errs := rfsctl(t, "failures", "--failed-documents", dir, "--output", "json")
	if code != 6 || outputtest.Decode(out, &got) != nil || got.Failed != 2 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	want := []status.RefusedGroup{
		{Index: "logs", Class: "immense_term", Reason: "illegal_argument_exception", Count: 1, Remedy: `leave long values out of the index: PUT logs/_mapping {"properties":{"message":{"type":"keyword","ignore_above":8191}}}`},
		{Index: "logs", Class: "strict_mapping", Reason: "strict_dynamic_mapping_exception", Count: 1, Remedy: `add the field to the mapping, or allow new ones: PUT logs/_mapping {"dynamic":true}`},
	}
	if !reflect.DeepEqual(got.Groups, want) || len(got.Documents) != 2 || got.GivenUp != nil {
		t.Errorf("%+v", got)
	}
	if _, out, _ := rfsctl(t, "failures", "--failed-documents", dir); !strings.HasPrefix(out, "INDEX") || strings.Contains(out, "given up") {
		t.Errorf("files do not hold what was given up: %s", out)
	}
	code, out, errs = rfsctl(t, "failures", "--failed-documents", dir, "--index", "other")
	if code != 0 || out != "no document failed\n" {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
