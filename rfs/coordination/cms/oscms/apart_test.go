package oscms_test

import (
	"errors"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// TestPartsOfShardsAreWhereNoOtherEngineLooks checks that a session with Apart never uses the index whose items other engines lease.
func TestPartsOfShardsAreWhereNoOtherEngineLooks(t *testing.T) {
	c := connect(t, real)
	sess := freshSession(t, c)
	apart := ".rfs_items-shards_" + sess
	there := func(index string) bool {
		status, _, err := c.Do(t.Context(), http.MethodHead, "/"+index, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return status == http.StatusOK
	}
	s := openStore(t, oscms.Config{Client: c, Session: sess, Apart: true})
	cmstest.Seed(t, cmstest.Coordinator(t, s, 10*time.Minute), "a", 2)
	if there(itemsIndex(sess)) || !there(apart) {
		t.Errorf("other engines find the items: %v; %s is there: %v", there(itemsIndex(sess)), apart, there(apart))
	}
	for _, cfg := range []oscms.Config{{Client: c, Session: sess}, {Client: c, Session: sess, Apart: true}} { // rfsctl knows the session's name only
		s := openStore(t, cfg)
		kind, err := s.OfKind(t.Context(), "copy")
		if err != nil {
			t.Fatal(err)
		}
		shards, err := kind.OfKind(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if open, err := shards.Open(t.Context()); err != nil || open.Items != 2 {
			t.Errorf("%+v: %+v %v", cfg, open, err)
		}
	}
	if dropped, err := oscms.Drop(t.Context(), c, sess); err != nil || !slices.Contains(dropped, apart) {
		t.Errorf("removed %v: %v", dropped, err)
	}

	for name, begin := range map[string]func(sess string){
		"a session that has started": func(sess string) { openStore(t, oscms.Config{Client: c, Session: sess}) },
		"a queue of another tool":    func(sess string) { send(t, c, http.MethodPut, "/"+itemsIndex(sess), `{}`) },
	} {
		sess := freshSession(t, c)
		begin(sess)
		if err := reopenErr(t, oscms.Config{Client: c, Session: sess, Apart: true}); !errors.Is(err, fault.ErrConfig) || there(".rfs_items-shards_"+sess) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
