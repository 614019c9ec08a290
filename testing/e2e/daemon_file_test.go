package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/testing/truth"
)

func TestADaemonWithAFileRunsItsWorkersInside(t *testing.T) {
	dir := t.TempDir()
	repo := filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo")
	out := filepath.Join(dir, "out")
	config := filepath.Join(dir, "n.toml")
	must(t, os.WriteFile(config, []byte("[source]\nrepo-uri = '"+repo+"'\nsnapshot-name = 'snap1'\n[export]\nexport-dir = '"+out+
		"'\n[daemon]\nworkers = 3\nexit-when-done = true\n[work]\nlog-level = 'debug'\n"), 0o600))
	r := RunIn(t, dir, nil, "rfsd", "run", "--config", config)
	if r.Code != 0 || !strings.Contains(r.Stderr, "lease acquired") {
		t.Fatalf("exit %d: %s", r.Code, r.Stderr)
	}
	want, err := truth.Load(false, repo+".ndjson.gz")
	must(t, err)
	got, err := truth.LoadExport(out)
	must(t, err)
	if f := truth.Compare(want, ignoreMeaninglessTypes(got)).Faults(); f != "" {
		t.Error(f)
	}
	again := RunIn(t, dir, nil, "rfsd", "run", "--config", config)
	if again.Code != 0 || strings.Contains(again.Stderr, "lease acquired") {
		t.Errorf("a second run: exit %d: %s", again.Code, again.Stderr)
	}
}

func TestALoneWorkerObeysThePauseAndWritesItsMetrics(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "state.db")
	want := func(kind session.OrderKind) {
		t.Helper()
		store, err := boltcms.Open(file, time.Now)
		must(t, err)
		c := cms.New(cms.Config{Store: store, Creator: "test"})
		_, err = session.OrdersOf(c).Issue(t.Context(), session.Order{Kind: kind, Who: "ann"})
		must(t, err)
		must(t, store.Close())
	}
	prom := filepath.Join(dir, "rfsd.prom")
	args := []string{"worker", "--repo-uri", filepath.Join(Root(), "testing", "fixtures", "7.10.2-demo"), "--snapshot-name", "snap1",
		"--export-dir", filepath.Join(dir, "out"), "--coordinator-file", file, "--metrics-file", prom}
	want(session.OrderPause)
	if r := RunIn(t, dir, nil, "rfsd", args...); r.Code != 4 || !strings.Contains(r.Stderr, "PAUSE") || !strings.Contains(r.Stderr, "ann") {
		t.Errorf("paused: exit %d: %s", r.Code, r.Stderr)
	}
	foreground := append([]string{"migrate"}, args[1:len(args)-2]...)
	if r := RunIn(t, dir, nil, "rfsd", foreground...); r.Code != 1 || !strings.Contains(r.Stderr, "PAUSE") {
		t.Errorf("paused, in the foreground: exit %d: %s", r.Code, r.Stderr)
	}
	want(session.OrderResume)
	for range 10 {
		r := RunIn(t, dir, nil, "rfsd", args...)
		if r.Code != 0 && r.Code != 3 {
			t.Fatalf("exit %d: %s", r.Code, r.Stderr)
		}
		b, err := os.ReadFile(prom)
		must(t, err)
		if strings.Contains(string(b), `rfsd_leases_total{outcome="completed"} 1`) {
			if !strings.Contains(string(b), "rfsd_repository_requests_total") || strings.Contains(string(b), `rfsd_documents_total{result="indexed"} 0`) {
				t.Errorf("%s", b)
			}
			return
		}
	}
	t.Error("no worker had a lease")
}
