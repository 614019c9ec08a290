// Package abuse attacks the built programs on loopback, as docs/SECURITY.md lists it. RFSD_ABUSE_BIN names a folder with
// other builds of rfsd and rfsctl: an attack that a change defends against succeeds with the programs of before.
package abuse

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	testcluster "github.com/rfsd/rfsd/testing/cluster"
)

// patience bounds every wait of a test: some seconds on a machine with nothing else to do.
const patience = time.Minute

// mostMemory is what hostile input may make a process take, bytes.
const mostMemory = 512 << 20

var root = sync.OnceValue(func() string {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return ""
	}
	return filepath.Dir(strings.TrimSpace(string(out)))
})

var programs string

func TestMain(m *testing.M) {
	flag.Parse()
	if testing.Short() {
		fmt.Println("not run: attacks on the built programs (make abuse)")
		os.Exit(0)
	}
	os.Exit(func() int {
		if programs = os.Getenv("RFSD_ABUSE_BIN"); programs == "" {
			dir, err := os.MkdirTemp("", "abuse-")
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				return 1
			}
			defer os.RemoveAll(dir)
			programs = dir
			build := exec.Command("go", "build", "-trimpath", "-o", dir+string(filepath.Separator), "./cmd/rfsd", "./cmd/rfsctl")
			build.Dir, build.Env = root(), append(os.Environ(), "CGO_ENABLED=0")
			if out, err := build.CombinedOutput(); err != nil {
				fmt.Fprintf(os.Stderr, "%v: %s", err, out)
				return 1
			}
		}
		dumpable()
		return m.Run()
	}())
}

// dumpable lets the programs under test leave core dumps, as far as this process may, so that it is they who forbid them.
func dumpable() {
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_CORE, &limit) == nil {
		limit.Cur = limit.Max
		_ = syscall.Setrlimit(syscall.RLIMIT_CORE, &limit)
	}
}

// ended is what a program left behind.
type ended struct {
	code           int
	stdout, stderr string
	memory         int64 // the most that was resident, bytes
	late           bool  // it did not end by itself
}

// run executes a program for at most the given time.
func run(t *testing.T, most time.Duration, env []string, name string, args ...string) ended {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), most)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(programs, name), args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(append(os.Environ(), "XDG_STATE_HOME="+cmd.Dir), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &stdout, &stderr, 2*time.Second
	must(t, cmd.Start())
	// The usage that the system states at the end counts this process, too, as it was when the program began.
	over, watched := make(chan struct{}), make(chan int64)
	go func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for most := int64(0); ; {
			if now, err := peak(cmd.Process.Pid); err == nil {
				most = max(most, now)
			}
			select {
			case <-over:
				watched <- most
				return
			case <-tick.C:
			}
		}
	}()
	err := cmd.Wait()
	close(over)
	memory := <-watched
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatalf("%s: %v", name, err)
	}
	return ended{code: cmd.ProcessState.ExitCode(), stdout: stdout.String(), stderr: stderr.String(), late: ctx.Err() != nil, memory: memory}
}

// peak is the most that was resident of a process, bytes.
func peak(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(b), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("it has ended")
	}
	kb, err := strconv.ParseInt(fields[0], 10, 64)
	return kb << 10, err
}

// node is a daemon under attack.
type node struct {
	dir, operator, reader, port, gossip string
	cmd                                 *exec.Cmd
}

// start runs a daemon whose coordination store is a fake, until the test ends.
func start(t *testing.T, args ...string) *node {
	t.Helper()
	return startOn(t, fakeCluster(t), nil, args...)
}

// startOn runs a daemon on a played cluster, with further variables.
func startOn(t *testing.T, url string, env []string, args ...string) *node {
	t.Helper()
	dir := t.TempDir()
	n := &node{dir: dir, operator: filepath.Join(dir, "op"), reader: filepath.Join(dir, "ro"), port: freePort(t), gossip: freePort(t)}
	args = append([]string{"run", "--target-host", url, "--session-name", "abuse", "--repo-uri", fixture(t), "--snapshot-name", "snap1",
		"--workers", "1", "--socket", n.operator, "--status-socket", n.reader, "--data-dir", filepath.Join(dir, "data")}, args...)
	for i, a := range args {
		args[i] = strings.NewReplacer("PORT", n.port, "GOSSIP", n.gossip).Replace(a)
	}
	n.cmd = exec.CommandContext(t.Context(), filepath.Join(programs, "rfsd"), args...)
	n.cmd.Dir, n.cmd.Env = dir, append(append(os.Environ(), "XDG_STATE_HOME="+dir, "RFS_TARGET_PASSWORD=x"), env...)
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	defer log.Close()
	n.cmd.Stderr = log
	n.cmd.Cancel, n.cmd.WaitDelay = func() error { return n.cmd.Process.Signal(syscall.SIGTERM) }, 3*time.Second
	must(t, n.cmd.Start())
	t.Cleanup(func() {
		_ = n.cmd.Process.Kill()
		_ = n.cmd.Wait()
	})
	until(t, "the node answers: "+n.logged(t), func() bool {
		conn, err := net.Dial("unix", n.operator)
		if err == nil {
			conn.Close()
		}
		return err == nil
	})
	return n
}

func (n *node) logged(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(n.dir, "log"))
	must(t, err)
	return string(b[:min(len(b), 2000)])
}

// memory is the most that was resident of the daemon, bytes.
func (n *node) memory(t *testing.T) int64 {
	t.Helper()
	most, err := peak(n.cmd.Process.Pid)
	if err != nil {
		t.Skip("not run: the memory of another process cannot be read here: ", err)
	}
	return most
}

// descriptors is how many the daemon holds.
func (n *node) descriptors(t *testing.T) int {
	t.Helper()
	all, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", n.cmd.Process.Pid))
	if err != nil {
		t.Skip("not run: the descriptors of another process cannot be read here: ", err)
	}
	return len(all)
}

func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
		<-tick.C
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	address, err := testcluster.FreeAddress()
	must(t, err)
	_, port, err := net.SplitHostPort(address)
	must(t, err)
	return port
}

// fixture is a real repository with one snapshot.
func fixture(t *testing.T) string {
	t.Helper()
	return fixtureOf(t, "os3.8.0-templates")
}

func fixtureOf(t *testing.T, name string) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("cp", "-r", filepath.Join(root(), "testing/fixtures", name)+"/.", dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return dir
}
