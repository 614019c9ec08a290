package worker_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

func TestWantedIndicesComeFirst(t *testing.T) {
	for _, c := range []struct {
		name              string
		first, priorities []string
		want              []string
	}{
		{"names in their order", []string{"users", "orders"}, nil, []string{"users", "orders", "logs-1", "old", "logs-2"}},
		{"patterns", []string{"regex:logs-.*"}, nil, []string{"logs-1", "logs-2", "orders", "old", "users"}},
		{"priorities", nil, []string{"old=-1", "users=5", "regex:logs-.*=2"}, []string{"users", "logs-1", "logs-2", "orders", "old"}},
		{"first is beyond every priority", []string{"old"}, []string{"users=1000000"}, []string{"old", "users", "logs-1", "orders", "logs-2"}},
		{"a pattern may hold an equals sign", nil, []string{"regex:a=b|users=3"}, []string{"users", "logs-1", "orders", "old", "logs-2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			order, err := worker.IndexPriority(c.first, c.priorities)
			if err != nil {
				t.Fatal(err)
			}
			var items []cms.Item
			for _, index := range []string{"logs-1", "orders", "old", "logs-2", "users"} {
				items = append(items, cms.NewItem(cms.ItemID{Index: index}.String(), "", 0))
			}
			order(items)
			var got []string
			for _, it := range items {
				id, err := it.Range()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, id.Index)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
}

func TestAnOrderThatMeansNothingIsRefused(t *testing.T) {
	for _, p := range []string{"users", "=1", "users=high", "users=1000001", "regex:(=1"} {
		if _, err := worker.IndexPriority(nil, []string{p}); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%q: %v", p, err)
		}
	}
	if _, err := worker.IndexPriority([]string{"regex:("}, nil); !errors.Is(err, fault.ErrConfig) {
		t.Error(err)
	}
	if order, err := worker.IndexPriority(nil, nil); order != nil || err != nil {
		t.Errorf("%v", err)
	}
}
