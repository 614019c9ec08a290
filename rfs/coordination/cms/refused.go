package cms

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
	"unicode/utf8"
)

const (
	kindRefused = "refused"
	// Bounds of a record: documents in it, and bytes of what is kept of each.
	mostRefused      = 200
	maxRefusedString = 512
	maxRefusedReason = 256
)

// Refused is a document that did not arrive, as the control index keeps it: enough to find it at the source
// again, and no content.
type Refused struct {
	Index   string `json:"index"`
	ID      string `json:"id,omitempty"` // "" when not known
	Shard   int    `json:"shard"`
	Ordinal int64  `json:"ordinal"`
	Reason  string `json:"reason"`          // the target's error type, such as mapper_parsing_exception, or a reason of rfsd
	Class   string `json:"class,omitempty"` // what has to be repaired; "" in records of before
	Status  int    `json:"status,omitempty"`
}

type refusedBody struct {
	Documents []Refused `json:"documents"`
}

// bounded cuts what is too long.
func (r Refused) bounded() Refused {
	r.Index, r.ID = cutText(r.Index, maxRefusedString), cutText(r.ID, maxRefusedString)
	r.Reason, r.Class = cutText(r.Reason, maxRefusedReason), cutText(r.Class, maxRefusedReason)
	return r
}

// cutText returns the beginning of s: whole characters, at most n bytes.
func cutText(s string, n int) string {
	if s = strings.ToValidUTF8(s, "\uFFFD"); len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// refusedKey is what makes two entries one document. The reason may be another when it is sent again.
type refusedKey struct {
	index, id string
	shard     int
	ordinal   int64
}

func (r Refused) key() refusedKey { return refusedKey{r.Index, r.ID, r.Shard, r.Ordinal} }

func (r Refused) compare(o Refused) int {
	return cmp.Or(cmp.Compare(r.Index, o.Index), cmp.Compare(r.Shard, o.Shard), cmp.Compare(r.Ordinal, o.Ordinal), cmp.Compare(r.ID, o.ID))
}

// sortedOnce sorts documents and leaves each in once, its first entry.
func sortedOnce(docs []Refused) []Refused {
	slices.SortStableFunc(docs, Refused.compare)
	return slices.CompactFunc(docs, func(a, b Refused) bool { return a.key() == b.key() })
}

// KeepRefused stores documents that did not arrive; they are durable when it returns. It may be repeated, in whatever
// portions and by whomever: a record is named by its first document and grows until
// ForgetRefused, so that neither work done again nor a late writer loses one. Errors are those of the store.
func (c *Coordinator) KeepRefused(ctx context.Context, docs []Refused) error {
	all := make([]Refused, len(docs))
	for i, d := range docs {
		all[i] = d.bounded()
	}
	for part := range slices.Chunk(sortedOnce(all), mostRefused) {
		if err := c.keepRefused(ctx, part); err != nil {
			return fmt.Errorf("keep %d refused documents: %w", len(docs), err)
		}
	}
	return nil
}

func (c *Coordinator) keepRefused(ctx context.Context, docs []Refused) error {
	first := docs[0]
	// Ids of a store are short, names of indices need not be.
	id := fmt.Sprintf("%s:%x:%d:%d", kindRefused, sha256.Sum256([]byte(first.Index)), first.Shard, first.Ordinal)
	return c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		old, err := c.store.Record(ctx, id)
		var had []Refused
		switch {
		case errors.Is(err, ErrNotFound):
			old = Record{}
		case err == nil:
			had, err = old.refused()
		}
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		r := Record{ID: id, Kind: kindRefused, Revision: old.Revision}
		if r.Body, err = json.Marshal(refusedBody{sortedOnce(slices.Concat(docs, had))}); err != nil {
			return err
		}
		if err := c.stamp(ctx, &r); err != nil {
			return err
		}
		r.CreatedAt = cmp.Or(old.CreatedAt, r.CreatedAt)
		_, err = c.store.Put(ctx, r)
		return err
	})
}

func (r Record) refused() ([]Refused, error) {
	var body refusedBody
	if err := r.Decode(&body); err != nil {
		return nil, err
	}
	return body.Documents, nil
}

// Refused yields the documents that are stored as refused, each once. An error ends it.
func (c *Coordinator) Refused(ctx context.Context) iter.Seq2[Refused, error] {
	return func(yield func(Refused, error) bool) {
		seen := map[refusedKey]bool{}
		for r, err := range c.list(ctx, kindRefused) {
			var docs []Refused
			if err == nil {
				docs, err = r.refused()
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

// ForgetRefused removes the stored documents for which arrived returns true. It may be repeated.
func (c *Coordinator) ForgetRefused(ctx context.Context, arrived func(Refused) bool) error {
	var touched []string
	for r, err := range c.list(ctx, kindRefused) {
		var docs []Refused
		if err == nil {
			docs, err = r.refused()
		}
		if err != nil {
			return fmt.Errorf("forget refused documents: %w", err)
		}
		if slices.ContainsFunc(docs, arrived) {
			touched = append(touched, r.ID)
		}
	}
	for _, id := range touched {
		if err := c.forgetRefused(ctx, id, arrived); err != nil {
			return fmt.Errorf("forget refused documents: %w", err)
		}
	}
	return nil
}

func (c *Coordinator) forgetRefused(ctx context.Context, id string, arrived func(Refused) bool) error {
	return c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		r, err := c.store.Record(ctx, id)
		if errors.Is(err, ErrNotFound) {
			return nil
		}
		var docs []Refused
		if err == nil {
			docs, err = r.refused()
		}
		if err != nil {
			return err
		}
		if docs = slices.DeleteFunc(docs, arrived); len(docs) == 0 {
			err := c.store.Delete(ctx, r)
			if errors.Is(err, ErrNotFound) {
				return nil
			}
			return err
		}
		if r.Body, err = json.Marshal(refusedBody{docs}); err != nil {
			return err
		}
		created := r.CreatedAt
		if err := c.stamp(ctx, &r); err != nil {
			return err
		}
		r.CreatedAt = cmp.Or(created, r.CreatedAt)
		_, err = c.store.Put(ctx, r)
		return err
	})
}
