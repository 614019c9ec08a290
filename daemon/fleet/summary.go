package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
)

// ID and kind of the record with the summary in the coordination store.
const (
	summaryID   = "summary:fleet"
	summaryKind = "summary"
)

// Summary is the leader's summary of the fleet.
type Summary struct {
	Leader   string  `json:"leader"`
	At       int64   `json:"at"`    // when it was written, in epoch ms by the store's clock
	Nodes    int     `json:"nodes"` // that have reported to the leader
	Workers  int     `json:"workers"`
	Proposed int     `json:"workersProposed"`
	Rate     int64   `json:"bytesPerSecond"` // of sources, by all workers
	Pressure float64 `json:"pressure"`       // ratio of requests that target or repository rejected

	OpenItems   int64 `json:"openItems"` // -1 if the progress is unknown: then the following fields are 0
	FailedItems int64 `json:"failedItems"`
	Shards      int64 `json:"shards"`
	ShardsDone  int64 `json:"shardsDone"`
	Indexed     int64 `json:"documentsIndexed"`
	Failed      int64 `json:"documentsFailed"`
	Filtered    int64 `json:"documentsFiltered"`
	Kept        int64 `json:"documentsKept,omitempty"`
	Bytes       int64 `json:"bytes"`     // of the repository
	LeftBytes   int64 `json:"leftBytes"` // likewise
	// Published is the time of the leader's last published reading, in epoch ms by the store's clock; 0: none.
	Published int64 `json:"published,omitempty"`
	// Seconds is the estimated remaining time, by the throughput of the last quarter of an hour; absent if unknown.
	Seconds *float64 `json:"secondsLeft,omitempty"`
	// History is the throughput since the start. The next leader continues it.
	History schedule.History `json:"history"`
}

// addRemaining sets the progress of the migration.
func (s *Summary) addRemaining(left schedule.Remaining, known bool, recent schedule.Throughput) {
	if !known {
		s.OpenItems = -1
		return
	}
	s.OpenItems, s.FailedItems, s.Shards, s.ShardsDone = left.ItemsOpen, left.ItemsFailed, left.Shards, left.ShardsDone
	s.Indexed, s.Failed, s.Filtered, s.Kept = left.Indexed, left.Failed, left.Filtered, left.Kept
	s.Bytes, s.LeftBytes = left.Bytes, left.BytesLeft()
	if left.ItemsOpen > 0 {
		s.Seconds = schedule.Estimate(s.LeftBytes, recent.Bytes)
	}
}

// readSummary returns the record and its summary, or new ones if they do not exist. An invalid body counts as an empty summary.
func (f *Fleet) readSummary(ctx context.Context) (r cms.Record, s Summary, err error) {
	r, err = f.conf.Store.Record(ctx, summaryID)
	if errors.Is(err, cms.ErrNotFound) {
		return cms.Record{ID: summaryID, Kind: summaryKind}, s, nil
	}
	if err != nil {
		return r, s, fmt.Errorf("summary of the fleet: %w", err)
	}
	if json.Unmarshal(r.Body, &s) != nil {
		s = Summary{}
	}
	return r, s, nil
}

// writeSummary stores s with compare-and-set, so that a deposed leader cannot overwrite a newer summary.
func (f *Fleet) writeSummary(ctx context.Context, r cms.Record, s Summary) (err error) {
	if r.Body, err = json.Marshal(s); err != nil {
		return fmt.Errorf("summary of the fleet: %w", err)
	}
	if r.UpdatedAt = s.At; r.CreatedAt == 0 {
		r.CreatedAt = s.At
	}
	if _, err := f.conf.Store.Put(ctx, r); err != nil {
		return fmt.Errorf("summary of the fleet: %w", err)
	}
	return nil
}
