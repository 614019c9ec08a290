package session

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const kindFailedAt = "failed"

// FailedAt is the place where a process keeps its failed documents, with their sums.
type FailedAt struct {
	Host  string      `json:"host,omitempty"` // "" for a bucket
	Place string      `json:"place"`          // absolute path of a directory, or URI
	Sums  []FailedSum `json:"sums"`           // largest first
}

// Name returns the place, with the host of a directory.
func (a FailedAt) Name() string {
	if a.Host == "" {
		return a.Place
	}
	return a.Host + ":" + a.Place
}

// FailedSum is the number of failed documents of one target index with one remedy. A FailedSum without an index is the sum of all others.
type FailedSum struct {
	Index  string `json:"index,omitempty"`
	Class  string `json:"class,omitempty"`
	Reason string `json:"reason,omitempty"` // of the first document
	Remedy string `json:"remedy,omitempty"`
	Count  int64  `json:"count"`
}

// Keep replaces the record of a process.
func (s Places) Keep(ctx context.Context, process string, at FailedAt) error {
	for i := range at.Sums {
		s := &at.Sums[i]
		s.Index, s.Reason, s.Remedy = cutText(s.Index, maxRefusedString), cutText(s.Reason, maxRefusedReason), cutText(s.Remedy, maxRefusedString)
	}
	body, err := json.Marshal(at)
	if err != nil {
		return fmt.Errorf("record of failed documents: %w", err)
	}
	return s.leases.Put(ctx, cms.Record{ID: kindFailedAt + ":" + cms.EventKey(process), Kind: kindFailedAt, Body: body})
}

// All returns the places of the session's failed documents, each once with the sums of its processes.
func (s Places) All(ctx context.Context) ([]FailedAt, error) {
	var all []FailedAt
	for r, err := range s.leases.List(ctx, kindFailedAt) {
		var x FailedAt
		if err == nil {
			err = r.Decode(&x)
		}
		if err != nil {
			return nil, fmt.Errorf("read where failed documents are kept: %w", err)
		}
		i := slices.IndexFunc(all, func(a FailedAt) bool { return a.Host == x.Host && a.Place == x.Place })
		if i < 0 {
			i = len(all)
			all = append(all, FailedAt{Host: x.Host, Place: x.Place})
		}
		all[i].add(x.Sums)
	}
	slices.SortFunc(all, func(a, b FailedAt) int { return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Place, b.Place)) })
	return all, nil
}

// add adds the sums of another process.
func (a *FailedAt) add(sums []FailedSum) {
	at := map[[2]string]int{}
	for i, s := range a.Sums {
		at[[2]string{s.Index, s.Class}] = i
	}
	for _, s := range sums {
		key := [2]string{s.Index, s.Class}
		i, ok := at[key]
		if !ok {
			at[key] = len(a.Sums)
			a.Sums = append(a.Sums, s)
			continue
		}
		a.Sums[i].Count += s.Count
	}
	slices.SortStableFunc(a.Sums, func(x, y FailedSum) int {
		return cmp.Or(cmp.Compare(y.Count, x.Count), cmp.Compare(x.Index, y.Index), cmp.Compare(x.Class, y.Class))
	})
}
