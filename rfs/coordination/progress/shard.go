package progress

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// shard derives the state of a shard from its chain of items.
func (r *reader) shard(x *index, n int, density float64) Shard {
	s := Shard{Number: n, State: NotStarted, Counts: Counts{Shards: 1}}
	if n < len(x.bytes) {
		s.Bytes = x.bytes[n]
	}
	chain := x.chains[n]
	var passed, dealt int64 // ordinals, and documents
	touched, open := false, false
	for _, it := range chain {
		s.Counts.Items++
		s.Counts.Indexed += it.Counts.Indexed
		s.Counts.Failed += it.Counts.Failed
		s.Counts.Filtered += it.Counts.Filtered
		s.Counts.Kept += it.Counts.Kept
		s.Counts.Reduced += it.Counts.Reduced
		s.Counts.Retried += it.Counts.Retried
		s.Counts.Resent += it.Counts.Resent
		s.Counts.Replaced += it.Counts.Replaced
		s.Counts.SourceBytes += it.Counts.Bytes
		passed += it.Counts.Ordinals
		dealt += it.Counts.Live
		r.activity.Add(it, r.now)
		s.Attempts += it.Attempts
		touched = touched || it.AcquiredAt != 0 || !it.Open()
		switch {
		case it.FailedItem():
			s.Counts.ItemsBad++
			s.Error = it.Failure
			r.failure(it.Failure, fmt.Sprintf("shard %d of %s", n, x.Name))
		case it.Open():
			open = true
			s.Counts.ItemsOpen++
			r.lease(&s, it)
		}
	}
	switch {
	case len(chain) == 0:
	case s.Counts.ItemsBad > 0:
		s.State = Failed
	case open && !touched:
	case open || !chainComplete(chain, x.ends[n]):
		s.State = InProgress
	default:
		s.State = Completed
		s.Counts.ShardsDone = 1
	}
	s.Fraction = fraction(s, chain, passed, density)
	s.Counts.Bytes = s.Bytes
	s.Counts.BytesDone = int64(math.Round(s.Fraction * float64(s.Bytes)))
	if s.State == Failed && !open {
		s.Counts.ShardsFailed, s.Counts.BytesLost = 1, s.Counts.Bytes-s.Counts.BytesDone
		if live := live(chain); live > 0 {
			s.Counts.Undelivered = max(live-dealt, 0)
		} else {
			s.Counts.Uncounted = 1
		}
	}
	return s
}

// lease sets the holder and expiry of an open item's current lease.
func (r *reader) lease(s *Shard, it cms.Item) {
	if it.Holder == "" || it.Expiration == 0 {
		return
	}
	expiry := time.Unix(it.Expiration, 0).UTC()
	if !expiry.After(r.now) {
		s.Counts.Expired++
		return
	}
	s.Counts.Leased++
	s.Holder, s.Expiry = it.Holder, &expiry
}

// chainComplete reports whether every successor of the completed items exists, and for each end of a part an item.
func chainComplete(chain []cms.Item, ends []int64) bool {
	have, to := map[string]bool{}, map[int64]bool{}
	for _, it := range chain {
		have[it.ID], to[it.End] = true, true
	}
	for _, end := range ends {
		if !to[end] {
			return false
		}
	}
	for _, it := range chain {
		for _, next := range it.SuccessorIDs() {
			if !have[next] {
				return false
			}
		}
	}
	return true
}

// fraction returns the completed fraction of a shard, 0 to 1: exact if a worker has recorded its number of ordinals, else estimated from
// the ordinals per byte of completed shards.
func fraction(s Shard, chain []cms.Item, passed int64, density float64) float64 {
	if s.State == Completed {
		return 1
	}
	total := float64(ordinals(chain))
	if total == 0 {
		total = density * float64(s.Bytes)
	}
	if total <= 0 || passed <= 0 {
		return 0
	}
	return min(float64(passed)/total, 0.99)
}

// ordinals returns the shard's number of ordinals that a worker recorded with its checks, or 0.
func ordinals(chain []cms.Item) int64 {
	for _, it := range chain {
		if n, _ := ShardSize(it); n > 0 {
			return n
		}
	}
	return 0
}

// live returns the shard's number of Lucene documents that a worker recorded when an item failed, or 0.
func live(chain []cms.Item) int64 {
	for _, it := range chain {
		if _, n := ShardSize(it); n > 0 {
			return n
		}
	}
	return 0
}

// ShardSize returns the number of ordinals of an item's shard, and of its live Lucene documents, from the checks of the item; 0 if unknown.
func ShardSize(it cms.Item) (ordinals, live int64) {
	var parts []struct {
		Ordinals int64 `json:"ordinals"`
		Live     int64 `json:"live"`
	}
	if it.Checks == "" || json.Unmarshal([]byte(it.Checks), &parts) != nil {
		return 0, 0
	}
	for _, p := range parts {
		ordinals, live = max(ordinals, p.Ordinals), max(live, p.Live)
	}
	return ordinals, live
}

// density returns the number of ordinals per byte over all completed shards.
func (r *reader) density() float64 {
	var passed, bytes float64
	for _, x := range r.indices {
		for n, chain := range x.chains {
			if n >= len(x.bytes) || slices.ContainsFunc(chain, func(it cms.Item) bool { return it.Open() || it.FailedItem() }) {
				continue
			}
			for _, it := range chain {
				passed += float64(it.Counts.Ordinals)
			}
			bytes += float64(x.bytes[n])
		}
	}
	if bytes == 0 {
		return 0
	}
	return passed / bytes
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
