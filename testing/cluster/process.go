package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// launch is a command that is ready to run and the node it will be.
type launch struct {
	node *Node
	java string
	args []string
	dir  string
	env  []string
}

// process is a started server.
type process struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// unprivileged is the user that servers run as when the tests run as root, which servers refuse.
const unprivileged = 65534

// dirPrefix and the process that owns the node begin the name of a working directory.
const dirPrefix = "rfsd-node-"

// sweep removes what nodes left behind whose owner, and they with it, were killed.
func sweep(tmp string) error {
	left, err := filepath.Glob(filepath.Join(tmp, dirPrefix+"*-*"))
	if err != nil {
		return err
	}
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), dirPrefix), "-")
		pid, err := strconv.Atoi(owner)
		if err != nil || pid <= 0 || !errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			continue
		}
		if err := os.RemoveAll(dir); err != nil && !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("sweep: %w", err)
		}
	}
	return nil
}

// workDir makes the directory of one node, with its subdirectories.
func workDir() (string, error) {
	if err := sweep(os.TempDir()); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", fmt.Sprintf("%s%d-", dirPrefix, os.Getpid()))
	if err != nil {
		return "", err
	}
	for _, d := range []string{"config", "data", "logs", "tmp", "repos", "modules", "plugins", "lib"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			return "", err
		}
	}
	return dir, os.Chmod(dir, 0o755)
}

// freePorts finds n ports on loopback that nobody listens on.
func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, fmt.Errorf("free port: %w", err)
		}
		defer l.Close() //nolint:errcheck,revive // all are held until every one is found
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// start runs the command in a process group of its own.
func start(l *launch) (*process, error) {
	if os.Geteuid() == 0 {
		err := filepath.WalkDir(l.node.Dir, func(path string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, unprivileged, unprivileged)
		})
		if err != nil {
			return nil, err
		}
	}
	logName := filepath.Join(l.node.Dir, "logs", "stdout.log")
	out, err := os.Create(logName)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(l.java, l.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, out, out
	cmd.Env = append(os.Environ(), l.env...)
	cmd.SysProcAttr = attributes()
	p := &process{cmd: cmd, log: logName, ended: make(chan struct{})}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.java, err)
	}
	go func() {
		defer close(p.ended)
		_ = cmd.Wait() // the status of a server that was told to stop says nothing
	}()
	return p, nil
}

// stop asks the server to end and makes it after ten seconds.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	p.kill()
}

// kill ends the whole group at once. Groups that are gone already are no error.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// tail gives the end of the log.
func (p *process) tail() string {
	f, err := os.Open(p.log)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if size, err := f.Seek(0, io.SeekEnd); err == nil {
		_, err = f.Seek(max(0, size-4000), io.SeekStart)
		if err != nil {
			return err.Error()
		}
	}
	b, err := io.ReadAll(f)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// readyTime is how long a server may take to answer.
const readyTime = 120 * time.Second

// wait returns when the node answers and bears the name we gave it.
func (n *Node) wait(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		names, err := n.nodeNames(ctx)
		if err == nil && strings.Contains(names, n.name) {
			return nil
		}
		if err == nil {
			return fmt.Errorf("%s answers as %q, not as %s: somebody else's server", n.URL, names, n.name)
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			last = err
		}
		select {
		case <-tick.C:
		case <-n.process.ended:
			return fmt.Errorf("the server ended before it answered")
		case <-ctx.Done():
			return fmt.Errorf("no answer within %v: %w", readyTime, last)
		}
	}
}

// nodeNames asks who answers there. GET / is not served by every assembly.
func (n *Node) nodeNames(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	b, err := n.Send(ctx, "GET", "/_cat/nodes?h=name", "", nil)
	return strings.TrimSpace(string(b)), err
}
