package oscms

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// writeQuery returns the query of every write of an item, and of each _bulk.
func (s *Store) writeQuery() url.Values {
	return url.Values{"require_alias": {jsonTrue}}
}

// Create adds items by one _bulk request of create actions.
func (s *Store) Create(ctx context.Context, items []cms.Item) (created int, err error) {
	if len(items) == 0 {
		return 0, nil
	}
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	for _, it := range items {
		action := map[string]any{"create": map[string]string{"_index": s.items, "_id": it.ID}}
		if err := errors.Join(enc.Encode(action), enc.Encode(it)); err != nil {
			return 0, fmt.Errorf("%s: %w", cms.ItemName(it.ID), err)
		}
	}
	errs, err := s.bulk(ctx, body.Bytes(), len(items))
	if err != nil {
		return 0, fmt.Errorf("create %d items: %w", len(items), err)
	}
	for i, err := range errs {
		switch {
		case err == nil:
			created++
		case !errors.Is(err, cms.ErrConflict): // an item that exists already is fine
			return created, fmt.Errorf("create %s: %w", cms.ItemName(items[i].ID), err)
		}
	}
	return created, nil
}

// document is the answer of _doc, and the get section of _update.
type document struct {
	Found  bool            `json:"found"`
	Seq    int64           `json:"_seq_no"`
	Term   int64           `json:"_primary_term"`
	Source json.RawMessage `json:"_source"`
}

func (s *Store) get(ctx context.Context, alias, id string) (document, error) {
	var d document
	path := "/" + alias + "/_doc/" + url.PathEscape(id)
	answer, err := s.request(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return d, err
	}
	if err := fault.Decode(http.MethodGet+" "+path, http.StatusOK, answer, &d); err != nil {
		return d, err
	}
	if !d.Found {
		return d, fmt.Errorf("document %s: %w", id, cms.ErrNotFound)
	}
	return d, nil
}

func decodeItem(id string, source []byte) (cms.Item, error) {
	var it cms.Item
	if err := json.Unmarshal(source, &it); err != nil {
		return it, fmt.Errorf("%s (item %s) in the coordination store: %w: %w", cms.ItemName(id), id, err, fault.ErrCorrupt)
	}
	it.ID = id
	return it, nil
}

// Get reads an item in real time.
func (s *Store) Get(ctx context.Context, id string) (cms.Item, error) {
	d, err := s.get(ctx, s.items, id)
	if err != nil {
		return cms.Item{}, err
	}
	return decodeItem(id, d.Source)
}

// Apply runs the transition as a script on the node of the primary shard, or in mode CAS by a conditional write.
func (s *Store) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if s.mode == CAS {
		return s.applyCAS(ctx, id, t)
	}
	return s.applyScript(ctx, id, t)
}

func (s *Store) applyScript(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	body, err := updateBody(t)
	if err != nil {
		return cms.Item{}, 0, err
	}
	answer, err := s.request(ctx, http.MethodPost, "/"+s.items+"/_update/"+url.PathEscape(id), s.writeQuery(), body)
	var a updated
	if err == nil {
		err = a.decode(id, answer)
	}
	o := s.outcome(ctx, cms.Change{ID: id, Transition: t}, a, err)
	return o.Item, o.Result, o.Err
}

// updated is the answer to an update that was not refused.
type updated struct {
	Result string   `json:"result"`
	Get    document `json:"get"`
}

func (a *updated) decode(id string, answer []byte) error {
	if err := json.Unmarshal(answer, a); err != nil {
		return fmt.Errorf("answer to the update of %s: %w: %w", cms.ItemName(id), err, fault.ErrUnavailable)
	}
	return nil
}

// outcome returns the outcome of a change, from its answer or the request's error.
func (s *Store) outcome(ctx context.Context, c cms.Change, a updated, err error) cms.Outcome {
	var no refused
	switch {
	case errors.As(err, &no) && no.result == cms.Mismatch:
		it, err := s.Get(ctx, c.ID) // the caller finishes the stored handoff
		return cms.Outcome{Item: it, Result: no.result, Err: err}
	case errors.As(err, &no):
		return cms.Outcome{Item: cms.Item{ID: c.ID}, Result: no.result}
	case err != nil:
		return cms.Outcome{Err: err}
	case len(a.Get.Source) == 0:
		return cms.Outcome{Err: fmt.Errorf("answer to the update of %s: no document in it: %w", cms.ItemName(c.ID), fault.ErrUnavailable)}
	}
	it, err := decodeItem(c.ID, a.Get.Source)
	if err != nil {
		return cms.Outcome{Item: it, Err: err}
	}
	return cms.Outcome{Item: it, Result: scriptResult(a.Result, it, c.Transition)}
}

// scriptResult returns the result of a script that did not throw.
func scriptResult(result string, it cms.Item, t cms.Transition) cms.Result {
	acq, isAcquire := t.(cms.Acquire)
	switch {
	case result == "updated":
		return cms.Applied
	case !isAcquire:
		return cms.Already
	case !it.Open():
		return cms.Done
	case it.Holder == acq.Holder:
		return cms.Already
	}
	return cms.Held
}

func updateBody(t cms.Transition) ([]byte, error) {
	text := script(t)
	if text == "" {
		return nil, fmt.Errorf("transition %s: %w", t.Name(), fault.ErrUnsupported)
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("transition %s: %w", t.Name(), err)
	}
	params := map[string]any{}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // epoch milliseconds and counts stay whole numbers
	if err := dec.Decode(&params); err != nil {
		return nil, fmt.Errorf("transition %s: %w", t.Name(), err)
	}
	params["scriptVersion"] = cms.ScriptVersion
	switch t.(type) {
	case cms.Acquire, cms.Release:
		params["maxExponent"] = timing.MaxExponent
	}
	return json.Marshal(map[string]any{
		"_source": true,
		"script":  map[string]any{"lang": "painless", "source": text, "params": params},
	})
}

func (s *Store) applyCAS(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	now, _, err := s.Now(ctx)
	if err != nil {
		return cms.Item{}, 0, err
	}
	d, err := s.get(ctx, s.items, id)
	if err != nil {
		return cms.Item{}, 0, err
	}
	old, err := decodeItem(id, d.Source)
	if err != nil {
		return old, 0, err
	}
	it, v := t.Apply(old, now.UnixMilli())
	if v != cms.Applied {
		return it, v, nil
	}
	body, err := merge(d.Source, old, it)
	if err != nil {
		return it, 0, err
	}
	q := s.writeQuery()
	q.Set("if_seq_no", strconv.FormatInt(d.Seq, 10))
	q.Set("if_primary_term", strconv.FormatInt(d.Term, 10))
	if _, err := s.request(ctx, http.MethodPut, "/"+s.items+"/_doc/"+url.PathEscape(id), q, body); err != nil {
		return it, 0, err
	}
	return it, v, nil
}

// merge returns the stored source with the changed item written over it. Unknown fields are kept.
func merge(source json.RawMessage, old, it cms.Item) ([]byte, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(source, &fields); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", cms.ItemName(it.ID), err, fault.ErrCorrupt)
	}
	before, err := fieldsOf(old)
	if err != nil {
		return nil, err
	}
	after, err := fieldsOf(it)
	if err != nil {
		return nil, err
	}
	for k := range before {
		delete(fields, k)
	}
	maps.Copy(fields, after)
	if it.Holder == "" {
		fields["leaseHolderId"] = json.RawMessage("null")
	}
	if it.Open() {
		delete(fields, "completedAt") // an explicit null means open as well
	}
	return json.Marshal(fields)
}

func fieldsOf(it cms.Item) (map[string]json.RawMessage, error) {
	b, err := json.Marshal(it)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cms.ItemName(it.ID), err)
	}
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("%s: %w", cms.ItemName(it.ID), err)
	}
	return fields, nil
}
