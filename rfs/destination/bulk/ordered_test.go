package bulk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// unsteady is a target that takes requests in any order, refuses documents for now, and loses answers.
type unsteady struct {
	mu   sync.Mutex
	rng  *rand.Rand
	docs map[string]string
}

func (u *unsteady) Send(_ context.Context, body []byte, n int) (bulk.Result, error) {
	u.mu.Lock()
	pause := time.Duration(u.rng.IntN(3000)) * time.Microsecond
	u.mu.Unlock()
	time.Sleep(pause)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.rng.IntN(20) == 0 {
		return bulk.Result{}, fmt.Errorf("busy: %w", fault.ErrUnavailable)
	}
	var res bulk.Result
	for pos := range n {
		var line, source []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		var a map[string]struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return res, err
		}
		_, deletes := a["delete"]
		if !deletes {
			source, body, _ = bytes.Cut(body, []byte("\n"))
		}
		switch {
		case u.rng.IntN(10) == 0:
			res.Refused = append(res.Refused, bulk.Refusal{Pos: pos, Status: 429, Type: "rejected_execution_exception"})
		case deletes:
			delete(u.docs, a["delete"].ID)
		case bytes.Contains(source, []byte("bad")):
			res.Refused = append(res.Refused, bulk.Refusal{Pos: pos, Status: 400, Type: "mapper_parsing_exception"})
		default:
			u.docs[a["index"].ID] = string(source)
		}
	}
	if len(body) > 0 {
		return res, fmt.Errorf("%d bytes behind the last document", len(body))
	}
	if u.rng.IntN(20) == 0 {
		return bulk.Result{}, fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	}
	return res, nil
}

// TestOrdered sends few ids again and again: whatever is sent when, the last document of an id that the target takes stays.
func TestOrdered(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { ordered(t, seed) })
		})
	}
}

func ordered(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	u := &unsteady{rng: rand.New(rand.NewPCG(seed, 2)), docs: map[string]string{}}
	failed := &failedtest.Recorder{}
	l := bulk.New(t.Context(), bulk.Options{
		Sender: u, Recorder: failed, Ordered: true, MaxDocs: 1 + rng.IntN(20), MaxInFlight: 4,
		Pause: func(context.Context, time.Duration) error { return nil },
	})
	want, bad := map[string]string{}, 0
	for i := range int64(1500) {
		d := &doc.Document{Ordinal: i, Index: []byte("i"), ID: fmt.Append(nil, rng.IntN(60)), Source: fmt.Appendf(nil, `{"n":%d}`, i)}
		switch rng.IntN(10) {
		case 0:
			d.Delete, d.Source = true, nil
			delete(want, string(d.ID))
		case 1:
			d.Source = fmt.Appendf(nil, `{"bad":%d}`, i)
			bad++
		default:
			want[string(d.ID)] = string(d.Source)
		}
		if err := l.Add(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	for id, source := range want {
		if u.docs[id] != source {
			t.Errorf("%s is %s, want %s", id, u.docs[id], source)
		}
	}
	if len(u.docs) != len(want) {
		t.Errorf("%d documents, want %d", len(u.docs), len(want))
	}
	if c := l.Counts(); c.Live != 1500 || c.Failed != int64(bad) || c.Indexed != int64(1500-bad) || len(failed.All()) != bad || l.Watermark() != 1500 {
		t.Errorf("%+v, %d are recorded of %d, watermark %d", c, len(failed.All()), bad, l.Watermark())
	}
}
