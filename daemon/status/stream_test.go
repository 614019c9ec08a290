package status_test

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/testing/boltstore"
)

// TestAStreamListsItsIdleProcesses: three processes share two partitions.
func TestAStreamListsItsIdleProcesses(t *testing.T) {
	store := boltstore.Open(t)
	for id, body := range map[string]any{
		"consume:state": map[string]any{"v": 1, "topic": "orders", "group": "g", "begins": []int64{0, 0}},
		"consume:plan":  consume.Plan{Version: 1, Changes: 4, Ends: []int64{7, 5}, Nodes: []consume.Node{{Token: "a", Partitions: []int{0}}, {Token: "b"}, {Token: "c", Partitions: []int{1}}}},
	} {
		b, err := json.Marshal(body)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := store.Put(t.Context(), cms.Record{ID: id, Kind: consume.Kind, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	c := cms.New(cms.Config{Store: store, Creator: "test"})
	m, _, err := status.ReadStream(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	if x := m.Stream; x == nil || x.Topic != "orders" || x.Nodes != 3 || x.Assignments != 4 || !slices.Equal(x.Idle, []string{"b"}) {
		t.Errorf("%+v", x)
	}
}
