package oscms_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/cmstest"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
)

// conflicts counts the updates that lost a race.
type conflicts struct {
	oscms.Client
	n, requests atomic.Int64
}

func (c *conflicts) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	c.requests.Add(1)
	status, answer, err := c.Client.Do(ctx, method, path, query, body)
	if status == http.StatusConflict && strings.Contains(path, "/_update/") {
		c.n.Add(1)
	}
	return status, answer, err
}

// TestFortyWorkersLeaseWithoutAConvoy: 40 workers with coordinators of their own
// lease 200 of 400 items. Beside it the same by one _update_by_query per lease,
// sorted by index order as that call does by itself, for the figures in the log.
func TestFortyWorkersLeaseWithoutAConvoy(t *testing.T) {
	c := connect(t, real)
	if n := crowd(t, c, 40, 5, 400); n >= 100 {
		t.Errorf("%d conflicts", n)
	}
	base, n := baseline(t, c, 40, 5, 400)
	t.Logf("_update_by_query: 200 leases in %v, %d conflicts", base.Round(time.Millisecond), n)
}

// TestTwoHundredWorkersLeaseAThousandItems reports what a large fleet sees at its start.
func TestTwoHundredWorkersLeaseAThousandItems(t *testing.T) {
	c := connect(t, real)
	if n := crowd(t, c, 200, 5, 1000); n >= 1000 {
		t.Errorf("%d conflicts", n)
	}
}

// crowd lets workers lease items at the same time and gives the number of lost races.
func crowd(t *testing.T, c oscms.Client, workers, each, items int) int64 {
	count := &conflicts{Client: c}
	sess := session(t, c)
	cmstest.Seed(t, cmstest.Coordinator(t, openStore(t, oscms.Config{Client: c, Session: sess}), 10*time.Minute), "a", items)
	var mu sync.Mutex
	var waits []time.Duration
	leased := map[string]bool{}
	start := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			s, err := oscms.Open(t.Context(), oscms.Config{Client: count, Session: sess, Mode: oscms.Scripts})
			if err != nil {
				t.Error(err)
				return
			}
			co := cmstest.Coordinator(t, s, 10*time.Minute)
			for range each {
				asked := time.Now()
				l, err := co.AcquireNext(t.Context(), fmt.Sprintf("w%d", w), nil)
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				waits = append(waits, time.Since(asked))
				if leased[l.Item.ID] {
					t.Errorf("%s was leased twice", l.Item.ID)
				}
				leased[l.Item.ID] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(waits) == 0 {
		t.Fatal("nobody leased anything")
	}
	slices.Sort(waits)
	t.Logf("candidates and single updates: %d leases by %d workers in %v, p99 %v, %d conflicts, %d requests", len(waits), workers,
		time.Since(start).Round(time.Millisecond), waits[len(waits)*99/100].Round(time.Millisecond), count.n.Load(), count.requests.Load())
	return count.n.Load()
}

// baseline leases by _update_by_query with max_docs=1, at most 20 s.
func baseline(t *testing.T, c oscms.Client, workers, each, items int) (time.Duration, int64) {
	sess := session(t, c)
	s := openStore(t, oscms.Config{Client: c, Session: sess})
	var all []cms.Item
	for i := range items {
		all = append(all, cms.NewItem(cmstest.ID("a", i, 0), "c", 0))
	}
	if _, err := s.Create(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	var lost atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			for got := 0; got < each; {
				now := time.Now().Unix()
				body := fmt.Sprintf(`{"query":{"bool":{"filter":[{"range":{"expiration":{"lt":%d}}}],"must_not":[{"exists":{"field":"completedAt"}}]}},
					"script":{"lang":"painless","source":"ctx._source.expiration=params.e;ctx._source.leaseHolderId=params.h","params":{"e":%d,"h":"w%d"}}}`, now, now+600, w)
				status, answer, err := c.Do(ctx, http.MethodPost, "/"+itemsIndex(sess)+"/_update_by_query", url.Values{"refresh": {"true"}, "max_docs": {"1"}}, []byte(body))
				if errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
					return
				}
				var a struct {
					Updated int `json:"updated"`
				}
				if err == nil && status == http.StatusConflict {
					lost.Add(1)
					continue
				}
				if err != nil || json.Unmarshal(answer, &a) != nil {
					t.Errorf("%d %s %v", status, answer, err)
					return
				}
				got += a.Updated
			}
		})
	}
	wg.Wait()
	return time.Since(start), lost.Load()
}
