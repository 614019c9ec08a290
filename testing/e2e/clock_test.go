package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// wrongClock builds a program of this module with a wrong clock: its time.Now returns a time of day that is off by a number of
// seconds, and a correct monotonic time. The program is unchanged; a file of the standard library is replaced.
func wrongClock(t *testing.T, seconds int, program string) (path string) {
	t.Helper()
	out, err := exec.Command("go", "env", "GOROOT").Output()
	must(t, err)
	file := filepath.Join(strings.TrimSpace(string(out)), "src", "time", "time.go")
	right, err := os.ReadFile(file)
	must(t, err)
	dir := t.TempDir()
	changed, path := filepath.Join(dir, "time.go"), filepath.Join(dir, filepath.Base(program))
	wrong, err := wronged(right)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	must(t, os.WriteFile(changed, wrong, 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{file: changed}})
	must(t, err)
	must(t, os.WriteFile(changed+".json", overlay, 0o600))
	cmd := exec.Command("go", "build", "-trimpath", "-overlay", changed+".json", "-ldflags", "-X time.wrongSeconds="+strconv.Itoa(seconds), "-o", path, program)
	cmd.Dir = Root()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s with a wrong clock: %v\n%s", program, err, out)
	}
	return path
}

// wronged changes the text of the standard library's time.go: Now adds an offset that the linker sets, so the package is compiled
// once for all offsets.
func wronged(text []byte) ([]byte, error) {
	const reads = "\nfunc Now() Time {\n\tsec, nsec, mono := runtimeNow()\n"
	if n := bytes.Count(text, []byte(reads)); n != 1 {
		return nil, fmt.Errorf("%d times %q, not once: this version of Go reads the clock in another way", n, reads)
	}
	text = bytes.Replace(text, []byte(reads), []byte(reads+"\tsec += int64(wrongBy)\n"), 1)
	return append(text, "\nvar wrongSeconds string // by the linker\n\nvar wrongBy, _ = atoi(wrongSeconds)\n"...), nil
}

// TestAProgramIsBuiltWithAWrongClock holds what the plays with wrong clocks rest on, with a program of three lines.
func TestAProgramIsBuiltWithAWrongClock(t *testing.T) {
	source := filepath.Join(t.TempDir(), "clock.go")
	must(t, os.WriteFile(source, []byte("package main\n\nimport \"time\"\n\nfunc main() {\n\tnow := time.Now()\n\tprintln(now.Unix(), time.Since(now) < time.Hour)\n}\n"), 0o600))
	for _, off := range []int{600, -600} {
		before := time.Now().Unix()
		out, err := exec.Command(wrongClock(t, off, source)).CombinedOutput()
		must(t, err)
		var told int64
		var stopwatch bool
		if _, err := fmt.Sscan(string(out), &told, &stopwatch); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if told -= int64(off); told < before || told > time.Now().Unix() || !stopwatch {
			t.Errorf("%d s: the program states %q at %d", off, out, before)
		}
	}
	if _, err := wronged([]byte("package time\n")); err == nil {
		t.Error("a file without the text is taken")
	}
}

// wrong are machines whose clocks are ten minutes off, as seen by asking them.
type wrong struct {
	w        *network
	machines []*wrongMachine
	calls    int
}

type wrongMachine struct {
	*host
	off     time.Duration
	held    map[string]bool // items in work on it
	reasons map[string]bool
}

// setClocks sets machine 3 ten minutes ahead and machine 4 ten minutes behind. The certificates are an hour old, as those of most
// fleets are: the machine behind accepts them only when they are valid by its clock, from five minutes before they were made.
func setClocks(t *testing.T, w *network) *wrong {
	t.Helper()
	x := &wrong{w: w}
	w.dir = t.TempDir()
	w.certify(wrongClock(t, -3600, "./cmd/rfsctl"))
	for i, off := range []time.Duration{10 * time.Minute, -10 * time.Minute} {
		h := w.all[3+i]
		h.more = append(h.more, "--verbose") // the log has the leases
		h.program = wrongClock(t, int(off.Seconds()), "./cmd/rfsd")
		x.machines = append(x.machines, &wrongMachine{host: h, off: off, held: map[string]bool{}, reasons: map[string]bool{}})
	}
	t.Cleanup(func() {
		for _, m := range x.machines {
			line, _, _ := strings.Cut(m.said.String(), "\n")
			var first struct{ Time time.Time }
			if err := json.Unmarshal([]byte(line), &first); err != nil || (first.Time.Sub(w.begun)-m.off).Abs() > 3*time.Minute {
				t.Errorf("%s started at %v, and its first line is %q", m.space, w.begun, line)
			}
		}
	})
	return x
}

// ask records the status of one of the machines, of another one in each call.
func (x *wrong) ask() {
	m := x.machines[x.calls%len(x.machines)]
	x.calls++
	r, ok := x.w.ask(m.host)
	if !ok {
		return
	}
	m.reasons[r.Node.Reason] = true
	for _, worker := range r.Workers {
		if worker.Item != "" {
			m.held[worker.Item] = true
		}
		if worker.Expiry != nil && time.Until(*worker.Expiry).Abs() > 5*time.Minute { // it is told by the store's clock
			x.w.t.Errorf("%s states that a lease ends at %v", m.space, worker.Expiry)
		}
	}
}

var clockOff = regexp.MustCompile(`this machine's clock is (\S+) off the coordination store's`)

// says returns the offset of its clock that the machine has reported; 0 if none.
func (m *wrongMachine) says() time.Duration {
	for reason := range m.reasons {
		if found := clockOff.FindStringSubmatch(reason); found != nil {
			if d, err := time.ParseDuration(found[1]); err == nil {
				return d
			}
		}
	}
	return 0
}

// begin starts the machines before all others, and blocks until each of them satisfies is.
func (x *wrong) begin(t *testing.T, what string, is func(*wrongMachine) bool) {
	t.Helper()
	x.w.begun = time.Now()
	for _, m := range x.machines {
		x.w.start(m.host)
	}
	until(t, what, func() bool {
		x.ask()
		return !slices.ContainsFunc(x.machines, func(m *wrongMachine) bool { return !is(m) })
	})
}

// refuseWrongClocks checks that machines with wrong clocks report the offset and migrate no documents, neither alone nor with others.
func refuseWrongClocks(t *testing.T, w *network) func(time.Duration) {
	x := setClocks(t, w)
	x.begin(t, "the machines say that their clocks are wrong", func(m *wrongMachine) bool { return m.says() != 0 })
	t.Cleanup(func() {
		for _, m := range x.machines {
			if d := m.says(); (d - m.off).Abs() > time.Minute {
				t.Errorf("%s is %v off and states %v", m.space, m.off, d)
			}
			if len(m.held) > 0 || strings.Contains(m.said.String(), `"lease acquired"`) {
				t.Errorf("%s is %v off and held %v", m.space, m.off, m.held)
			}
		}
	})
	return func(time.Duration) { x.ask() }
}

// allowWrongClocks: with the tolerance switched off machines whose clocks are wrong work like all others.
func allowWrongClocks(t *testing.T, w *network) func(time.Duration) {
	for _, h := range w.all {
		h.more = append(h.more, "--clock-skew-tolerance", "0s")
	}
	x := setClocks(t, w)
	x.begin(t, "the machines with wrong clocks work", func(m *wrongMachine) bool { return len(m.held) > 0 })
	t.Cleanup(func() {
		for _, m := range x.machines {
			done := strings.Count(m.said.String(), `"lease ended"`)
			if t.Logf("%s is %v off and ended %d leases", m.space, m.off, done); done == 0 {
				t.Errorf("%s held %v and ended none", m.space, m.held)
			}
		}
	})
	return func(time.Duration) { x.ask() }
}
