package sim

import (
	"encoding/json"
	"strings"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// heldAt returns the item whose range contains an ordinal when it is leased.
func (s *server) heldAt(k shardKey, ordinal int64) (cms.Item, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := cms.ItemID{Index: k.index, Shard: k.shard}
	for _, end := range s.parts(k) {
		if end <= ordinal {
			id.Cursor = end
		}
	}
	best, ok := s.items[id.String()]
	for ok {
		next, found := cms.Item{}, false
		for _, sid := range best.SuccessorIDs() {
			at, err := cms.ParseID(sid)
			if it, exists := s.items[sid]; err == nil && exists && at.Cursor <= ordinal {
				next, found = it, true
			}
		}
		if !found {
			break
		}
		best = next
	}
	return best, ok && best.Open() && best.Holder != "" && best.Expiration*1000 > s.clock().UnixMilli()
}

// parts returns the ends of the parts of a shard, once they are decided.
func (s *server) parts(k shardKey) []int64 {
	if s.w.cfg.Split == 0 {
		return nil
	}
	if ends, known := s.ends[k]; known {
		return ends
	}
	var body struct {
		Ends map[int][]int64 `json:"ends"`
	}
	id, _, _ := strings.Cut(cms.ItemID{Index: k.index}.String(), "__")
	if err := json.Unmarshal(s.records["index:"+id].Body, &body); err == nil && body.Ends != nil {
		s.ends[k] = body.Ends[k.shard]
	}
	return s.ends[k]
}
