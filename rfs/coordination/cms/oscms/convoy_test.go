package oscms_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/cmstest"
)

// conflicts counts the updates that lost a race, and those that the cluster rejected (429).
type conflicts struct {
	rest.API
	n, refused, requests atomic.Int64
}

func (c *conflicts) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	c.requests.Add(1)
	status, answer, err := c.API.Do(ctx, method, path, query, body)
	switch {
	case !strings.Contains(path, "/_update"):
	case status == http.StatusConflict:
		c.n.Add(1)
	case status == http.StatusTooManyRequests:
		c.refused.Add(1)
	}
	return status, answer, err
}

// TestFortyProcessesLeaseWithoutAConvoy: 40 processes lease 200 items. For comparison, they do so by one _update_by_query per lease, in
// index order as that call does by default.
func TestFortyProcessesLeaseWithoutAConvoy(t *testing.T) {
	url := crowdTarget(t)
	if n := crowd(t, url, leaseOrder{Each: 5, Items: 200}, 40); n > 40 {
		t.Errorf("%d conflicts", n)
	}
	crowd(t, url, leaseOrder{Each: 5, Items: 200, ByQuery: true, Limit: 15 * time.Second}, 40)
}

func crowdTarget(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	return cluster.OpenSearch(t, real).URL
}

// leaserVariable is the variable with the order for a child process of this test binary.
const leaserVariable = "RFSD_TEST_LEASER"

// leaseOrder is the order for one process.
type leaseOrder struct {
	URL, Session, Name string
	Each, Items        int
	ByQuery            bool          // by _update_by_query
	Limit              time.Duration // then it gives up; 0 = 2 min
}

// leaseResult is the result of one process.
type leaseResult struct {
	Leased                       []string
	Waits                        []time.Duration
	Conflicts, Refused, Requests int64
}

func TestMain(m *testing.M) {
	if order := os.Getenv(leaserVariable); order != "" {
		if err := leaser(order, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// leaser is the main function of a leasing process. It reports that it is ready and starts when its input ends, so that all start at the
// same time.
func leaser(arg string, in io.Reader, out io.Writer) error {
	var o leaseOrder
	if err := json.Unmarshal([]byte(arg), &o); err != nil {
		return err
	}
	if o.Limit == 0 {
		o.Limit = 2 * time.Minute
	}
	c, err := target.New(context.Background(), target.Config{URL: o.URL, MaxConnections: 1})
	if err != nil {
		return err
	}
	counted := &conflicts{API: c}
	s, err := oscms.Open(context.Background(), oscms.Config{Client: counted, Session: o.Session, Mode: oscms.Scripts})
	if err != nil {
		return err
	}
	co := cms.New(cms.Config{Store: s, Creator: o.Name})
	fmt.Fprintln(out, "ready")
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	counted.requests.Store(0)
	ctx, cancel := context.WithTimeout(context.Background(), o.Limit)
	defer cancel()
	var r leaseResult
	for len(r.Waits) < o.Each && err == nil {
		asked, id := time.Now(), ""
		if o.ByQuery {
			id, err = leaseByQuery(ctx, counted, o)
		} else {
			var l *cms.Lease
			if l, err = co.AcquireNext(ctx, o.Name, nil); err == nil {
				id = l.Item.ID
			}
		}
		if err == nil && id != "" {
			r.Leased, r.Waits = append(r.Leased, id), append(r.Waits, time.Since(asked))
		}
	}
	if err != nil && !(o.ByQuery && ctx.Err() != nil) {
		return err
	}
	r.Conflicts, r.Refused, r.Requests = counted.n.Load(), counted.refused.Load(), counted.requests.Load()
	return errors.Join(json.NewEncoder(out).Encode(r), c.Close())
}

// leaseByQuery leases by _update_by_query with max_docs=1 until it has an item.
func leaseByQuery(ctx context.Context, c rest.API, o leaseOrder) (string, error) {
	for {
		now := time.Now().Unix()
		body := fmt.Sprintf(`{"query":{"bool":{"filter":[{"range":{"expiration":{"lt":%d}}}],"must_not":[{"exists":{"field":"completedAt"}}]}},
			"script":{"lang":"painless","source":"ctx._source.expiration=params.e;ctx._source.leaseHolderId=params.h","params":{"e":%d,"h":%q}}}`, now, now+600, o.Name)
		status, answer, err := c.Do(ctx, http.MethodPost, "/"+itemsIndex(o.Session)+"/_update_by_query", url.Values{"refresh": {"true"}, "max_docs": {"1"}}, []byte(body))
		if err != nil {
			return "", err
		}
		var a struct {
			Updated int `json:"updated"`
		}
		if status != http.StatusConflict && status != http.StatusTooManyRequests { // its memory may not suffice
			if err := json.Unmarshal(answer, &a); err != nil || status >= 300 {
				return "", errors.Join(fmt.Errorf("%d %s", status, answer), err)
			}
		}
		if a.Updated == 1 {
			return "an item", nil // which one it does not say
		}
	}
}

// crowd lets processes lease items at the same time and returns the number of lost races.
func crowd(t *testing.T, url string, order leaseOrder, processes int) (lost int64) {
	t.Helper()
	c := connectURL(t, url)
	order.URL, order.Session = url, freshSession(t, c)
	cmstest.Seed(t, cmstest.Coordinator(t, openStore(t, oscms.Config{Client: c, Session: order.Session}), 10*time.Minute), "a", order.Items)
	send(t, c, http.MethodPost, "/"+itemsIndex(order.Session)+"/_refresh", "")
	leasers := make([]*leaserProcess, processes)
	for i := range leasers {
		order.Name = fmt.Sprintf("w%d", i)
		leasers[i] = startLeaser(t, order)
	}
	for _, l := range leasers {
		if line, err := l.out.ReadString('\n'); err != nil || line != "ready\n" {
			t.Fatalf("%q %v", line, err)
		}
	}
	start := time.Now()
	for _, l := range leasers {
		if err := l.in.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var waits []time.Duration
	var requests, refused int64
	by := map[string]bool{}
	for _, l := range leasers {
		var r leaseResult
		if err := json.NewDecoder(l.out).Decode(&r); err != nil {
			t.Fatal(err)
		}
		waits = append(waits, r.Waits...)
		lost, refused, requests = lost+r.Conflicts, refused+r.Refused, requests+r.Requests
		for _, id := range r.Leased {
			if by[id] && !order.ByQuery {
				t.Errorf("%s was leased twice", id)
			}
			by[id] = true
		}
		if err := l.cmd.Wait(); err != nil {
			t.Error(err)
		}
	}
	took := time.Since(start)
	if want := processes * order.Each; len(waits) != want && !order.ByQuery || len(waits) == 0 {
		t.Fatalf("%d leases, want %d", len(waits), want)
	}
	slices.Sort(waits)
	how := map[bool]string{false: "candidates and single updates", true: "_update_by_query"}[order.ByQuery]
	t.Logf("%s: %d leases by %d processes in %v, p99 %v, %d conflicts, %d refused (429), %d requests", how, len(waits), processes,
		took.Round(time.Millisecond), waits[len(waits)*99/100].Round(time.Millisecond), lost, refused, requests)
	return lost
}

type leaserProcess struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startLeaser starts this test binary as a leasing process; it does not outlive the test.
func startLeaser(t *testing.T, order leaseOrder) *leaserProcess {
	t.Helper()
	raw, err := json.Marshal(order)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), leaserVariable+"="+string(raw), "GOMAXPROCS=1")
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if cmd.ProcessState == nil { // the test failed; its context kills the process
			_ = cmd.Wait()
		}
	})
	return &leaserProcess{cmd: cmd, in: in, out: bufio.NewReader(out)}
}
