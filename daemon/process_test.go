package daemon

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
)

// TestMain lets the test binary act as a worker: its first argument selects the behaviour.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "worker-that-") {
		os.Exit(workerThat(strings.TrimPrefix(os.Args[1], "worker-that-")))
	}
	os.Exit(m.Run())
}

// workerThat behaves as a worker process; its flags are --status-fd 3 --parent-fd 4.
func workerThat(does string) int {
	out := json.NewEncoder(os.NewFile(3, "status"))
	in := bufio.NewScanner(os.NewFile(4, "parent"))
	in.Buffer(nil, 1<<20)
	say := func(r Record) {
		if err := out.Encode(r); err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
	}
	exit := func(code int) int { say(Record{Exit: &code, Outcome: "handed off", Item: "x"}); return code }
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	if !in.Scan() {
		return 9
	}
	first := in.Text()
	say(Record{Holder: "w", Lease: &Lease{Item: "bG9ncw__0__0", Holder: "w_1", LeftMs: 600_000}})
	switch does {
	case "echoes": // its arguments, environment and first order, on stderr
		fmt.Fprintf(os.Stderr, "args=%q\nenv=%q\norder=%s\n", os.Args, os.Environ(), first)
		return exit(0)
	case "panics":
		fmt.Fprintln(os.Stderr, `{"level":"INFO","msg":"all is well"}`)
		panic("a poisonous item")
	case "grows":
		var hold [][]byte
		for range 40 {
			b := make([]byte, 8<<20)
			for i := range b {
				b[i] = 1
			}
			hold = append(hold, b)
		}
		<-terminated
		fmt.Fprintln(os.Stderr, len(hold))
		return exit(0)
	case "waits": // until it is asked to end, or its parent is gone
		orders := make(chan string)
		go func() {
			for in.Scan() {
				say(Record{Sample: &metrics.Sample{Documents: int64(len(in.Text()))}})
			}
			close(orders)
		}()
		select {
		case <-terminated:
		case <-orders:
			fmt.Fprintln(os.Stderr, "parent gone")
		}
		return exit(0)
	}
	return 8
}

// running is a worker process under test.
type running struct {
	Worker
	mu      sync.Mutex
	records []Record
	lines   []string
	end     chan End
}

func (r *running) read() ([]Record, []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.records), slices.Clone(r.lines)
}

func startProcess(t *testing.T, p Processes, does string) *running {
	t.Helper()
	r := &running{end: make(chan End, 1)}
	p.Program, p.Args = os.Args[0], []string{"worker-that-" + does}
	p.Line = func(_, _ int, line []byte) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.lines = append(r.lines, string(line))
	}
	w, err := p.Start(3, WorkerCommand{Every: time.Second}, func(rec Record) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.records = append(r.records, rec)
	}, func(e End) { r.end <- e })
	if err != nil {
		t.Fatal(err)
	}
	r.Worker = w
	t.Cleanup(w.Kill)
	until(t, "the worker has started", func() bool { rs, _ := r.read(); return len(rs) > 0 })
	return r
}

func (r *running) await(t *testing.T) End {
	t.Helper()
	select {
	case e := <-r.end:
		return e
	case <-time.After(2 * time.Minute):
		t.Fatal("the worker does not end")
		return End{}
	}
}

func TestSecretsReachAWorkerByItsPipeOnly(t *testing.T) {
	t.Setenv("RFS_TARGET_PASSWORD", "canary-env")
	t.Setenv("NOTIFY_SOCKET", "/run/canary-socket")
	t.Setenv("AWS_PROFILE", "kept")
	r := startProcess(t, Processes{Options: map[string][]string{"target-password": {"canary-secret"}}, Memory: 300 << 20}, "echoes")
	e := r.await(t)
	_, lines := r.read()
	all := strings.Join(lines, "\n")
	i := strings.Index(all, "order=")
	if i < 0 || e.Code != 0 || !e.isClean() {
		t.Fatalf("%+v: %s", e, all)
	}
	if strings.Contains(all[:i], "canary") {
		t.Errorf("a secret is among arguments or environment: %s", all[:i])
	}
	if !strings.Contains(all[i:], "canary-secret") || !strings.Contains(all, "GOMEMLIMIT=314572800") || !strings.Contains(all, "AWS_PROFILE=kept") {
		t.Errorf("%s", all)
	}
	if !strings.Contains(all, `"--status-fd" "3" "--parent-fd" "4"`) {
		t.Errorf("%s", all)
	}
}

func TestAPanicIsKeptWithItsReason(t *testing.T) {
	e := startProcess(t, Processes{}, "panics").await(t)
	if e.Code != 2 || e.isClean() || !strings.Contains(strings.Join(e.Stderr, "\n"), "panic: a poisonous item") || strings.Contains(e.Stderr[0], "all is well") {
		t.Errorf("%+v", e)
	}
	if text := describeExit(&slot{}, e); !strings.Contains(text, "panic: a poisonous item") {
		t.Error(text)
	}
}

func TestAWorkerHandsOffWhenItsParentsPipeCloses(t *testing.T) {
	r := startProcess(t, Processes{}, "waits")
	p, ok := r.Worker.(*process)
	if !ok {
		t.Fatal("no process")
	}
	p.commands.Close()
	if e := r.await(t); e.Code != 0 || !strings.Contains(strings.Join(e.Stderr, "\n"), "parent gone") {
		t.Errorf("%+v", e)
	}
}

func TestOrdersReachAWorkerAndTermEndsIt(t *testing.T) {
	r := startProcess(t, Processes{}, "waits")
	r.Send(WorkerCommand{Rate: &RateCommand{Number: 2, BytesPerSecond: 5}})
	until(t, "the order has come", func() bool {
		rs, _ := r.read()
		return len(rs) == 2 && rs[1].Sample.Documents > 0
	})
	if metrics.Resident(r.PID()) < 1<<20 {
		t.Errorf("%d bytes resident", metrics.Resident(r.PID()))
	}
	r.Stop()
	if e := r.await(t); e.Code != 0 || !e.isClean() || e.Last.Outcome != "handed off" {
		t.Errorf("%+v", e)
	}
}

func TestTheOptionsAreTheFirstOrderWhateverElseIsOrdered(t *testing.T) {
	for range 4 {
		var lines lockedLines
		p := Processes{Program: os.Args[0], Args: []string{"worker-that-echoes"}, Options: map[string][]string{"x": {"the options"}}, Line: lines.add}
		ended := make(chan End, 1)
		w, err := p.Start(0, WorkerCommand{}, func(Record) {}, func(e End) { ended <- e })
		if err != nil {
			t.Fatal(err)
		}
		w.Send(WorkerCommand{Rate: &RateCommand{Number: 2, BytesPerSecond: 1}})
		if e := <-ended; e.Code != 0 || !strings.Contains(lines.text(), `order={"options":{"x":["the options"]}`) {
			t.Fatalf("%+v: %s", e, lines.text())
		}
	}
}

// lockedLines keeps the lines of a worker.
type lockedLines struct {
	mu  sync.Mutex
	all []string
}

func (l *lockedLines) add(_, _ int, line []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, string(line))
}

func (l *lockedLines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

func TestAStoppedProcessIsKilledAndAnOrderToItDoesNotHang(t *testing.T) {
	r := startProcess(t, Processes{}, "waits")
	if err := syscall.Kill(r.PID(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	big := WorkerCommand{Options: map[string][]string{"x": {strings.Repeat("x", 1<<20)}}} // more than a pipe holds
	r.Send(big)                                                                           // returns, though it is never read
	r.Stop()
	r.Kill()
	if e := r.await(t); e.Signal != "SIGKILL" || e.isClean() {
		t.Errorf("%+v", e)
	}
}

func TestAWorkerProcessThatGrowsIsEnded(t *testing.T) {
	const limit = 64 << 20
	n := runNode(t, Config{Workers: 1, Memory: limit, Starter: &Processes{Program: os.Args[0], Args: []string{"worker-that-grows"}, Memory: limit}}, &fakeStarter{})
	until(t, "it is ended for its memory", func() bool {
		for _, w := range n.Status(t.Context()).Workers {
			if strings.Contains(w.LastExit, "memory: ") && strings.Contains(w.LastExit, "resident") {
				return true
			}
		}
		return false
	})
}

func TestAWorkerThatCannotBeStartedIsTriedAgainLater(t *testing.T) {
	n := runNode(t, Config{Workers: 1, Starter: &Processes{Program: "/nowhere/rfsd"}}, &fakeStarter{})
	until(t, "it is reported", func() bool {
		w := n.Status(t.Context()).Workers
		return len(w) == 1 && w[0].State == "backing off" && strings.Contains(w[0].LastExit, "/nowhere/rfsd")
	})
}

func TestTornAndForeignRecordsAreLeftAside(t *testing.T) {
	var got []Record
	last := readRecords(io.MultiReader(strings.NewReader("{\"holder\":\"a\"}\nnonsense\n{\"exit\":3}\n{\"exi")), func(r Record) { got = append(got, r) })
	if len(got) != 2 || last == nil || *last.Exit != 3 {
		t.Errorf("%+v, last %+v", got, last)
	}
}
