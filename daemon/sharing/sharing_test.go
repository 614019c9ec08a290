package sharing_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

func keys(t *testing.T, fill ...byte) sharing.Keys {
	t.Helper()
	var file [][]byte
	for _, b := range fill {
		file = append(file, bytes.Repeat([]byte{b}, 32))
	}
	k, err := sharing.Derive(file)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

var scope = sharing.Scope{Session: "move", Cluster: "uuid-1"}

func record(revision int64) session.SharedRecord {
	return session.SharedRecord{Revision: revision, Settings: session.Shared{
		"source-host": {"https://old:9200"}, "first": {"a", "b"}, "max-rate": {"12"}, "source-insecure": {"true"}, "target-host": {"https://x"},
		"export-dir": {"/x"}, "failed-documents": {"s3://bucket/refused"}, "s3-endpoint": {"https://s3"}, "repo-uri": {"s3://b"}, "rules-text": {"x"},
	}}
}

func TestJudge(t *testing.T) {
	mine := keys(t, 1)
	changed := func(change func(*session.SharedRecord)) session.SharedRecord {
		r := mine.Sign(scope, record(7))
		change(&r)
		return r
	}
	for _, c := range []struct {
		name   string
		keys   sharing.Keys
		record session.SharedRecord
		seen   int64
		doubt  string // part of it; "": believed
	}{
		{"signed by the key", mine, mine.Sign(scope, record(7)), 7, ""},
		{"signed by the second key of the file", keys(t, 2, 1), mine.Sign(scope, record(7)), 0, ""},
		{"no key on the node", nil, mine.Sign(scope, record(7)), 0, "--fleet-key"},
		{"not signed", mine, record(7), 0, "not signed"},
		{"another key", keys(t, 2), mine.Sign(scope, record(7)), 0, "--share-settings"},
		{"no signature at all", mine, changed(func(r *session.SharedRecord) { r.Signature = "AAAA" }), 0, "changed"},
		{"an address changed", mine, changed(func(r *session.SharedRecord) { r.Settings["source-host"] = []string{"https://attacker"} }), 0, "changed"},
		{"a setting added", mine, changed(func(r *session.SharedRecord) { r.Settings["source-username"] = []string{"x"} }), 0, "changed"},
		{"a list divided otherwise", mine, changed(func(r *session.SharedRecord) { r.Settings["first"] = []string{"ab"} }), 0, "changed"},
		{"a revision raised", mine, changed(func(r *session.SharedRecord) { r.Revision = 9 }), 0, "changed"},
		{"of another session", mine, mine.Sign(sharing.Scope{Session: "other", Cluster: "uuid-1"}, record(7)), 0, "changed"},
		{"of another cluster", mine, mine.Sign(sharing.Scope{Session: "move", Cluster: "uuid-2"}, record(7)), 0, "changed"},
		{"an old one put back", mine, mine.Sign(scope, record(7)), 8, "old one was put back"},
	} {
		t.Run(c.name, func(t *testing.T) {
			j := sharing.TrustOf(c.keys, scope, c.record, c.seen)
			if (j.Doubt == "") != (c.doubt == "") || !strings.Contains(j.Doubt, c.doubt) {
				t.Fatalf("doubt %q, want %q", j.Doubt, c.doubt)
			}
			for name, want := range map[string]bool{
				"max-rate": true, "first": true, "source-insecure": false, "target-host": false, "export-dir": false, "unknown": false,
				"source-host": c.doubt == "", "s3-endpoint": c.doubt == "", "repo-uri": c.doubt == "", "rules-text": c.doubt == "", "failed-documents": c.doubt == "",
			} {
				if got := j.Accepts(name, c.record.Settings[name]); got != want {
					t.Errorf("%s is taken: %t", name, got)
				}
			}
		})
	}
}

func TestClassOf(t *testing.T) {
	for value, want := range map[string]sharing.Class{"s3://bucket/refused": sharing.Signed, "/var/lib/rfsd/failed": sharing.Own} {
		if got := sharing.ClassOf("failed-documents", []string{value}); got != want {
			t.Errorf("%s: %v", value, got)
		}
	}
	for _, name := range []string{"source-insecure", "target-insecure", "coordinator-insecure", "source-password", "failed-documents-shared"} {
		if sharing.ClassOf(name, nil) != sharing.Own {
			t.Errorf("%s is shared", name)
		}
	}
}

func TestNext(t *testing.T) {
	for _, c := range []struct{ seen, stored, now, want int64 }{{0, 0, 100, 100}, {200, 0, 100, 201}, {200, 300, 100, 301}} {
		if got := sharing.Next(c.seen, c.stored, c.now); got != c.want {
			t.Errorf("%v: %d", c, got)
		}
	}
}

func TestSeen(t *testing.T) {
	s := sharing.Seen{Dir: filepath.Join(t.TempDir(), "state")}
	other := sharing.Scope{Session: "mov", Cluster: "euuid-1"} // the same letters
	for _, step := range []struct{ note, want int64 }{{5, 5}, {3, 5}, {9, 9}} {
		if err := s.Note(scope, step.note); err != nil {
			t.Fatal(err)
		}
		if got, err := s.Revision(scope); err != nil || got != step.want {
			t.Errorf("after %d: %d, %v", step.note, got, err)
		}
	}
	if got, err := s.Revision(other); err != nil || got != 0 {
		t.Errorf("another scope: %d, %v", got, err)
	}
	files, err := os.ReadDir(s.Dir)
	if err != nil || len(files) != 1 {
		t.Fatalf("%v, %v", files, err)
	}
	if err := os.WriteFile(filepath.Join(s.Dir, files[0].Name()), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revision(scope); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("a file without a number: %v", err)
	}
}
