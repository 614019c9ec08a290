package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(4 * time.Minute)
	for !holds() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("after four minutes: not yet: %s", what)
		}
	}
}

// answering is a server that answers every request with the text.
func answering(t *testing.T, text string) *httptest.Server {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, text) }))
	t.Cleanup(s.Close)
	return s
}

// sleeper is a process that stands for a server.
func sleeper(t *testing.T) *launch {
	t.Helper()
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	dir, err := workDir(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &launch{node: &Node{Dir: dir}, java: sleep, args: []string{"1000"}, dir: "/"}
}

func gone(pid int) bool { return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) }

func TestAnotherServerIsNotTakenForOurs(t *testing.T) {
	l := sleeper(t)
	p, err := start(l)
	if err != nil {
		t.Fatal(err)
	}
	defer p.kill()
	n := l.node
	n.URL, n.name, n.process = answering(t, "production").URL, "rfsd-1", p
	if err := n.wait(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "another test's server") {
		t.Errorf("error %v", err)
	}
	n.URL = answering(t, "rfsd-1").URL
	if err := n.wait(t.Context(), 1); err != nil {
		t.Errorf("our own: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := n.wait(ctx, 3); err == nil || !strings.Contains(err.Error(), "it sees only") {
		t.Errorf("one of three nodes: %v", err)
	}
}

func TestAServerThatEndsIsNotWaitedFor(t *testing.T) {
	l := sleeper(t)
	l.args = []string{"0"}
	p, err := start(l)
	if err != nil {
		t.Fatal(err)
	}
	l.node.URL, l.node.process = "http://127.0.0.1:9", p
	if err := l.node.wait(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "ended") {
		t.Errorf("error %v", err)
	}
}

func TestStopEndsTheServerAndRemovesItsFiles(t *testing.T) {
	l := sleeper(t)
	p, err := start(l)
	if err != nil {
		t.Fatal(err)
	}
	n := l.node
	n.process = p
	pid := n.PID()
	if gone(pid) {
		t.Fatal("it does not run")
	}
	if err := n.Stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(n.Dir); !gone(pid) || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("process gone: %v; files: %v", gone(pid), err)
	}
	if err := n.Stop(); err != nil {
		t.Errorf("second stop: %v", err)
	}
}

func TestAMissingProgramIsAnError(t *testing.T) {
	l := sleeper(t)
	l.java = "/nowhere/java"
	if _, err := start(l); err == nil || !strings.Contains(err.Error(), "/nowhere/java") {
		t.Errorf("error %v", err)
	}
}

// childOf makes this test binary start a sleeper and be killed.
const childOf = "RFSD_TEST_CLUSTER_CHILD"

func TestANodeDiesWithTheProcessThatStartedIt(t *testing.T) {
	if !diesWithParent {
		t.Skip("only Linux tells a process that its parent died")
	}
	if file := os.Getenv(childOf); file != "" {
		p, err := start(sleeper(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(p.cmd.Process.Pid)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		<-p.ended
		return
	}
	file := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), childOf+"="+file, "TMPDIR="+t.TempDir())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid := 0
	eventually(t, "the child starts a node", func() bool {
		b, err := os.ReadFile(file)
		if err == nil {
			pid, err = strconv.Atoi(strings.TrimSuffix(string(b), "\n"))
		}
		return err == nil && strings.HasSuffix(string(b), "\n")
	})
	if gone(pid) {
		t.Fatal("the node does not run")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	eventually(t, "the node is gone", func() bool { return gone(pid) })
}

func TestARunningNodeIsAdoptedOnlyInTheRightVersion(t *testing.T) {
	url := answering(t, "2.19.4").URL
	n, err := adopt(t.Context(), "opensearch", "2.19.4", url+"/")
	if err != nil || n.URL != url || n.PID() != 0 {
		t.Fatalf("%+v, %v", n, err)
	}
	if err := n.Stop(); err != nil {
		t.Errorf("stopping what is not ours: %v", err)
	}
	if n, err := adopt(t.Context(), "opensearch", "3.8.0", url); err == nil || !strings.Contains(err.Error(), "RFSD_TEST_OPENSEARCH_3_8_0") {
		t.Errorf("another version: %+v, %v", n, err)
	}
	if n, err := adopt(t.Context(), "opensearch", "3.8.0", answering(t, "").URL); err == nil {
		t.Errorf("no nodes at all: %+v", n)
	}
}

func TestNothingIsDownloadedByATestUnlessAllowed(t *testing.T) {
	t.Setenv("RFSD_CACHE", t.TempDir())
	t.Setenv("RFSD_E2E", "")
	if err := allowed("opensearch", "2.19.4"); !errors.Is(err, ErrMissing) {
		t.Errorf("empty cache: %v", err)
	}
	t.Setenv("RFSD_E2E", "1")
	if err := allowed("opensearch", "2.19.4"); err != nil {
		t.Errorf("allowed: %v", err)
	}
}

func TestWhatCannotBeBootedIsRefused(t *testing.T) {
	for _, c := range []struct {
		name, product, version string
		count                  int
		opts                   []Option
		says                   string
	}{
		{"unknown product", "solr", "9.0.0", 1, nil, "solr"},
		{"unknown version", "elasticsearch", "0.20.0", 1, nil, "no recipe"},
		{"cluster of Elasticsearch", "elasticsearch", "7.10.2", 3, nil, "3 nodes"},
		{"secured cluster", "opensearch", "2.19.4", 3, []Option{Secured()}, "3 nodes"},
		{"no nodes", "opensearch", "2.19.4", 0, nil, "0 nodes"},
		{"secured Elasticsearch", "elasticsearch", "7.10.2", 1, []Option{Secured()}, "only OpenSearch"},
	} {
		t.Run(c.name, func(t *testing.T) {
			nodes, err := BootNodes(t.Context(), c.product, c.version, c.count, c.opts...)
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, error %v", nodes, err)
			}
		})
	}
}
