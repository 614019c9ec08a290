package oscms

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// ApplyAll runs the transitions by one _bulk request of updates; under conditions, one by one.
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
