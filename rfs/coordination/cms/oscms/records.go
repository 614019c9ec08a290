package oscms

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

func decodeRecord(id string, seq, term int64, source []byte) (cms.Record, error) {
	var r cms.Record
	if err := json.Unmarshal(source, &r); err != nil {
		return r, fmt.Errorf("record %s in the coordination store: %w: %w", id, err, fault.ErrCorrupt)
	}
	r.ID, r.Revision = id, cms.Revision{Seq: seq, Term: term}
	return r, nil
}

// Record reads a record in real time.
func (s *Store) Record(ctx context.Context, id string) (cms.Record, error) {
	d, err := s.get(ctx, s.control, id)
	if err != nil {
		return cms.Record{}, err
	}
	return decodeRecord(id, d.Seq, d.Term, d.Source)
}

// Put writes a record if its revision is still the stored one.
func (s *Store) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	body, err := json.Marshal(r)
	if err != nil {
		return cms.Revision{}, fmt.Errorf("record %s: %w", r.ID, err)
	}
	path, q := "/"+s.control+"/_doc/", condition(r)
	if r.Revision == (cms.Revision{}) {
		path = "/" + s.control + "/_create/"
	}
	q.Set("require_alias", jsonTrue)
	answer, err := s.request(ctx, http.MethodPut, path+url.PathEscape(r.ID), q, body)
	if err != nil {
		return cms.Revision{}, err
	}
	var a struct {
		Seq  int64 `json:"_seq_no"`
		Term int64 `json:"_primary_term"`
	}
	if err := json.Unmarshal(answer, &a); err != nil || a.Term == 0 {
		return cms.Revision{}, fmt.Errorf("answer to record %s: %w", r.ID, fault.ErrUnavailable)
	}
	return cms.Revision{Seq: a.Seq, Term: a.Term}, nil
}

func condition(r cms.Record) url.Values {
	q := url.Values{}
	if r.Revision != (cms.Revision{}) {
		q.Set("if_seq_no", strconv.FormatInt(r.Revision.Seq, 10))
		q.Set("if_primary_term", strconv.FormatInt(r.Revision.Term, 10))
	}
	return q
}

// Delete removes a record if its revision is still the stored one.
func (s *Store) Delete(ctx context.Context, r cms.Record) error {
	_, err := s.request(ctx, http.MethodDelete, "/"+s.control+"/_doc/"+url.PathEscape(r.ID), condition(r), nil)
	return err
}

// List refreshes the index and reads the records of a kind in order of ids.
func (s *Store) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return func(yield func(cms.Record, error) bool) {
		var all []cms.Record
		for h, err := range s.scroll(ctx, s.control, object{"term": object{"kind": kind}}) {
			if err != nil {
				yield(cms.Record{}, err)
				return
			}
			for _, x := range h.Hits.Hits {
				r, err := decodeRecord(x.ID, x.Seq, x.Term, x.Source)
				if err != nil {
					yield(cms.Record{}, err)
					return
				}
				all = append(all, r)
			}
		}
		slices.SortFunc(all, func(a, b cms.Record) int { return strings.Compare(a.ID, b.ID) })
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}
