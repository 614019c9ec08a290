package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/truth"
)

const (
	killLease = 20 * time.Second
	// costOfAKill is what one may cost: a lease, its grace, the start of a process.
	costOfAKill = 30 * time.Second
	// killPause is the least time between two kills; up to killSpread is added at random.
	killPause  = 10 * time.Second
	killSpread = 5 * time.Second
	// killDelay is how long the target takes for a bulk request of 100 documents: a run of 200,000 takes some minutes.
	killDelay = time.Second
)

// kill is one SIGKILL.
type kill struct {
	at     time.Time
	daemon bool
	name   string // of the node
	pid    int
}

// killPlay is three daemons with certificates on loopback, before a real target behind a counting proxy, on a machine
// whose cores a busy loop wants, too. A process that dies is started again.
type killPlay struct {
	*machines
	mu     sync.Mutex
	over   bool
	tended sync.WaitGroup
	kills  []kill
}

// TestRandomKillsLoseNothing kills RFSD_KILLS workers and daemons at random times during migrations of 200,000 documents, in as many
// runs as needed. RFSD_KILLS_DELAY replaces the target's time for a bulk request.
func TestRandomKillsLoseNothing(t *testing.T) {
	wanted, err := strconv.Atoi(os.Getenv("RFSD_KILLS"))
	if err != nil || wanted < 1 {
		t.Skip("RFSD_KILLS=200 kills 200 processes, for about two hours")
	}
	delay := killDelay
	if s := os.Getenv("RFSD_KILLS_DELAY"); s != "" {
		delay, err = time.ParseDuration(s)
		must(t, err)
	}
	repo, want := manySource(t)
	n := cluster.OpenSearch(t, targets[0])
	busy(t)
	base := playKills(t, n, repo, want, "calm", delay, 0)
	t.Logf("without kills: %v", base.took.Round(time.Second))
	proven := [2]int{} // of workers, of daemons
	for run := 0; proven[0]+proven[1] < wanted && !t.Failed(); run++ {
		left := wanted - proven[0] - proven[1]
		p := playKills(t, n, repo, want, fmt.Sprint("run-", run), delay, left)
		if p.inside[0]+p.inside[1] == 0 {
			t.Fatal("no kill fell between the first and the last acknowledgement")
		}
		most := base.took + time.Duration(p.inside[0]+p.inside[1]+p.outside)*costOfAKill
		t.Logf("run %d: %d workers and %d daemons killed between first and last acknowledgement, %d kills outside; %v, at most %v",
			run, p.inside[0], p.inside[1], p.outside, p.took.Round(time.Second), most.Round(time.Second))
		if p.took > most {
			t.Errorf("run %d took %v, more than %v", run, p.took, most)
		}
		proven[0] += p.inside[0]
		proven[1] += p.inside[1]
	}
	t.Logf("%d workers and %d daemons killed", proven[0], proven[1])
}

// busy keeps a core busy until the test ends.
func busy(t *testing.T) {
	t.Helper()
	loop := exec.Command("sh", "-c", "while :; do :; done")
	loop.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(t, loop.Start())
	t.Cleanup(func() {
		_ = loop.Process.Kill()
		_ = loop.Wait()
	})
}

// played is what became of one run.
type played struct {
	took    time.Duration
	inside  [2]int // kills of workers and of daemons between the first and the last acknowledgement
	outside int
}

// playKills migrates once with at most so many kills and checks everything that has to hold.
func playKills(t *testing.T, n *cluster.Node, repo string, want truth.Docs, name string, delay time.Duration, kills int) (r played) {
	t.Run(name, func(t *testing.T) {
		p := &killPlay{machines: layMachines(t, delay)}
		p.repo = repo
		p.task = []string{"--repo-uri", repo, "--snapshot-name", "snap1", "--documents-per-bulk-request", "100", "--max-connections", "1",
			"--initial-lease-duration", killLease.String()}
		begin := time.Now()
		for _, x := range p.all {
			p.tend(x)
		}
		t.Cleanup(func() { // before the cleanup of layMachines
			p.end()
			p.keepLogs(name)
		})
		p.run(kills)
		r.took = time.Since(begin)
		p.end()
		first, last := p.proxy.acknowledged()
		for _, k := range p.kills {
			switch {
			case !k.at.After(first) || !k.at.Before(last):
				r.outside++
			case k.daemon:
				r.inside[1]++
			default:
				r.inside[0]++
			}
		}
		if f := truth.Compare(want, landed(t, n)).Exact(); f != "" {
			t.Error(f)
		}
		for item, err := range coordinator(t, n, "fleet", killLease).Items(t.Context()) {
			must(t, err)
			if item.FailedItem() || item.Open() {
				t.Errorf("item %s is %s after %d attempts: %s", item.ID, item.Status, item.Attempts, item.Failure)
			}
		}
		p.lostWithoutCause()
	})
	return r
}

// tend starts a node and starts it again whenever it dies, until the play ends.
func (p *killPlay) tend(x *machine) {
	p.start(x)
	p.tended.Go(func() {
		for {
			p.mu.Lock()
			cmd := x.cmd
			p.mu.Unlock()
			_ = cmd.Wait() // killed, or told to end
			p.mu.Lock()
			over := p.over
			if !over {
				p.start(x)
			}
			p.mu.Unlock()
			if over {
				return
			}
		}
	})
}

// end tells the nodes to end and waits for them.
func (p *killPlay) end() {
	p.mu.Lock()
	p.over = true
	for _, x := range p.all {
		if x.cmd != nil {
			_ = x.cmd.Process.Signal(syscall.SIGTERM)
		}
	}
	p.mu.Unlock()
	p.tended.Wait()
	for _, x := range p.all {
		x.cmd = nil
	}
}

// keepLogs keeps what the nodes said when the test has failed.
func (p *killPlay) keepLogs(name string) {
	if !p.t.Failed() {
		return
	}
	for _, x := range p.all {
		file := filepath.Join(os.TempDir(), "rfsd-kills-"+name+"-"+x.name+".log")
		if err := os.WriteFile(file, []byte(x.said.String()), 0o600); err != nil {
			p.t.Error(err)
		}
		p.t.Logf("what %s said is in %s", x.name, file)
	}
}

// run kills until so many kills are done or the migration is complete, and waits for its end.
func (p *killPlay) run(kills int) {
	p.t.Helper()
	t := p.t
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(90 * time.Minute)
	next, asked := time.Time{}, time.Now()
	for {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("not complete after 90 minutes")
		}
		if first, _ := p.proxy.acknowledged(); len(p.kills) < kills && !first.IsZero() && !time.Now().Before(next) {
			if p.killOne() {
				next = time.Now().Add(killPause + rand.N(killSpread))
			}
		}
		if time.Since(asked) < 2*time.Second {
			continue
		}
		asked = time.Now()
		if p.completeNow() {
			return
		}
	}
}

// completeNow reports whether any node sees the end of the migration.
func (p *killPlay) completeNow() bool {
	for _, x := range p.all {
		if r, ok := p.ask(x); ok {
			return r.Migration.Complete
		}
	}
	return false
}

// killOne kills a random worker of a random node, or in one of three cases the node.
func (p *killPlay) killOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.all[rand.IntN(len(p.all))]
	k := kill{name: x.name, pid: x.cmd.Process.Pid, daemon: rand.IntN(3) == 0}
	if !k.daemon {
		workers := childrenOf(k.pid)
		if len(workers) == 0 {
			return false
		}
		k.pid = workers[rand.IntN(len(workers))]
	}
	k.at = time.Now()
	if syscall.Kill(k.pid, syscall.SIGKILL) != nil {
		return false
	}
	p.kills = append(p.kills, k)
	return true
}

// childrenOf lists the processes whose parent a process is.
func childrenOf(parent int) (pids []int) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; the name may hold blanks and brackets.
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(name)))
		if err == nil && len(f) > 1 && f[1] == strconv.Itoa(parent) && f[0] != "Z" {
			pids = append(pids, pid)
		}
	}
	slices.Sort(pids)
	return pids
}

// lostWithoutCause fails the test for each lease that a running worker lost: only killed processes may lose leases, and these log
// nothing.
func (p *killPlay) lostWithoutCause() {
	for _, x := range p.all {
		for line := range strings.Lines(x.said.String()) {
			var said struct {
				Msg     string `json:"msg"`
				Outcome string `json:"outcome"`
				Error   string `json:"error"`
			}
			if json.Unmarshal([]byte(line), &said) == nil && (said.Outcome == "lost" || strings.Contains(strings.ToLower(said.Msg), "lost")) && said.Error == "" ||
				strings.Contains(line, "lost: context deadline exceeded") || strings.Contains(line, `"outcome":"lost"`) {
				p.t.Errorf("%s lost a lease: %s", x.name, line)
			}
		}
	}
	if p.t.Failed() {
		for _, k := range p.kills {
			p.t.Logf("%s killed %s of %s (pid %d)", k.at.Format(time.RFC3339Nano), map[bool]string{true: "daemon", false: "worker"}[k.daemon], k.name, k.pid)
		}
	}
}
