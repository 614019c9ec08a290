package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/testing/cluster"
)

// TestFollow_DaemonsInEachEnvironment: three nodes follow a source in each environment in which a fleet migrates. The target equals the source
// after each round, and after the cut-over.
func TestFollow_DaemonsInEachEnvironment(t *testing.T) {
	if !long() {
		t.Skip("not run: RFSD_DAEMON_LONG=1 follows a source in five environments, for two minutes each")
	}
	for _, c := range []struct {
		name string
		run  func(t *testing.T, e *environment)
	}{
		{"gossip", withGossip},
		{"bucket", withABucket},
		{"silent target", silentTarget},
		{"kills", killedCutovers},
		{"scaler", withAScaler},
	} {
		t.Run(c.name, func(t *testing.T) {
			source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
			wipe(t, n)
			p := newProxy(t, n.URL, 0)
			index := "follow-" + strings.ReplaceAll(c.name, " ", "-")
			_, _ = source.Send(t.Context(), http.MethodDelete, "/"+index, "", nil) // of a former test
			call(t, source, "PUT", "/"+index, map[string]any{"settings": map[string]any{"number_of_shards": 3, "number_of_replicas": 0}})
			e := &environment{following: followingFleet(t, index, source, n, p.URL), proxy: p, index: index, store: []string{"--target-host", n.URL, "--session-name", index}}
			t.Cleanup(func() {
				if t.Failed() || os.Getenv("RFSD_SHOW") != "" {
					t.Log(e.log())
				}
			})
			e.put(index, 0, 600, 0)
			c.run(t, e)
		})
	}
}

// environment is a fleet that follows an index of a source through a proxy.
type environment struct {
	*following
	proxy *proxy
	index string
	store []string // the options of rfsctl for the state of the work
	value int      // of the documents that were changed last
}

// within blocks until documents of a round with changes are sent, slowly, and calls do then.
func (e *environment) within(do func()) {
	e.t.Helper()
	e.value++
	e.put(e.index, 300*e.value, 300*e.value+600, e.value)
	e.proxy.delay.Store(int64(100 * time.Millisecond))
	before := e.proxy.bulks.Load()
	until(e.t, "documents of a round are sent", func() bool { return e.proxy.bulks.Load() > before+2 })
	do()
	e.proxy.delay.Store(0)
}

// equal blocks until the round in progress and one after it have arrived, and compares the target with the source.
func (e *environment) equal(by string) {
	e.t.Helper()
	e.arrived(by)
	e.arrived(by)
	same(e.t, e.source, e.target, e.index)
}

// cutover orders a cut-over.
func (e *environment) cutover(more ...string) Result {
	return RunIn(e.t, e.dir, nil, "rfsctl", slices.Concat([]string{"cutover", "--block-source-writes"}, e.store, more)...)
}

// cutoverState returns the state of the cut-over in the store.
func (e *environment) cutoverState() (state string) {
	e.t.Helper()
	var of struct {
		Data struct {
			Migration struct{ Cutover struct{ State string } }
		}
	}
	if r := RunIn(e.t, e.dir, nil, "rfsctl", slices.Concat([]string{"status", "--output", "json"}, e.store)...); r.Code == 0 {
		must(e.t, json.Unmarshal([]byte(r.Stdout), &of))
	}
	return of.Data.Migration.Cutover.State
}

// cutsOver cuts over while a client writes.
func (e *environment) cutsOver() {
	e.t.Helper()
	w := write(e.t, e.source, e.index)
	time.Sleep(2 * time.Second)
	r := e.cutover()
	w.end()
	if r.Code != 0 || !blockedWrites(e.t, e.source, e.index) {
		e.t.Fatalf("cut-over: exit %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	same(e.t, e.source, e.target, e.index)
}

// withGossip: a node, and the leader of gossip and Raft, are killed within rounds.
func withGossip(t *testing.T, e *environment) {
	certs := filepath.Join(e.dir, "certs")
	cert := func(name string) string { return filepath.Join(certs, name) }
	rfsctl := func(args ...string) {
		if r := Run(t, "rfsctl", args...); r.Code != 0 {
			t.Fatalf("rfsctl %v: %s", args, r.Stderr)
		}
	}
	names := []string{"n1", "n2", "n3"}
	start := func(name string) {
		e.start(name, "--gossip-listen", freeAddress(t), "--gossip-keys", cert("gossip"), "--data-dir", filepath.Join(e.dir, name, "data"), "--listen", freeAddress(t),
			"--tls-cert", cert(name+".crt"), "--tls-key", cert(name+".key"), "--tls-ca", cert("ca.crt"), "--fleet", "blue")
	}
	for _, name := range names {
		rfsctl("cert", "create", "--dir", certs, "--fleet", "blue", name)
	}
	rfsctl("cert", "gossip-key", cert("gossip"))
	for _, name := range names {
		start(name)
	}
	knows := func() {
		t.Helper()
		for _, name := range names {
			until(t, name+" knows the others", func() bool { return len(e.status(name).Nodes) == len(names) })
		}
	}
	knows()
	e.arrived("n1")
	leader := ""
	until(t, "a node leads", func() bool {
		for _, name := range names {
			if strings.Contains(e.said[name].String(), `"leadership acquired"`) {
				leader = name
			}
		}
		return leader != ""
	})
	drives := e.driver()
	for _, killed := range []string{names[(slices.Index(names, leader)+1)%len(names)], leader} {
		other := names[(slices.Index(names, killed)+1)%len(names)]
		e.within(func() { e.kill(killed) })
		e.equal(other)
		start(killed)
		knows()
		t.Logf("%s was killed; %s led and %s drove the rounds", killed, leader, drives)
	}
	newest := newestRound(e.status(names[(slices.Index(names, leader)+1)%len(names)]).Migration)
	for _, name := range names { // the leader has just started
		until(t, name+" shows the rounds", func() bool {
			is := e.status(name).Migration
			return is != nil && is.Rounds != nil && newestRound(is) >= newest
		})
	}
	e.order("n1", "pause")
	until(t, "each node names all as paused", func() bool {
		for _, name := range names {
			if is := e.status(name).Nodes; len(is) != len(names) || slices.ContainsFunc(is, func(n status.Node) bool { return n.State != "paused" || n.Running > 0 }) {
				return false
			}
		}
		return true
	})
	e.order("n3", "resume")
	e.cutsOver()
}

// withABucket: the state of the work is in a bucket. The driver is killed within a round, and a cut-over returns when the operator pauses it.
func withABucket(t *testing.T, e *environment) {
	bucket := stateBucket(t, 0)
	bucket[len(bucket)-1] = e.index // the name of the session
	e.store = bucket
	e.args = append(e.args, bucket[:len(bucket)-2]...)
	for _, name := range []string{"n1", "n2", "n3"} {
		e.start(name)
	}
	e.arrived("n1")
	killed := e.driver()
	left := map[string]string{"n1": "n2", "n2": "n3", "n3": "n1"}[killed]
	e.within(func() { e.kill(killed) })
	e.equal(left)
	e.start(killed)

	if r := e.cutover("--no-wait"); r.Code != 4 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	until(t, "writes are blocked", func() bool { return blockedWrites(t, e.source, e.index) })
	e.order(left, "pause")
	until(t, "the cut-over has returned", func() bool { return e.cutoverState() == "RETURNED" })
	if blockedWrites(t, e.source, e.index) {
		t.Error("writes are blocked after the return")
	}
	e.order(left, "resume")
	e.equal(left)
	e.cutsOver()
}

// silentTarget: the target, which keeps the state of the work, does not answer for 30 s within a round, and for as long within a cut-over.
func silentTarget(t *testing.T, e *environment) {
	for _, name := range []string{"n1", "n2", "n3"} {
		e.start(name)
	}
	e.arrived("n1")
	silence := func() {
		e.proxy.silent.Store(true)
		time.Sleep(30 * time.Second)
		e.proxy.silent.Store(false)
	}
	e.within(silence)
	e.equal("n2")

	w := write(t, e.source, e.index)
	if r := e.cutover("--no-wait"); r.Code != 4 {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	until(t, "writes are blocked", func() bool { return blockedWrites(t, e.source, e.index) })
	silence()
	until(t, "the cut-over has ended", func() bool { return slices.Contains([]string{"FINISHING", "DONE", "RETURNED"}, e.cutoverState()) })
	w.end()
	if is := e.cutoverState(); (is != "RETURNED") != blockedWrites(t, e.source, e.index) {
		t.Fatalf("the cut-over is %s, and the source is blocked: %t", is, blockedWrites(t, e.source, e.index))
	} else if is == "RETURNED" {
		e.cutsOver()
	}
	same(t, e.source, e.target, e.index)
}

// killedCutovers kills the driver of a cut-over, at later and later times, until a cut-over has ended. Another node completes or undoes
// the interrupted one.
func killedCutovers(t *testing.T, e *environment) {
	for _, name := range []string{"n1", "n2"} {
		e.start(name)
	}
	e.arrived("n1")
	w := write(t, e.source, e.index)
	for delay := time.Second; !slices.Contains([]string{"FINISHING", "DONE"}, e.cutoverState()); delay += 700 * time.Millisecond {
		if delay > 20*time.Second {
			t.Fatal("no cut-over has ended")
		}
		e.cutover("--no-wait") // refused while one is in progress
		time.Sleep(delay)
		killed := e.driver()
		e.kill(killed)
		t.Logf("%s was killed after %s: %s, source blocked: %t", killed, delay, e.cutoverState(), blockedWrites(t, e.source, e.index))
		e.start(killed)
	}
	w.end()
	if !blockedWrites(t, e.source, e.index) {
		t.Error("the source takes writes after the cut-over")
	}
	same(t, e.source, e.target, e.index)
}

// withAScaler: a node asks for machines by the work that is left. It keeps them between two rounds and in rounds without changes.
func withAScaler(t *testing.T, e *environment) {
	calls := filepath.Join(e.dir, "calls")
	command := filepath.Join(e.dir, "scale.sh")
	must(t, os.WriteFile(command, fmt.Appendf(nil, "#!/bin/sh\necho $1 >> %s\n", calls), 0o755))
	e.start("n1", "--gossip-listen", freeAddress(t), "--data-dir", filepath.Join(e.dir, "n1", "data"), "--workers", "none", "--scale-driver", "exec", "--scale-command", command, "--scale-max", "8", "--scale-cooldown", "1s")
	e.start("n2")
	e.start("n3")
	asked := func() []string {
		b, err := os.ReadFile(calls)
		if !os.IsNotExist(err) {
			must(t, err)
		}
		return slices.Compact(strings.Fields(string(b)))
	}
	e.arrived("n2")
	for begin := time.Now(); time.Since(begin) < 40*time.Second; { // turns of the scaler are 15 s apart
		e.within(func() { time.Sleep(2 * time.Second) })
		e.equal("n2")
	}
	reasons := map[string]bool{}
	for begin := time.Now(); time.Since(begin) < 40*time.Second; time.Sleep(time.Second) {
		if m := e.status("n1").Machines; m != nil {
			reason, _, _ := strings.Cut(m.Reason, ";")
			reasons[reason] = true
		}
	}
	numbers := asked()
	t.Logf("the driver was asked for %v machines; reasons %v", numbers, reasons)
	if len(numbers) == 0 || len(numbers) > 4 || slices.Contains(numbers, "0") {
		t.Errorf("the driver was asked for %v machines", numbers)
	}
	if !reasons["following"] && !reasons["no item of the round is left"] {
		t.Errorf("between two rounds the reasons are %v", reasons)
	}
	e.cutsOver()
	// The following is over when the settings of the target are restored, two minutes later.
	until(t, "no machine is wanted when the following has ended", func() bool { return slices.Contains(asked(), "0") })
}
