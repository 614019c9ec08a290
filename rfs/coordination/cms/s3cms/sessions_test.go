package s3cms_test

import (
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
)

// TestSessions_List: every session of a bucket is listed, with one request per session, regardless of other objects in the bucket.
func TestSessions_List(t *testing.T) {
	m := newMemory()
	want := []string{"", "move", "move-1", "move-10", "z"}
	for _, name := range want {
		s, err := s3cms.Open(t.Context(), s3cms.Config{Bucket: m, Session: name})
		if err != nil {
			t.Fatal(err)
		}
		for n := range int64(3 * m.page) {
			if _, err := s.Create(t.Context(), []cms.Item{cms.NewItem(cms.ItemID{Index: "logs", Shard: int(n)}.String(), "test", 0)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, other := range []string{"move", "nothing/readme", "Upper/conditions", "zz"} {
		if _, err := m.Put(t.Context(), other, nil, ""); err != nil {
			t.Fatal(err)
		}
	}
	m.count["list"] = 0
	got, err := s3cms.Sessions(t.Context(), m)
	if slices.Sort(got); err != nil || !slices.Equal(got, want) || m.count["list"] > len(want)+5 {
		t.Errorf("%q, %v, %d requests, want %q", got, err, m.count["list"], want)
	}
}
