package e2e

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestNodesConsumeATopic: a fleet of three nodes shares two partitions, so that one worker is idle. A worker is killed, a node is
// killed, and another one joins; all nodes report the same about the stream.
func TestNodesConsumeATopic(t *testing.T) {
	consumeNight(t)
	const partitions, messages = 2, 40_000
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	b := cluster.Kafka(t)
	c := newKafkaClient(t, b)
	c.createTopic("fleet", partitions)
	sent := 0
	send := func(count int) {
		var all []*kgo.Record
		for range count {
			all = append(all, record("fleet", int32(sent%partitions), fmt.Sprint("k", sent), fmt.Sprintf(`{"n":%d}`, sent)))
			sent++
		}
		c.send(all...)
	}
	dir, said := t.TempDir(), &lockedBuffer{}
	first := freeAddress(t)
	nodes := map[string]*exec.Cmd{}
	socket := func(name string) string { return filepath.Join(dir, name+".sock") }
	start := func(name, listen string) {
		args := []string{"run", "--node-name", name, "--one-machine", "--gossip-listen", listen, "--data-dir", filepath.Join(dir, name), "--socket", socket(name), "--status-socket", "off", "--failed-documents", filepath.Join(dir, name+"-failed"), "--session-name", "fleet", "--target-host", n.URL,
			"--brokers", b.Address, "--topic", "fleet", "--create-indices", "--partition-lease", "PT10S"}
		if listen != first {
			args = append(args, "--join", first)
		}
		cmd := exec.Command(Binary(t, "rfsd"), args...)
		cmd.Stdout, cmd.Stderr = said, said
		must(t, cmd.Start())
		nodes[name] = cmd
	}
	t.Cleanup(func() {
		for _, cmd := range nodes {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		if t.Failed() {
			t.Log(said.String())
		}
	})
	ask := func(name string) (r status.Report) {
		if res := Run(t, "rfsctl", "status", "--node", socket(name), "--output", "json"); res.Code == 0 {
			_ = outputtest.Decode(res.Stdout, &r)
		}
		return r
	}
	// settled reports whether all nodes say that so many workers share the stream, one of them is idle, and everything has arrived.
	settled := func(names string, workers int64) func() bool {
		return func() bool {
			for name := range strings.FieldsSeq(names) {
				m := ask(name).Migration
				if m == nil || m.Stream == nil || m.Stream.Nodes != workers || len(m.Stream.Idle) != 1 || m.Stream.Lag != 0 || m.Totals.Indexed != int64(sent) {
					return false
				}
			}
			return true
		}
	}
	send(messages)
	start("a", first)
	until(t, "the first node listens", func() bool { return exists(socket("a")) })
	start("b", freeAddress(t))
	start("c", freeAddress(t))
	until(t, "three workers share the topic", settled("a b c", 3))

	r := ask("b")
	if len(r.Workers) != 1 || r.Workers[0].Phase != "consume" || r.Workers[0].PID == 0 {
		t.Fatalf("workers of a node: %+v", r.Workers)
	}
	must(t, syscall.Kill(r.Workers[0].PID, syscall.SIGKILL))
	send(messages)
	until(t, "the worker is replaced", settled("a b c", 3))
	if x := ask("b").Workers; len(x) != 1 || x[0].Restarts == 0 {
		t.Errorf("the worker that was killed: %+v", x)
	}

	must(t, nodes["a"].Process.Kill())
	_ = nodes["a"].Wait()
	delete(nodes, "a")
	start("d", freeAddress(t))
	send(messages)
	until(t, "another node takes part", settled("b c d", 3))

	for name, cmd := range nodes {
		begin := time.Now()
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		if err := cmd.Wait(); err != nil || time.Since(begin) > 30*time.Second { // when a supervisor would kill it
			t.Errorf("node %s ends after %v: %v", name, time.Since(begin), err)
		}
		delete(nodes, name)
	}
	if got := documentsIn(t, n, "fleet"); got != int64(sent) {
		t.Errorf("%d documents are in the target, want %d", got, sent)
	}
	offsets, err := c.committed(t.Context(), "rfsd-fleet")
	must(t, err)
	if offsets[0]+offsets[1] != int64(sent) {
		t.Errorf("committed: %v, want %d in all", offsets, sent)
	}
	res := Run(t, "rfsctl", "status", "--target-host", n.URL, "--session-name", "fleet")
	if !strings.Contains(res.Stdout, "topic fleet, group rfsd-fleet: lag 0") {
		t.Errorf("%s%s", res.Stdout, res.Stderr)
	}
}
