package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// scaled is a fleet on this machine whose size a driver decides: nodes that drive, and nodes with one worker as the machines.
type scaled struct {
	t      *testing.T
	task   []string
	wanted string // file with the number that the command got last
	calls  string // all of them
	starts int
	nodes  map[string]*exec.Cmd
	said   *lockedBuffer
}

func (s *scaled) start(name string, more ...string) {
	s.t.Helper()
	dir := filepath.Join(s.t.TempDir(), name)
	if name != "b" { // which drives, too, and knows the others by the store alone
		more = append(more, "--gossip-listen", freeAddress(s.t), "--data-dir", dir)
	}
	cmd := exec.Command(Binary(s.t, "rfsd"), slices.Concat([]string{"run", "--node-name", name, "--one-machine",
		"--status-socket", "off", "--failed-documents", dir + "-failed"}, s.task, more)...)
	cmd.Stderr = s.said
	must(s.t, cmd.Start())
	s.nodes[name] = cmd
}

// machines starts and stops machines until their number is the one that the driver received. They stop like an instance that is shut down.
func (s *scaled) machines(running []string) []string {
	s.t.Helper()
	b, err := os.ReadFile(s.wanted)
	if os.IsNotExist(err) || len(b) == 0 {
		return running
	}
	must(s.t, err)
	n, err := strconv.Atoi(strings.TrimSpace(string(b)))
	must(s.t, err)
	for len(running) < n {
		name := fmt.Sprint("machine", s.starts)
		s.starts++
		s.start(name, "--workers", "1", "--socket", "off")
		running = append(running, name)
	}
	for len(running) > n {
		name := running[len(running)-1]
		must(s.t, s.nodes[name].Process.Signal(syscall.SIGTERM))
		_ = s.nodes[name].Wait()
		delete(s.nodes, name)
		running = running[:len(running)-1]
	}
	return running
}

// TestMachinesGrowAndEndWithTheWork: from 0 to 8 to 0 machines, while the node that drives is killed twice.
func TestMachinesGrowAndEndWithTheWork(t *testing.T) {
	draw.Test(t)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	p := newProxy(t, n.URL, 400*time.Millisecond)
	dir, repo := t.TempDir(), filepath.Join(Root(), "testing", "fixtures", "7.10.2-multi-index")
	s := &scaled{t: t, wanted: filepath.Join(dir, "wanted"), calls: filepath.Join(dir, "calls"), nodes: map[string]*exec.Cmd{}, said: &lockedBuffer{}}
	s.task = []string{"--target-host", p.URL, "--repo-uri", repo, "--snapshot-name", "snap1", "--session-name", "scale", "--documents-per-bulk-request", "1",
		"--max-connections", "1", "--disable-compression", "--initial-lease-duration", "20s"}
	command := filepath.Join(dir, "scale.sh")
	must(t, os.WriteFile(command, fmt.Appendf(nil, "#!/bin/sh\necho $1 >> %s\necho $1 > %s.new && mv %s.new %s\n", s.calls, s.wanted, s.wanted, s.wanted), 0o755))
	t.Cleanup(func() {
		for _, cmd := range s.nodes {
			_ = cmd.Process.Signal(syscall.SIGTERM)
		}
		for _, cmd := range s.nodes {
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Log(s.said.String())
		}
	})
	socket := func(name string) string { return filepath.Join(dir, name+".sock") }
	drive := func(name string) {
		s.start(name, "--workers", "none", "--socket", socket(name), "--scale-driver", "exec", "--scale-command", command, "--scale-max", "8",
			"--scale-worker-bytes", "16KB", "--scale-cooldown", "2s")
	}
	drive("a")
	drive("b")
	ask := func(name string) (r status.Report) {
		if res := Run(t, "rfsctl", "status", "--node", socket(name), "--output", "json"); res.Code == 0 {
			_ = outputtest.Decode(res.Stdout, &r)
		}
		return r
	}
	var running []string
	most, kills := 0, 0
	var nextKill time.Time
	deadline := time.Now().Add(4 * time.Minute)
	for {
		running = s.machines(running)
		most = max(most, len(running))
		a, b := ask("a"), ask("b")
		if done := a.Migration != nil && a.Migration.Complete && b.Migration != nil && b.Migration.Complete; done && len(running) == 0 && kills == 2 {
			break
		}
		if m := a.Machines; m != nil && most == 8 && kills < 2 && time.Now().After(nextKill) && s.nodes[m.Leader] != nil {
			must(t, s.nodes[m.Leader].Process.Kill())
			_ = s.nodes[m.Leader].Wait()
			t.Logf("killed %s, which drives %d machines", m.Leader, m.Wanted)
			drive(m.Leader)
			kills, nextKill = kills+1, time.Now().Add(6*time.Second)
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d machines run, %d at most, %d kills; %+v", len(running), most, kills, a.Machines)
		}
		<-time.After(100 * time.Millisecond)
	}
	all, err := os.ReadFile(s.calls)
	must(t, err)
	numbers := strings.Fields(string(all))
	for _, x := range numbers {
		if n, err := strconv.Atoi(x); err != nil || n > 8 {
			t.Errorf("the command got %q", x)
		}
	}
	if most != 8 || numbers[len(numbers)-1] != "0" {
		t.Errorf("%d machines at most; the command got %v", most, numbers)
	}
	compareLanded(t, n, repo)
	t.Logf("the command got %v; %d machines were started", numbers, s.starts)
}
