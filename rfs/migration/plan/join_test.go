package plan

import (
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/lucene"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

func TestIDsUnderSeveralParentsAreNamed(t *testing.T) {
	c := newCollisions(&metadata.Join{Parents: map[string]string{"c": "p"}})
	for _, uid := range []string{"p#1", "c#1", "c#2", "c#1", "n#1", "n#1", "c#1"} {
		typ, _, _ := strings.Cut(uid, "#")
		c.add([]byte(typ), &lucene.Record{IDKind: lucene.IDUID, ID: []byte(uid)})
	}
	all := c.warnings("x")
	if len(all) != 1 || !strings.Contains(all[0], "several parents: c#1. ") {
		t.Errorf("%q", all)
	}
	if got := newCollisions(nil).warnings("x"); got != nil {
		t.Errorf("without a join field: %q", got)
	}
}

func TestAnIndexWithoutParentsKeepsItsTypesBesideAParentJoin(t *testing.T) {
	x := &snapshot.Index{Name: "a", Mappings: []snapshot.Mapping{{Type: "note", Body: json.RawMessage(`{"properties":{"n":{"type":"long"}}}`)}}}
	if join, err := joinOf(x, Request{ParentJoin: "relation", EmitType: EmitOn}); join != nil || err != nil {
		t.Errorf("%+v, %v", join, err)
	}
}

func TestParentJoinIsRefusedBeforeTheRun(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "worker", "testdata", "5.6.16-family"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		req  Request
		says string
	}{
		{"a field of that name", Request{ParentJoin: "n"}, "has a field n already"},
		{"types that stay", Request{ParentJoin: "relation", EmitType: EmitOn}, "--emit-doc-type ON"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.SnapshotName, c.req.MultiType = "snap1", SplitTypes
			if _, err := New(t.Context(), blobs, c.req); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
		})
	}
}
