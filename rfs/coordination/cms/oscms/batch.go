package oscms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// ApplyAll runs the transitions by one _bulk request of updates; in mode CAS, one by one.
func (s *Store) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	outcomes := make([]cms.Outcome, len(changes))
	if s.mode == CAS {
		for i, c := range changes {
			outcomes[i].Item, outcomes[i].Result, outcomes[i].Err = s.applyCAS(ctx, c.ID, c.Transition)
		}
		return outcomes, nil
	}
	var body bytes.Buffer
	for _, c := range changes {
		action, err := json.Marshal(map[string]any{"update": map[string]string{"_index": s.items, "_id": c.ID}})
		if err != nil {
			return nil, fmt.Errorf("%s: %w", cms.ItemName(c.ID), err)
		}
		update, err := updateBody(c.Transition)
		if err != nil {
			return nil, err
		}
		for _, line := range [][]byte{action, update} {
			body.Write(line)
			body.WriteByte('\n')
		}
	}
	answer, err := s.request(ctx, http.MethodPost, "/_bulk", s.writeQuery(), body.Bytes())
	if err != nil {
		return nil, err
	}
	var a struct {
		Items []struct {
			Update struct {
				updated
				Status int             `json:"status"`
				Error  json.RawMessage `json:"error"`
			} `json:"update"`
		} `json:"items"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("answer to the update of %d items: %w: %w", len(changes), err, fault.ErrUnavailable)
	}
	if len(a.Items) != len(changes) {
		return nil, fmt.Errorf("answer for %d of %d items: %w", len(a.Items), len(changes), fault.ErrUnavailable)
	}
	for i, c := range changes {
		x := a.Items[i].Update
		var failed error
		if x.Status < 200 || x.Status > 299 {
			wrapped := append(append([]byte(`{"error":`), x.Error...), '}')
			failed = fmt.Errorf("update of %s: %w", cms.ItemName(c.ID), answerError(x.Status, wrapped))
		}
		outcomes[i] = s.outcome(ctx, c, x.updated, failed)
	}
	return outcomes, nil
}

// Limits of the answer's size in bytes: each document has a status, or an error with its causes.
const (
	answerHead    = 64 << 10
	answerPerItem = 4 << 10
)

// bulk sends a _bulk request of n create or index actions. It returns the error of each action, nil for a written document.
func (s *Store) bulk(ctx context.Context, body []byte, n int) ([]error, error) {
	q := s.writeQuery()
	q.Set("filter_path", "errors,items.*.status,items.*.error")
	answer, err := s.request(ctx, http.MethodPost, "/_bulk", q, body)
	if err != nil {
		return nil, err
	}
	if most := answerHead + answerPerItem*n; len(answer) > most {
		return nil, fmt.Errorf("answer for %d documents has %d bytes, more than %d: %w", n, len(answer), most, fault.ErrUnavailable)
	}
	var a struct {
		Items []map[string]struct {
			Status int             `json:"status"`
			Error  json.RawMessage `json:"error"`
		} `json:"items"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return nil, fmt.Errorf("answer for %d documents: %w: %w", n, err, fault.ErrUnavailable)
	}
	if len(a.Items) != n {
		return nil, fmt.Errorf("answer for %d of %d documents: %w", len(a.Items), n, fault.ErrUnavailable)
	}
	errs := make([]error, n)
	for i, actions := range a.Items {
		if len(actions) != 1 {
			return nil, fmt.Errorf("answer for a document has %d actions: %w", len(actions), fault.ErrUnavailable)
		}
		for _, x := range actions {
			if x.Status != http.StatusCreated && x.Status != http.StatusOK {
				wrapped := append(append([]byte(`{"error":`), x.Error...), '}')
				errs[i] = answerError(x.Status, wrapped)
			}
		}
	}
	return errs, nil
}

// PutAll writes records by one _bulk request, each conditional on its revision.
func (s *Store) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for _, r := range records {
		action, document := "create", map[string]any{"_index": s.control, "_id": r.ID}
		if r.Revision != (cms.Revision{}) {
			action, document["if_seq_no"], document["if_primary_term"] = "index", r.Revision.Seq, r.Revision.Term
		}
		if err := errors.Join(enc.Encode(map[string]any{action: document}), enc.Encode(r)); err != nil {
			return nil, fmt.Errorf("record %s: %w", r.ID, err)
		}
	}
	errs, err := s.bulk(ctx, body.Bytes(), len(records))
	if err != nil {
		return nil, fmt.Errorf("write %d records: %w", len(records), err)
	}
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("record %s: %w", records[i].ID, err)
		}
	}
	return errs, nil
}
