package daemon

import (
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// TestLease_NamesIndexAndShard: an event about a lease names index and shard as text, and has the id that commands accept.
func TestLease_NamesIndexAndShard(t *testing.T) {
	item := cms.ItemID{Index: "logs", Shard: 2, Cursor: 70}.String()
	for _, c := range []struct {
		name          string
		lease         *Lease
		subject, item string
	}{
		{"an item", &Lease{Item: item}, "index logs shard 2 from document number 70", item},
		{"a window", &Lease{Item: "12", Index: "a/0-0.ndjson", Shard: 1}, "file a/0-0.ndjson window 12", "12"},
		{"between two leases", &Lease{}, "worker", ""},
		{"no lease", nil, "worker", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if subject, item := c.lease.subject(); subject != c.subject || item != c.item {
				t.Errorf("%q, %q", subject, item)
			}
		})
	}
}
