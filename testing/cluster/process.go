package cluster

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// launch is a command that is ready to run, with its node.
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

// unprivileged is the user id of servers if the tests run as root, because servers refuse to run as root.
const unprivileged = 65534

// start runs the command in its own process group.
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
	out, err := os.OpenFile(logName, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	cmd := exec.Command(l.java, l.args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = l.dir, out, out
	cmd.Env = append(os.Environ(), l.env...)
	cmd.SysProcAttr = attributes()
	p := &process{cmd: cmd, log: logName, ended: make(chan struct{})}
	started := make(chan error)
	go func() {
		// The parent death signal is sent when the thread that started the child ends, so keep that thread alive.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		defer close(p.ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // the exit status of a stopped server does not matter
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", l.java, err)
	}
	return p, nil
}

// stop asks the server to end, and kills it after ten seconds.
func (p *process) stop() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(10 * time.Second):
	}
	p.kill()
}

// kill kills the whole process group. It ignores groups that have already ended.
func (p *process) kill() {
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	<-p.ended
}

// tail returns the end of the log.
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
