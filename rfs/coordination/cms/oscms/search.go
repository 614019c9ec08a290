package oscms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/overtime"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	pageSize   = 1000
	scrollTime = "2m"
	// scrollEnd limits the wait for opening or closing a scroll after its reader was stopped.
	scrollEnd = 3 * time.Second
)

type hits struct {
	ScrollID string `json:"_scroll_id"`
	TimedOut bool   `json:"timed_out"`
	Hits     struct {
		Total struct {
			Value    int64  `json:"value"`
			Relation string `json:"relation"`
		} `json:"total"`
		Hits []struct {
			ID     string          `json:"_id"`
			Seq    int64           `json:"_seq_no"`
			Term   int64           `json:"_primary_term"`
			Source json.RawMessage `json:"_source"`
		} `json:"hits"`
	} `json:"hits"`
}

type object = map[string]any

// openItems returns the query for open items of the kind. Other documents have no expiration.
func (s *Store) openItems(filters ...object) object {
	if s.kind != "" {
		filters = append(filters, s.allItems())
	}
	return object{"bool": object{
		"filter": append([]object{{"exists": object{"field": "expiration"}}}, filters...),
		"must_not": []object{
			{"exists": object{"field": "completedAt"}},
			{"ids": object{"values": []string{cms.SetupOf(s.kind)}}},
		},
	}}
}

func (s *Store) search(ctx context.Context, path string, query url.Values, body object) (hits, error) {
	var h hits
	raw, err := json.Marshal(body)
	if err != nil {
		return h, fmt.Errorf("search: %w", err)
	}
	answer, err := s.request(ctx, http.MethodPost, path, query, raw)
	if err != nil {
		return h, err
	}
	if err := json.Unmarshal(answer, &h); err != nil {
		return h, fmt.Errorf("answer to a search: %w: %w", err, fault.ErrUnavailable)
	}
	if h.TimedOut {
		return h, fmt.Errorf("a search timed out: %w", fault.ErrUnavailable)
	}
	return h, nil
}

// whole makes the cluster return an error instead of partial results.
func whole() url.Values { return url.Values{"allow_partial_search_results": {jsonFalse}} }

func (s *Store) refresh(ctx context.Context, alias string) error {
	_, err := s.request(ctx, http.MethodPost, "/"+alias+"/_refresh", nil, nil)
	return err
}

// Candidates searches free items in random order.
func (s *Store) Candidates(ctx context.Context, grace time.Duration, n int) ([]cms.Item, error) {
	now, _, err := s.Now(ctx)
	if err != nil {
		return nil, err
	}
	free := object{"range": object{"expiration": object{"lt": (now.Add(-grace).UnixMilli() + 999) / 1000}}}
	h, err := s.search(ctx, "/"+s.items+"/_search", whole(), object{
		"size": n, "track_total_hits": false,
		"query": object{"function_score": object{
			"query": s.openItems(free), "random_score": object{}, "boost_mode": "replace"}},
		"sort": []string{"_score"},
	})
	if err != nil {
		return nil, err
	}
	items := make([]cms.Item, 0, len(h.Hits.Hits))
	for _, x := range h.Hits.Hits {
		it, err := decodeItem(x.ID, x.Source)
		if err != nil {
			it = cms.Item{ID: x.ID} // foreign; the coordinator reports it
		}
		items = append(items, it)
	}
	return items, nil
}

// Open refreshes the index and counts the open items.
func (s *Store) Open(ctx context.Context) (cms.Open, error) {
	if err := s.refresh(ctx, s.items); err != nil {
		return cms.Open{}, err
	}
	h, err := s.search(ctx, "/"+s.items+"/_search", whole(), object{
		"size": 1, "track_total_hits": true, "query": s.openItems(),
		"sort": []object{{"expiration": object{"order": "asc", "unmapped_type": "long"}}},
	})
	if err != nil {
		return cms.Open{}, err
	}
	if h.Hits.Total.Relation != "eq" {
		return cms.Open{}, fmt.Errorf("count of open items is a bound (%s): %w", h.Hits.Total.Relation, fault.ErrUnavailable)
	}
	o := cms.Open{Items: h.Hits.Total.Value}
	if len(h.Hits.Hits) > 0 {
		it, err := decodeItem(h.Hits.Hits[0].ID, h.Hits.Hits[0].Source)
		if err != nil {
			return o, err
		}
		o.NextExpiry, o.Holder = it.Expiration, it.Holder
	}
	return o, nil
}

// allItems returns the query for the items of the kind.
func (s *Store) allItems() object {
	if s.kind == "" {
		return object{"match_all": object{}}
	}
	return object{"term": object{"kind": s.kind}}
}

// Scan refreshes the index and yields all items through a scroll.
func (s *Store) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return func(yield func(cms.Item, error) bool) {
		for h, err := range s.scroll(ctx, s.items, s.allItems()) {
			if err != nil {
				yield(cms.Item{}, err)
				return
			}
			for _, x := range h.Hits.Hits {
				it, err := decodeItem(x.ID, x.Source)
				if err != nil {
					it = cms.Item{ID: x.ID}
				}
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// scroll yields the pages of a search over a refreshed index. A result of a single page needs no scroll: nodes keep few of them open. A
// search whose last result was longer starts with the scroll, so that its first page is not read twice.
func (s *Store) scroll(ctx context.Context, alias string, query object) iter.Seq2[hits, error] {
	return func(yield func(hits, error) bool) {
		err := s.refresh(ctx, alias)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(hits{}, err)
			return
		}
		body := object{"size": pageSize, "sort": []string{"_doc"}, "query": query, "seq_no_primary_term": true}
		key := alias + fmt.Sprint(query)
		if _, long := s.long.Load(key); !long {
			h, err := s.search(ctx, "/"+alias+"/_search", whole(), body)
			if err != nil || len(h.Hits.Hits) < pageSize {
				if err != nil || len(h.Hits.Hits) > 0 {
					yield(h, err)
				}
				return
			}
			s.long.Store(key, nil)
		}
		longer, done := overtime.Context(ctx, scrollEnd)
		defer done()
		q := whole()
		q.Set("scroll", scrollTime)
		h, err := s.search(longer, "/"+alias+"/_search", q, body)
		if err == nil && len(h.Hits.Hits) < pageSize {
			s.long.Delete(key)
		}
		last := h.ScrollID
		for err == nil && len(h.Hits.Hits) > 0 {
			if err = ctx.Err(); err != nil {
				break
			}
			if !yield(h, nil) {
				break
			}
			if len(h.Hits.Hits) < pageSize {
				break
			}
			h, err = s.search(ctx, "/_search/scroll", nil, object{"scroll": scrollTime, "scroll_id": last})
			if h.ScrollID != "" {
				last = h.ScrollID
			}
		}
		if last != "" {
			if cerr := s.clearScroll(longer, last); err == nil {
				err = cerr
			}
		}
		if err != nil {
			yield(hits{}, err)
		}
	}
}

func (s *Store) clearScroll(ctx context.Context, id string) error {
	body, err := json.Marshal(object{"scroll_id": id})
	if err != nil {
		return fmt.Errorf("end of a scroll: %w", err)
	}
	_, err = s.request(ctx, http.MethodDelete, "/_search/scroll", nil, body)
	if errors.Is(err, cms.ErrNotFound) || errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil {
		return nil // the scroll expires by itself
	}
	return err
}
