package stories

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestStoreIsGone_ANodeEnds deletes the state of the work while the workers of a node work: the node ends with the reason, whatever they
// wait for.
func TestStoreIsGone_ANodeEnds(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		// starting deletes the state when a worker has started and not opened it yet.
		starting bool
	}{
		{"workers that send", nil, false},
		{"workers that wait for their part of the rate", []string{"--max-rate", "0.001MB"}, false},
		{"a worker that starts", nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			dir, options := bucketState(t)
			state := filepath.Join(dir, "state")
			remove := sync.OnceFunc(func() { // all objects at once
				if err := os.Rename(state, filepath.Join(dir, "deleted")); err != nil {
					t.Error(err)
				}
			})
			var sent atomic.Int64
			w.cluster.Watch(func(r *http.Request) error {
				if c.starting && r.URL.Path == "/" && sent.Load() > 0 {
					remove()
				}
				if strings.HasSuffix(r.URL.Path, "/_bulk") {
					sent.Add(1)
					select {
					case <-time.After(300 * time.Millisecond):
					case <-r.Context().Done():
					}
				}
				return nil
			}, nil)
			args := slices.Concat([]string{"run", "--workers", "2", "--socket", "off", "--status-socket", "off"}, c.args, w.source(), options, []string{"--target-host", w.url, "--session-name", "gone", "--documents-per-bulk-request", "1", "--max-connections", "1", "--failed-documents", filepath.Join(w.dir, "failed")})
			cmd := exec.CommandContext(t.Context(), filepath.Join(programs, "rfsd"), args...)
			log, err := os.Create(filepath.Join(w.dir, "log"))
			if err != nil {
				t.Fatal(err)
			}
			defer log.Close()
			said := func() string {
				b, err := os.ReadFile(log.Name())
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = w.dir, append(os.Environ(), "XDG_STATE_HOME="+w.dir), log, log
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = cmd.Wait() }()
			t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
			if !c.starting {
				for sent.Load() < 2 {
					select {
					case <-ended:
						t.Fatalf("it has ended: %s", said())
					case <-time.After(20 * time.Millisecond):
					}
				}
				remove()
			}
			select {
			case <-ended:
			case <-time.After(time.Minute):
				_ = cmd.Process.Kill()
				<-ended
				t.Fatalf("it continues for a minute:\n%s", said())
			}
			if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(said(), "the coordination store is gone") {
				t.Errorf("exit %d:\n%s", code, said())
			}
			saysOnce(t, said())
			if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the state was begun again: %v:\n%s", err, said())
			}
		})
	}
}

// TestStoreIsGone_ACommandEnds deletes or replaces the file with the state of the work while a command sends documents.
func TestStoreIsGone_ACommandEnds(t *testing.T) {
	for _, c := range []struct {
		name, verb string
		replaced   bool
	}{
		{"migrate, deleted", "migrate", false},
		{"migrate, replaced", "migrate", true},
		{"import, deleted", "import", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t)
			s := w.model.session("gone")
			if c.verb == "import" {
				export(w)
				s.verb = "import"
			}
			state := filepath.Join(w.dir, "gone.db")
			var sent atomic.Int64
			w.cluster.Watch(func(r *http.Request) error {
				if !strings.HasSuffix(r.URL.Path, "/_bulk") || sent.Add(1) != 2 {
					return nil
				}
				if c.replaced {
					return os.Rename(copied(t, state), state)
				}
				return os.Remove(state)
			}, nil)
			args := append(append([]string{c.verb}, w.at("gone")...), w.load(s, "--documents-per-bulk-request", "1", "--max-connections", "1")...)
			if r := w.run(kill{}, "rfsd", args...); r.code != 1 || !strings.Contains(r.output, "the coordination store is gone") {
				t.Errorf("exit %d after %d requests:\n%s", r.code, sent.Load(), r.output)
			} else {
				saysOnce(t, r.output)
			}
			if c.replaced {
				return
			}
			if _, err := os.Stat(state); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the state was begun again: %v", err)
			}
		})
	}
}

// saysOnce fails the test if the last line of a program says something twice.
func saysOnce(t *testing.T, said string) {
	t.Helper()
	lines := strings.Split(strings.TrimSpace(said), "\n")
	last := lines[len(lines)-1]
	if twice := outputtest.Repeated(last); twice != "" || !strings.HasPrefix(last, "rfsd: ") {
		t.Errorf("it says %q twice: %s", twice, last)
	}
}

// copied returns the name of a copy of a file, beside it.
func copied(t *testing.T, name string) string {
	b, err := os.ReadFile(name)
	if err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(name+".copy", b, 0o600); err != nil {
		t.Error(err)
	}
	return name + ".copy"
}
