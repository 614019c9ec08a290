package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Locations that a fault concerns, in addition to the cluster.
const (
	sourceBucket = "source" // the repository or the files are in a bucket
	workBucket   = "state"  // the state of the work is in a bucket
	ofBroker     = "broker" // concerns topics only
)

// contactFault is a fault, injected by begin and removed by end; nil: it stays. If ends is set, the program does not wait for the end of
// the fault, and reports this text.
type contactFault struct {
	name       string
	fleet      bool   // concerns nodes of a fleet only
	place      string // "": the cluster and directories
	ends       string
	says       string // in the log of a program that continues
	begin, end func(c *contact)
	deletes    func(c *contact) // brings it about in the middle of the work only, which it ends for good
	again      bool             // it may happen in the middle of the work, too
	process    bool             // it is one of the process, which has to be started again without it
	night      bool             // too slow for every change
}

// concerns reports whether a program meets the fault.
func (f contactFault) concerns(p contactProgram) bool {
	switch {
	case f.deletes != nil:
		return p.long
	case f.fleet:
		return p.fleet
	case f.place == ofBroker:
		return p.reads == aTopic
	case f.process:
		return p.reads != ""
	case f.place == sourceBucket, strings.Contains(f.name, "repository"):
		return p.reads != "" && p.reads != aTopic
	}
	return true
}

// gateway is a gate of any kind.
type gateway interface {
	set(t *testing.T, mode string)
}

func gateFault(name, mode string, which func(c *contact) []gateway) contactFault {
	set := func(mode string) func(c *contact) {
		return func(c *contact) {
			for _, g := range which(c) {
				g.set(c.t, mode)
			}
		}
	}
	return contactFault{name: name, begin: set(mode), end: set(passes), again: true}
}

func atNight(f contactFault) contactFault {
	f.night = true
	return f
}

func in(place string, f contactFault) contactFault {
	f.place = place
	return f
}

func targetOf(c *contact) []gateway { return []gateway{c.target} }

func storeOf(c *contact) []gateway { return []gateway{c.store} }

func bothOf(c *contact) []gateway { return []gateway{c.target, c.store} }

func bucketOf(c *contact) []gateway { return []gateway{c.bucket} }

func brokerOf(c *contact) []gateway { return []gateway{c.broker} }

var contactFaults = []contactFault{
	gateFault("target and store refuse connections", refuses, bothOf),
	gateFault("target and store do not answer", hangs, bothOf),
	atNight(gateFault("target and store answer 503", unavailable, bothOf)),
	atNight(gateFault("target refuses connections", refuses, targetOf)),
	gateFault("store refuses connections", refuses, storeOf),
	atNight(gateFault("store does not answer", hangs, storeOf)),
	in(sourceBucket, gateFault("bucket of the source refuses connections", refuses, bucketOf)),
	in(sourceBucket, gateFault("bucket of the source does not answer", hangs, bucketOf)),
	in(sourceBucket, gateFault("bucket of the source answers 503", unavailable, bucketOf)),
	in(sourceBucket, gateFault("bucket of the source has another time", ahead, bucketOf)),
	in(workBucket, gateFault("bucket of the state refuses connections", refuses, bucketOf)),
	in(workBucket, gateFault("bucket of the state does not answer", hangs, bucketOf)),
	in(workBucket, gateFault("bucket of the state has another time", ahead, bucketOf)),
	in(workBucket, contactFault{name: "folder of the state in its bucket is deleted", ends: "is gone", deletes: func(c *contact) {
		must(c.t, os.RemoveAll(filepath.Join(c.buckets, "bucket", "state", c.session())))
	}}),
	{name: "indices of the state are deleted", ends: "is gone", deletes: func(c *contact) {
		for _, index := range []string{".migrations_working_state", ".rfs_control", ".rfs_items-work", ".rfs_items-shards"} {
			if _, err := c.node.Send(c.t.Context(), "DELETE", "/"+index+"_"+c.session()+"?ignore_unavailable=true", "", nil); err != nil {
				c.t.Fatalf("DELETE %s: %v", index, err)
			}
		}
	}},
	in(ofBroker, gateFault("broker ends connections", refuses, brokerOf)),
	in(ofBroker, gateFault("broker does not answer", hangs, brokerOf)),
	{name: "clock of the machine is ten minutes ahead", night: true, process: true, says: "clock", begin: func(c *contact) { c.rfsd = c.fast() }, end: func(c *contact) { c.rfsd = Binary(c.t, "rfsd") }},
	{name: "name of the target is unknown", night: true, begin: func(c *contact) { c.url = "http://nowhere.invalid:9200" }},
	{name: "repository is missing", begin: func(c *contact) { must(c.t, os.Rename(c.repo, c.repo+".away")) }, end: func(c *contact) { must(c.t, os.Rename(c.repo+".away", c.repo)) }},
	{name: "gossip port is taken", fleet: true, ends: "--gossip-listen", begin: func(c *contact) { c.take(c.gossip) }, end: func(c *contact) { c.free() }},
	{name: "port of the API is taken", fleet: true, ends: "address already in use", begin: func(c *contact) { c.take(c.api) }, end: func(c *contact) { c.free() }},
	{name: "certificate cannot be read", fleet: true, ends: "--tls-cert", begin: func(c *contact) { c.more = []string{"--tls-cert", filepath.Join(c.dir, "none.crt")} }, end: func(c *contact) { c.more = nil }},
	{name: "certificate has expired", night: true, fleet: true, says: "has expired", begin: func(c *contact) {
		c.more = []string{"--tls-cert", filepath.Join(c.certs, "old.crt"), "--tls-key", filepath.Join(c.certs, "old.key")}
	}, end: func(c *contact) {}},
	{name: "directory of the node's state is read-only", night: true, fleet: true, says: "state of the node cannot be kept", begin: func(c *contact) { c.tmpfs("ro") }, end: func(c *contact) {}},
	{name: "directory of the node's state is full", fleet: true, says: "state of the node cannot be kept", begin: func(c *contact) { c.tmpfs("size=4k,nr_inodes=2") }, end: func(c *contact) {}},
}

// take opens an address until free.
func (c *contact) take(address string) {
	l, err := net.Listen("tcp", address)
	must(c.t, err)
	c.undo = append(c.undo, func() { l.Close() })
}

func (c *contact) free() {
	for _, f := range c.undo {
		f()
	}
	c.undo = nil
}

// tmpfs puts the directories of a node on a file system with options.
func (c *contact) tmpfs(options string) {
	dir := filepath.Join(c.dir, "small")
	must(c.t, os.Mkdir(dir, 0o700))
	if out, err := exec.Command("mount", "-t", "tmpfs", "-o", options, "none", dir).CombinedOutput(); err != nil {
		c.t.Skipf("no file system can be mounted here (root can): %v: %s", err, out)
	}
	c.t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() })
	c.more, c.env = []string{"--data-dir", filepath.Join(dir, "data")}, []string{"XDG_STATE_HOME=" + dir}
}

// succeeds runs a command that exits with a code.
func (c *contact) succeeds(code int, args ...string) {
	c.t.Helper()
	if res := RunIn(c.t, c.dir, nil, args[0], args[1:]...); res.Code != code {
		c.t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
}

// migrated migrates a fixture in the session.
func migrated(c *contact) {
	c.succeeds(0, append([]string{"rfsd", "migrate"}, migration(c)...)...)
}

// rejected imports documents, half of which the target rejects, and removes the cause.
func rejected(c *contact) {
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, `{"index":{"_index":"%s-files","_id":"%d"}}`+"\n{\"n\":%s}\n", c.session(), i, []string{"7", `"x"`}[i%2])
	}
	from := filepath.Join(c.dir, "from")
	must(c.t, os.Mkdir(from, 0o755))
	must(c.t, os.WriteFile(filepath.Join(from, "rejected.ndjson"), []byte(lines.String()), 0o600))
	c.succeeds(6, append([]string{"rfsd", "import", "--from", from, "--create-indices"}, c.sending()...)...)
	call(c.t, c.node, "PUT", "/"+c.session()+"-files/_mapping", json.RawMessage(`{"properties":{"n":{"type":"long","ignore_malformed":true}}}`))
}
