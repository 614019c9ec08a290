package session

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindRefused = "refused"
	// Limits of a record: documents, and bytes of their texts.
	mostRefused      = 200
	maxRefusedString = 512
	maxRefusedReason = 256
)

// Refused is the record of a document that did not arrive: enough to find it at the source again, and no content.
type Refused struct {
	Index   string `json:"index"`
	ID      string `json:"id,omitempty"` // "" if unknown
	Shard   int    `json:"shard"`
	Ordinal int64  `json:"ordinal"`
	Reason  string `json:"reason"`          // the target's error type, such as mapper_parsing_exception, or a reason of rfsd
	Class   string `json:"class,omitempty"` // kind of repair; "" in older records
	Status  int    `json:"status,omitempty"`
}

type refusedBody struct {
	Documents []Refused `json:"documents"`
}

// bounded returns r with texts cut to their limits.
func (r Refused) bounded() Refused {
	r.Index, r.ID = cutText(r.Index, maxRefusedString), cutText(r.ID, maxRefusedString)
	r.Reason, r.Class = cutText(r.Reason, maxRefusedReason), cutText(r.Class, maxRefusedReason)
	return r
}

// cutText returns a prefix of s of at most n bytes, in whole characters.
func cutText(s string, n int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// refusedKey identifies a document. The reason may differ when it is sent again.
type refusedKey struct {
	index, id string
	shard     int
	ordinal   int64
}

func (r Refused) key() refusedKey { return refusedKey{r.Index, r.ID, r.Shard, r.Ordinal} }

func (r Refused) compare(o Refused) int {
	return cmp.Or(cmp.Compare(r.Index, o.Index), cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Ordinal, o.Ordinal), cmp.Compare(r.ID, o.ID))
}

// sortedOnce sorts documents and keeps the first entry of each.
func sortedOnce(docs []Refused) []Refused {
	slices.SortStableFunc(docs, Refused.compare)
	return slices.CompactFunc(docs, func(a, b Refused) bool { return a.key() == b.key() })
}

// Keep stores documents that did not arrive; they are durable when it returns. It may be repeated by any process, in any portions: a record
// is named by its first document and grows until Forget, so that neither repeated work nor a late writer loses one. Errors are those that
// the store returns.
func (s Refusals) Keep(ctx context.Context, docs []Refused) error {
	all := make([]Refused, len(docs))
	for i, d := range docs {
		all[i] = d.bounded()
	}
	for part := range slices.Chunk(sortedOnce(all), mostRefused) {
		if err := s.keep(ctx, part); err != nil {
			return fmt.Errorf("keep %d refused documents: %w", len(docs), err)
		}
	}
	return nil
}

func (s Refusals) keep(ctx context.Context, docs []Refused) error {
	first := docs[0]
	// Ids in a store are short, names of indices need not be.
	id := fmt.Sprintf("%s:%x:%d:%d", kindRefused, sha256.Sum256([]byte(first.Index)), first.Shard, first.Ordinal)
	var failed error
	_, err := s.leases.Update(ctx, id, kindRefused, func(r cms.Record, _ time.Time) (cms.Record, cms.Result) {
		var had []Refused
		if len(r.Body) > 0 {
			if had, failed = refusedOf(r); failed != nil {
				return r, cms.Lost
			}
		}
		if r.Body, failed = json.Marshal(refusedBody{sortedOnce(slices.Concat(docs, had))}); failed != nil {
			return r, cms.Lost
		}
		return r, cms.Applied
	})
	return errors.Join(err, failed)
}

func refusedOf(r cms.Record) ([]Refused, error) {
	var body refusedBody
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	return body.Documents, nil
}

// All yields the refused documents, each once, until the first error.
func (s Refusals) All(ctx context.Context) iter.Seq2[Refused, error] {
	return func(yield func(Refused, error) bool) {
		seen := map[refusedKey]bool{}
		for r, err := range s.leases.List(ctx, kindRefused) {
			var docs []Refused
			if err == nil {
				docs, err = refusedOf(r)
			}
			if err != nil {
				yield(Refused{}, err)
				return
			}
			for _, d := range docs {
				if seen[d.key()] {
					continue
				}
				seen[d.key()] = true
				if !yield(d, nil) {
					return
				}
			}
		}
	}
}

// Forget removes the stored documents for which arrived returns true. It may be repeated.
func (s Refusals) Forget(ctx context.Context, arrived func(Refused) bool) error {
	var touched []string
	for r, err := range s.leases.List(ctx, kindRefused) {
		var docs []Refused
		if err == nil {
			docs, err = refusedOf(r)
		}
		if err != nil {
			return fmt.Errorf("forget refused documents: %w", err)
		}
		if slices.ContainsFunc(docs, arrived) {
			touched = append(touched, r.ID)
		}
	}
	for _, id := range touched {
		if err := s.forget(ctx, id, arrived); err != nil {
			return fmt.Errorf("forget refused documents: %w", err)
		}
	}
	return nil
}

func (s Refusals) forget(ctx context.Context, id string, arrived func(Refused) bool) error {
	return s.leases.Retry(ctx, func(ctx context.Context) error {
		r, err := s.items.Store().Record(ctx, id)
		if errors.Is(err, cms.ErrNotFound) {
			return nil
		}
		var docs []Refused
		if err == nil {
			docs, err = refusedOf(r)
		}
		if err != nil {
			return err
		}
		if docs = slices.DeleteFunc(docs, arrived); len(docs) == 0 {
			err := s.items.Store().Delete(ctx, r)
			if errors.Is(err, cms.ErrNotFound) {
				return nil
			}
			return err
		}
		if r.Body, err = json.Marshal(refusedBody{docs}); err != nil {
			return err
		}
		now, _, err := s.leases.Now(ctx)
		if err != nil {
			return err
		}
		r.UpdatedAt = now.UnixMilli()
		_, err = s.items.Store().Put(ctx, r)
		return err
	})
}
