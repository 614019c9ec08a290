package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
)

// watched is a migration that is watched from a second terminal.
type watched struct {
	t       *testing.T
	dir     string
	total   int64          // documents
	counted func() float64 // documents that the destination holds
	args    []string
	process *exec.Cmd
	said    bytes.Buffer
}

func (w *watched) start() {
	w.t.Helper()
	w.process = exec.Command(Binary(w.t, "rfsd"), append([]string{"migrate"}, w.args...)...)
	w.process.Dir, w.process.Env = w.dir, w.env()
	w.process.Stdout, w.process.Stderr = &w.said, &w.said
	must(w.t, w.process.Start())
}

func (w *watched) env() []string {
	return append(os.Environ(), "XDG_RUNTIME_DIR="+w.dir, "TMPDIR="+w.dir, "XDG_STATE_HOME="+filepath.Join(w.dir, "state"))
}

// status asks as an operator does; ok is false while there is no answer.
func (w *watched) status(args ...string) (r status.Report, ok bool) {
	w.t.Helper()
	cmd := exec.Command(Binary(w.t, "rfsctl"), append([]string{"status", "--output", "json"}, args...)...)
	cmd.Dir, cmd.Env = w.dir, w.env()
	out, _ := cmd.Output() // the exit code is that of the migration so far
	return r, outputtest.Decode(out, &r) == nil
}

// arrived returns the part of the documents that the destination holds, and how many.
func (w *watched) arrived() (share float64, documents int64) {
	w.t.Helper()
	n := w.counted()
	return n / float64(w.total), int64(n)
}

// TestProgressIsTrue migrates 1,281 documents of 84 kB at a rate at which they take RFSD_WATCH seconds, into files and into a cluster.
// The process is killed when 30 % and 70 % have arrived. At any moment `rfsctl status` shows the share within 5 points of what
// the destination holds, from the socket of the process and, with a cluster, from the store; and the time left that it shows at
// half-way (of files: after the last kill) is within 20 % of the truth.
func TestProgressIsTrue(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("RFSD_WATCH"))
	if err != nil || seconds < 1 {
		t.Skip("RFSD_WATCH=300 watches two migrations of five minutes")
	}
	repo := fixture(t, "7.10.2-many-chunks")
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	size := 0
	for _, source := range want {
		size += len(source)
	}
	args := []string{"--repo-uri", repo, "--snapshot-name", "snap1", "--session-name", "watched",
		"--max-rate", strconv.FormatFloat(float64(size)/1e6/float64(seconds), 'f', 3, 64) + "MB", "--documents-size-per-bulk-request", "500KB"}
	t.Run("files", func(t *testing.T) {
		dir := t.TempDir()
		out := filepath.Join(dir, "out")
		w := &watched{t: t, dir: dir, total: int64(len(want)), args: append(args, "--export-dir", out), counted: func() float64 {
			written := int64(0)
			must(t, filepath.WalkDir(out, func(path string, e fs.DirEntry, err error) error {
				if err != nil || !strings.Contains(path, ".ndjson") || e.IsDir() {
					return nil // it is not there yet, or is removed meanwhile
				}
				if info, err := e.Info(); err == nil {
					written += info.Size()
				}
				return nil
			}))
			return float64(written) / float64(size) * float64(len(want))
		}}
		w.follow(nil)
	})
	t.Run("cluster", func(t *testing.T) {
		n := cluster.OpenSearch(t, targets[0])
		wipe(t, n)
		target := []string{"--target-host", n.URL}
		w := &watched{t: t, dir: t.TempDir(), total: int64(len(want)), args: append(args, target...), counted: func() float64 {
			call(t, n, "POST", "/_refresh", nil)
			var found struct{ Count float64 }
			until(t, "an index that was just created can be searched", func() bool {
				return n.JSON(t.Context(), "GET", "/chunks*/_count", nil, &found) == nil
			})
			return found.Count
		}}
		w.follow(append(target, "--session-name", "watched"))
	})
}

// follow runs the migration to its end. stored are the options by which its store is read; nil: it cannot be.
func (w *watched) follow(stored []string) {
	t := w.t
	w.start()
	ended := make(chan error, 1)
	wait := func() { p := w.process; go func() { ended <- p.Wait() }() }
	wait()
	t.Cleanup(func() { _ = w.process.Process.Kill() })

	kills := []float64{0.3, 0.7}
	var worst, worstStored float64
	var halfway time.Time
	var predicted time.Duration
	var halfRate, halfMean float64
	unanswered, since := time.Duration(0), time.Now()
	var err error
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for polls := 0; ; polls++ {
		select {
		case err = <-ended:
		case <-ticker.C:
			r, ok := w.status()
			if !ok || r.Progress.State == progress.StateUnknown {
				unanswered = max(unanswered, time.Since(since))
				continue
			}
			since = time.Now()
			share, documents := w.arrived()
			off := math.Abs(r.Progress.Share - share)
			if worst = max(worst, off); off > 0.05 {
				t.Errorf("%.1f %% are shown, %.1f %% have arrived: %s", 100*r.Progress.Share, 100*share, r.Progress)
			}
			if d := r.Progress.Documents - documents; d < -w.total/20 || d > w.total/20 {
				t.Errorf("%d documents are shown, %d have arrived", r.Progress.Documents, documents)
			}
			if stored != nil && polls%3 == 0 {
				if r, ok := w.status(stored...); ok {
					share, _ := w.arrived()
					off := math.Abs(r.Progress.Share - share)
					if worstStored = max(worstStored, off); off > 0.05 {
						t.Errorf("the store shows %.1f %%, %.1f %% have arrived", 100*r.Progress.Share, 100*share)
					}
				}
			}
			if halfway.IsZero() && share >= 0.5 {
				halfway = time.Now()
				if r.Progress.Left == nil {
					t.Fatalf("no end is estimated at half-way: %s", r.Progress)
				}
				predicted, halfRate, halfMean = time.Duration(*r.Progress.Left*float64(time.Second)), r.Progress.Rate, r.Progress.Mean
				t.Logf("at half-way: %s", r.Progress)
			}
			if len(kills) > 0 && share >= kills[0] {
				t.Logf("killed at %.1f %%", 100*share)
				kills = kills[1:]
				must(t, w.process.Process.Kill())
				<-ended
				w.start()
				wait()
				since = time.Now()
				if stored == nil {
					halfway = time.Time{} // an export begins the file of the killed process again
				}
			}
			continue
		}
		break
	}
	if err != nil || len(kills) > 0 || halfway.IsZero() {
		t.Fatalf("%v; kills left %v; %s", err, kills, last(w.said.String(), 4000))
	}
	took := time.Since(halfway)
	wrong := predicted.Seconds()/took.Seconds() - 1
	t.Logf("share: at most %.1f points off from the process, %.1f from the store; at half-way %v left were shown (%.0f documents/s, mean %.0f), it took %v (%+.0f %%); at most %v without an answer after a start",
		100*worst, 100*worstStored, predicted.Round(time.Second), halfRate, halfMean, took.Round(time.Second), 100*wrong, unanswered.Round(time.Second))
	if math.Abs(wrong) > 0.2 {
		t.Errorf("%v left were shown at half-way, it took %v", predicted, took)
	}
	if unanswered > 30*time.Second {
		t.Errorf("nothing was shown for %v", unanswered)
	}
	if r, ok := w.status(stored...); stored != nil && (!ok || r.Progress.State != progress.StateComplete || r.Progress.Documents != w.total) {
		t.Errorf("at the end: %s", fmt.Sprint(r.Progress))
	}
}

// last returns the end of a text.
func last(s string, n int) string { return s[max(len(s)-n, 0):] }

// TestAMigrateIsWatchedFromASecondTerminal: without options, with the file that is in use, with its session's name, to its end, and from
// the store when it has ended.
func TestAMigrateIsWatchedFromASecondTerminal(t *testing.T) {
	notShort(t)
	dir := t.TempDir()
	w := &watched{t: t, dir: dir, args: []string{
		"--repo-uri", fixture(t, "7.10.2-many-chunks"), "--snapshot-name", "snap1", "--export-dir", filepath.Join(dir, "out"), "--session-name", "seen", "--max-rate", "5MB", "--slots", "1",
	}}
	w.start()
	defer func() { _ = w.process.Process.Kill() }()
	var r status.Report
	until(t, "the migration is shown", func() bool {
		var ok bool
		r, ok = w.status()
		return ok && r.Progress.State == progress.StateWorking && r.Progress.Share > 0
	})
	if want := fmt.Sprint("migrate-", w.process.Process.Pid); r.Node.Name != want || r.Migration.Session != "seen" {
		t.Errorf("%+v of %q, want %s", r.Node, r.Migration.Session, want)
	}
	files, err := filepath.Glob(filepath.Join(dir, "rfsd", "*"))
	must(t, err)
	for _, path := range files {
		info, err := os.Stat(path)
		must(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", path, info.Mode())
		}
	}
	state := filepath.Join(dir, "out", ".rfsd", "coordinator.db")
	for _, args := range [][]string{{"--session-name", "seen"}, {"--node", files[0]}, {"--coordinator-file", state}} {
		if x, ok := w.status(args...); !ok || x.Node.Name != r.Node.Name {
			t.Errorf("%q: %+v", args, x.Node)
		}
	}
	follow := exec.Command(Binary(t, "rfsctl"), "status", "--watch", "--output", "json")
	follow.Dir, follow.Env = dir, w.env()
	out, err := follow.Output()
	must(t, err)
	all, err := outputtest.Documents(string(out))
	must(t, err)
	var end status.Report
	if err := json.Unmarshal(all[len(all)-1].Data, &end); err != nil || !end.Migration.Complete || end.Progress.State != progress.StateComplete {
		t.Errorf("the last of %d documents: %v %s", len(all), err, all[len(all)-1].Data)
	}
	if err := w.process.Wait(); err != nil {
		t.Fatalf("%v: %s", err, &w.said)
	}
	if x, ok := w.status("--coordinator-file", state, "--session-name", "seen"); !ok || x.Node.State != "stored" || x.Migration.Totals != end.Migration.Totals {
		t.Errorf("the store shows %+v, the process showed %+v", x.Migration.Totals, end.Migration.Totals)
	}
}
