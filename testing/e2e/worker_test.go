package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/testing/cluster"
)

func workerArgs(url, repo, session string, more ...string) []string {
	return append([]string{"worker", "--repo-uri", repo, "--snapshot-name", "snap1", "--target-host", url, "--session-name", session, "--status-fd", "3"}, more...)
}

// workerRecord is the last word of a worker process.
type workerRecord struct {
	Exit    int    `json:"exit"`
	Outcome string `json:"outcome"`
	Item    string `json:"item"`
	Error   string `json:"error"`
}

// runWorker runs a worker process until it exits, or kills it when ctx is done. It returns the worker's record; ok is false without one,
// as after a kill.
func runWorker(ctx context.Context, t *testing.T, dir string, args []string) (r workerRecord, ok bool, code int) {
	t.Helper()
	in, out, err := os.Pipe()
	if err != nil {
		t.Error(err)
		return r, false, -1
	}
	defer in.Close()
	cmd := exec.CommandContext(ctx, Binary(t, "rfsd"), args...)
	cmd.Dir = dir
	cmd.ExtraFiles = []*os.File{out}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		out.Close()
		if ctx.Err() == nil {
			t.Error(err)
		}
		return r, false, -1
	}
	out.Close()
	derr := json.NewDecoder(in).Decode(&r)
	err = cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Error(err)
	}
	code = cmd.ProcessState.ExitCode()
	if derr == nil && code == 1 {
		t.Logf("worker: %+v\n%s", r, stderr.String())
	}
	return r, derr == nil, code
}

func coordinator(t *testing.T, n *cluster.Node, session string, lease time.Duration) *cms.Coordinator {
	t.Helper()
	client, err := target.New(t.Context(), target.Config{URL: n.URL})
	must(t, err)
	store, err := oscms.Open(t.Context(), oscms.Config{Client: client, Session: session})
	must(t, err)
	c := cms.New(cms.Config{Store: store, InitialLease: lease, Creator: "test"})
	return c
}

func TestWorkersShareTheWorkAndSayHowTheyEnded(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := demo(t)
	dir := t.TempDir()
	args := workerArgs(n.URL, repo, "share")
	var codes []int
	for range 7 {
		r, ok, code := runWorker(t.Context(), t, dir, args)
		if !ok || r.Exit != code {
			t.Errorf("exit %d, record %+v (%v)", code, r, ok)
		}
		codes = append(codes, code)
	}
	if !slices.Equal(codes, []int{0, 0, 0, 0, 0, 0, 3}) {
		t.Errorf("exit codes %v: cluster metadata, indices and four shards should be done by a worker each, and the last find nothing left", codes)
	}
	compareLanded(t, n, repo)
	if res := Run(t, "rfsd", workerArgs(n.URL, repo, "share", "--index-allowlist", "regex:x.*")...); res.Code != 1 || !strings.Contains(res.Stderr, "index-allowlist") {
		t.Errorf("another configuration in the same session: exit %d: %s", res.Code, res.Stderr)
	}
	if res := Run(t, "rfsd", workerArgs(n.URL, repo+"-none", "nothing-here")...); res.Code != 5 {
		t.Errorf("no repository: exit %d: %s", res.Code, res.Stderr)
	}
}

// TestKilledWorkersLoseNothing kills worker processes at random moments of a real
// migration with leases of 20 s. The parent that has waited for a dead child gives
// its lease back.
func TestKilledWorkersLoseNothing(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := demo(t)
	proxy := newProxy(t, n.URL, 100*time.Millisecond)
	const session = "kill"
	dir := t.TempDir()
	args := workerArgs(proxy.URL, repo, session, "--initial-lease-duration", "20s", "--documents-per-bulk-request", "1", "--disable-compression", "--max-connections", "1")
	coord := coordinator(t, n, session, 20*time.Second)

	const wanted = 12
	var mu sync.Mutex
	var killed []time.Time
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				life, end := context.WithCancel(ctx)
				mu.Lock()
				enough := len(killed) >= wanted
				mu.Unlock()
				var watch sync.WaitGroup
				var at time.Time
				if !enough {
					watch.Go(func() { at = endAfter(life, end, proxy, int64(1+rand.IntN(8))) })
				}
				_, ok, code := runWorker(life, t, dir, args)
				end()
				watch.Wait()
				if !at.IsZero() && !ok && code == -1 {
					mu.Lock()
					killed = append(killed, at)
					mu.Unlock()
					giveBack(ctx, t, coord)
				}
				if ok && code == 3 {
					return
				}
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		t.Fatalf("not finished in time after %d kills", len(killed))
	}
	first, last := proxy.acknowledged()
	inside := 0
	for _, at := range killed {
		if at.After(first) && at.Before(last) {
			inside++
		}
	}
	if inside < wanted/2 {
		t.Errorf("only %d of %d kills fell between the first and the last acknowledgement", inside, len(killed))
	}
	compareLanded(t, n, repo)
	for item, err := range coord.Items(t.Context()) {
		must(t, err)
		if item.FailedItem() {
			t.Errorf("healthy item %s is FAILED: %s", item.ID, item.Failure)
		}
	}
	var stats struct {
		All struct {
			Primaries struct{ Docs struct{ Deleted int64 } }
		} `json:"_all"`
	}
	if err := n.JSON(t.Context(), "GET", "/_stats/docs", nil, &stats); err == nil {
		t.Logf("%d worker processes killed; %d documents overwritten and not yet merged away", len(killed), stats.All.Primaries.Docs.Deleted)
	}
}

// endAfter calls end when the target has got so many more documents, and returns when; zero when ctx ends before.
func endAfter(ctx context.Context, end func(), p *proxy, more int64) time.Time {
	sent := p.documents.Load()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for p.documents.Load() < sent+more {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return time.Time{}
		}
	}
	at := time.Now()
	end()
	return at
}

// giveBack releases the leases of children of this test that are dead: with three
// workers of one machine, every holder that no live child has is one of them.
func giveBack(ctx context.Context, t *testing.T, coord *cms.Coordinator) {
	t.Helper()
	for item, err := range coord.Items(ctx) {
		if err != nil {
			return
		}
		if !item.Open() || item.Holder == "" || alive(item.Holder) {
			continue
		}
		if err := coord.ReleaseHolder(ctx, item.ID, item.Holder, cms.CauseKilled); err != nil && ctx.Err() == nil {
			t.Error(err)
		}
	}
}

// alive says whether the process that a holder names still runs.
func alive(holder string) bool {
	parts := strings.Split(holder, "_")
	for i, p := range parts {
		if pid, ok := strings.CutPrefix(p, "pid"); ok && i > 0 {
			_, err := os.Stat("/proc/" + pid)
			return err == nil
		}
	}
	return true
}
