package status

import (
	"encoding/json"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

func TestEventsOfAFormerReleaseAreUnderstood(t *testing.T) {
	item := cms.ItemID{Index: "logs", Shard: 2, Cursor: 70}.String()
	e := eventOf(cms.Record{ID: "event:x:failed", State: "failed", Body: json.RawMessage(`{"subject":"` + item + `","code":"failed","detail":"d"}`)})
	if e.Subject != "index logs shard 2 from document number 70" || e.Item != item {
		t.Errorf("%+v", e)
	}
}
