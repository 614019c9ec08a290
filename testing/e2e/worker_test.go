package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/oscms"
	"github.com/rfsd/rfsd/rfs/target"
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

// runWorker runs one worker process until it ends or ctx does (then it is killed), and
// gives its record; ok is false when there is none, as after a kill.
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
	c, err := cms.New(cms.Config{Store: store, InitialLease: lease, Creator: "test"})
	must(t, err)
	return c
}

func TestWorkersShareTheWorkAndSayHowTheyEnded(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo := filepath.Join(Shared(t), "7.10.2-basic")
	dir := t.TempDir()
	args := workerArgs(n.URL, repo, "share")
	var codes []int
	for range 6 {
		r, ok, code := runWorker(t.Context(), t, dir, args)
		if !ok || r.Exit != code {
			t.Errorf("exit %d, record %+v (%v)", code, r, ok)
		}
		codes = append(codes, code)
	}
	if !slices.Equal(codes, []int{0, 0, 0, 0, 0, 3}) {
		t.Errorf("exit codes %v: cluster metadata, indices and three shards should be done by a worker each, and the last find nothing left", codes)
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
	repo := filepath.Join(Shared(t), "7.10.2-codec")
	const session = "kill"
	dir := t.TempDir()
	args := workerArgs(n.URL, repo, session, "--initial-lease-duration", "20s", "--documents-per-bulk-request", "20", "--max-connections", "2")
	coord := coordinator(t, n, session, 20*time.Second)

	const wanted = 12
	var killed atomic.Int64
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(rand.Uint64(), 3))
			for ctx.Err() == nil {
				life, end := context.WithCancel(ctx)
				if killed.Load() < wanted {
					life, end = context.WithTimeout(ctx, time.Duration(50+rng.IntN(350))*time.Millisecond)
				}
				_, ok, code := runWorker(life, t, dir, args)
				timedOut := life.Err() != nil
				end()
				if timedOut && !ok && code == -1 {
					killed.Add(1)
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
		t.Fatalf("not finished in time after %d kills", killed.Load())
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
		t.Logf("%d worker processes killed; %d documents overwritten and not yet merged away", killed.Load(), stats.All.Primaries.Docs.Deleted)
	}
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
