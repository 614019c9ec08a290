package daemon

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Processes starts each worker as a process. Options are sent through a pipe, so that its arguments and environment contain no secrets.
type Processes struct {
	Program string   // the rfsd binary
	Args    []string // arguments before the flags for the pipes: worker
	Env     []string
	Options map[string][]string
	Memory  int64                            // GOMEMLIMIT of each worker in bytes; 0: none
	Line    func(slot, pid int, line []byte) // called with every line that a worker writes to stderr
	Owner   *Owner                           // holder and lock of the workers; nil: none
}

const (
	maxLine     = 1 << 20 // bytes of a record or a line of stderr
	stderrLines = 20      // kept for the reason of a crash
	// commandTimeout limits the write of a command, because a stopped process does not read.
	commandTimeout = time.Second
)

type process struct {
	cmd      *exec.Cmd
	commands *os.File

	mu sync.Mutex // guards commands
}

// Start starts a worker process.
func (p *Processes) Start(slot int, first WorkerCommand, report func(Record), ended func(End)) (Worker, error) {
	var pipes pipes
	statusR, statusW := pipes.open()
	commandsR, commandsW := pipes.open()
	errR, errW := pipes.open()
	if pipes.err != nil {
		pipes.close()
		return nil, fmt.Errorf("start a worker: %w", pipes.err)
	}
	cmd := exec.Command(p.Program, append(slices.Clone(p.Args), "--status-fd", "3", "--parent-fd", "4")...)
	cmd.Env = p.environment()
	cmd.Stderr = errW
	cmd.ExtraFiles = []*os.File{statusW, commandsR}
	if p.Owner != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, p.Owner.file)
		first.Holder = p.Owner.Holder()
	}
	cmd.SysProcAttr = apart()
	oom := oomKills()
	if err := cmd.Start(); err != nil {
		pipes.close()
		return nil, fmt.Errorf("start a worker: %w", err)
	}
	statusW.Close()
	commandsR.Close()
	errW.Close()
	w := &process{cmd: cmd, commands: commandsW}
	first.Options, first.Slot = p.Options, slot
	w.mu.Lock() // later commands follow the options
	go func() { // a worker that does not read must not block the others
		defer w.mu.Unlock()
		w.write(first)
	}()
	go w.wait(p, slot, statusR, errR, oom, report, ended)
	return w, nil
}

// wait reads the pipes until they are closed, waits for the process, and reports how it ended.
func (w *process) wait(p *Processes, slot int, status, stderr *os.File, oom int64, report func(Record), ended func(End)) {
	var readers sync.WaitGroup
	var last *Record
	var words []string
	readers.Go(func() { last = readRecords(status, report) })
	readers.Go(func() {
		words = readLines(stderr, func(line []byte) {
			if p.Line != nil {
				p.Line(slot, w.PID(), line)
			}
		})
	})
	err := w.cmd.Wait()
	readers.Wait()
	status.Close()
	stderr.Close()
	w.commands.Close()
	e := End{Code: w.cmd.ProcessState.ExitCode(), Last: last, Stderr: words}
	if ws, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		e.Signal = signalName(ws.Signal())
		e.OOM = ws.Signal() == syscall.SIGKILL && oomKills() > oom
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		e.Stderr = append(e.Stderr, err.Error())
	}
	ended(e)
}

func (w *process) PID() int { return w.cmd.Process.Pid }
func (w *process) Stop()    { w.signal(syscall.SIGTERM) }
func (w *process) Kill()    { w.signal(syscall.SIGKILL) }

// signal signals the process, unless it has ended: os.Process never signals another process with the same id.
func (w *process) signal(s syscall.Signal) {
	if err := w.cmd.Process.Signal(s); err != nil {
		return // it has ended, which wait reports
	}
}

// Send sends o as one JSON line. If the worker does not read within commandTimeout the command is dropped;
// the check of its lease will deal with the worker.
func (w *process) Send(o WorkerCommand) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.write(o)
}

// write sends one command. w.mu is held.
func (w *process) write(o WorkerCommand) {
	line, err := json.Marshal(o)
	if err != nil {
		return // does not happen: a WorkerCommand is plain data
	}
	if err := w.commands.SetWriteDeadline(time.Now().Add(commandTimeout)); err != nil && !errors.Is(err, os.ErrNoDeadline) {
		return // closed: the worker has ended
	}
	if _, err := w.commands.Write(append(line, '\n')); err != nil {
		return
	}
}

// environment returns the daemon's environment without its settings, which are sent through the pipe.
func (p *Processes) environment() []string {
	env := p.Env
	if env == nil {
		env = os.Environ()
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		return strings.HasPrefix(v, "RFS_") || strings.HasPrefix(v, "NOTIFY_SOCKET=") || strings.HasPrefix(v, "WATCHDOG_") ||
			strings.HasPrefix(v, "LISTEN_") || strings.HasPrefix(v, "GOMEMLIMIT=")
	})
	if p.Memory > 0 {
		env = append(env, "GOMEMLIMIT="+strconv.FormatInt(p.Memory, 10))
	}
	return env
}

// readRecords reports every record and returns the final one, or nil.
func readRecords(in io.Reader, report func(Record)) *Record {
	var last *Record
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		var r Record
		if json.Unmarshal(lines.Bytes(), &r) != nil {
			continue // a torn line of a killed process
		}
		if r.Exit != nil {
			last = &r
		}
		report(r)
	}
	drain(in)
	return last
}

// readLines passes on every line and returns those that may explain a crash: the first and the last ones.
func readLines(in io.Reader, pass func([]byte)) []string {
	var words []string
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		line := lines.Bytes()
		pass(line)
		if bytes.HasPrefix(line, []byte("{")) && !bytes.Contains(line, []byte(`"level":"ERROR"`)) {
			continue
		}
		if words = append(words, string(line[:min(len(line), 500)])); len(words) > 2*stderrLines {
			// Keep the first lines, too: a panic starts with its reason.
			words = append(words[:stderrLines:stderrLines], words[len(words)-stderrLines:]...)
		}
	}
	drain(in)
	return words
}

// drain reads the rest, so that a writer of a too long line is not blocked.
func drain(in io.Reader) {
	if _, err := io.Copy(io.Discard, in); err != nil {
		return // closed
	}
}

// pipes opens pairs of files and can close all of them after a failure.
type pipes struct {
	files []*os.File
	err   error
}

func (p *pipes) open() (r, w *os.File) {
	if p.err != nil {
		return nil, nil
	}
	if r, w, p.err = os.Pipe(); p.err == nil {
		p.files = append(p.files, r, w)
	}
	return r, w
}

func (p *pipes) close() {
	for _, f := range p.files {
		f.Close()
	}
}
