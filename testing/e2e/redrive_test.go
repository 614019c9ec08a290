package e2e

import (
	"context"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// redriven is the part of `rfsd redrive --output json` that the tests read.
type redriven struct {
	Documents int64 `json:"documents"`
	Indexed   int64 `json:"indexed"`
	Failed    int64 `json:"failed"`
	Filtered  int64 `json:"filtered"`
	Complete  bool  `json:"complete"`
	Classes   []struct {
		Index, Class, Reason, Example, Remedy string

		Count int64
	} `json:"classes"`
}

func redrives(t *testing.T, want int, args ...string) redriven {
	t.Helper()
	res := Run(t, "rfsd", append([]string{"redrive", "--output", "json"}, args...)...)
	var r redriven
	if err := outputtest.Decode(res.Stdout, &r); err != nil || res.Code != want {
		t.Fatalf("exit %d, want %d: %v: %s%s", res.Code, want, err, res.Stdout, res.Stderr)
	}
	return r
}

// TestRedriveAfterTheMappingIsFixed has a strict mapping refuse 997 documents, repairs it and sends them again; the first
// process that does is killed in between.
func TestRedriveAfterTheMappingIsFixed(t *testing.T) {
	const refused = 997
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	repo, dir := fixture(t, "1.7.6-basic"), filepath.Join(t.TempDir(), "failed")
	call(t, n, "PUT", "/docs", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
	args := targetArgs(n.URL, repo, "--session-name", "strict", "--failed-documents", dir, "--max-failed-documents", "unlimited")
	var sum struct {
		Totals cms.Counts `json:"totals"`
	}
	res := Run(t, "rfsd", args...)
	must(t, outputtest.Decode(res.Stdout, &sum))
	if res.Code != 6 || sum.Totals.Failed != refused {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	lines := func() int { return len(inSink(t, dir)) }
	if n := lines(); n != refused {
		t.Fatalf("%d failed documents in the files", n)
	}
	res = Run(t, "rfsd", "import", "--from", dir, "--target-host", n.URL, "--session-name", "wrong")
	if res.Code != 1 || !strings.Contains(res.Stderr, "rfsd redrive") {
		t.Errorf("an import of failed documents: exit %d: %s", res.Code, res.Stderr)
	}

	// again is what the migration and its status report when it is run again: both count what was delivered.
	again := func(code int, left int64, text string) {
		t.Helper()
		var sum struct {
			Totals   cms.Counts `json:"totals"`
			Redriven int64      `json:"redriven"`
			Indices  []struct {
				Index    string            `json:"index"`
				Arrival  *progress.Arrival `json:"arrival"`
				Redriven int64             `json:"redriven"`
			} `json:"indices"`
		}
		res := Run(t, "rfsd", args...)
		must(t, outputtest.Decode(res.Stdout, &sum))
		if res.Code != code || sum.Totals.Failed != left || sum.Redriven != refused-left {
			t.Errorf("the migration again: exit %d, %d failed, %d delivered: %s", res.Code, sum.Totals.Failed, sum.Redriven, res.Stderr)
		}
		for _, x := range sum.Indices {
			if x.Redriven > 0 && x.Arrival.Found < x.Redriven {
				t.Errorf("index %s: %+v", x.Index, x.Arrival)
			}
		}
		if out := Run(t, "rfsd", append(args, "--output", "text")...).Stdout; !strings.Contains(out, text) {
			t.Errorf("%q is not in %s", text, out)
		}
		if res = Run(t, "rfsctl", "status", "--target-host", n.URL, "--session-name", "strict", "--exit-status"); res.Code != code {
			t.Errorf("status: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
		}
	}
	again(6, refused, "until rfsd redrive delivers them")
	p := newProxy(t, n.URL, 0)
	redrive := []string{"--target-host", p.URL, "--session-name", "strict", "--failed-documents", dir, "--index-allowlist", "docs", "--documents-per-bulk-request", "50",
		"--max-connections", "1", "--max-failed-documents", "unlimited"}
	r := redrives(t, 6, redrive...)
	if r.Failed != refused || r.Indexed != 0 || lines() != refused || len(r.Classes) != 1 || r.Classes[0].Reason != "strict_dynamic_mapping_exception" {
		t.Errorf("before the mapping is fixed: %+v, %d in the files", r, lines())
	}
	call(t, n, "PUT", "/docs/_mapping", map[string]any{"dynamic": true, "properties": map[string]any{"raw": map[string]any{"type": "object", "enabled": false}}})

	// A kill after some requests loses nothing.
	p.delay.Store(int64(100 * time.Millisecond))
	before := p.bulks.Load()
	ctx, kill := context.WithCancel(t.Context())
	defer kill()
	cmd := exec.CommandContext(ctx, Binary(t, "rfsd"), append([]string{"redrive"}, redrive...)...)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); cmd.Wait() }() //nolint:errcheck // it is killed
	for limit := time.Now().Add(time.Minute); p.bulks.Load() < before+5; {
		if time.Now().After(limit) || isClosed(ended) {
			t.Fatal("it sends nothing")
		}
		<-time.After(5 * time.Millisecond)
	}
	kill()
	<-ended
	if n := lines(); n != refused {
		t.Fatalf("%d failed documents are in the files after the kill", n)
	}
	p.delay.Store(0)

	r = redrives(t, 0, redrive...)
	if r.Documents != refused || r.Indexed != refused || r.Failed != 0 || !r.Complete || lines() != 0 {
		t.Errorf("%+v, %d in the files", r, lines())
	}
	compareLanded(t, n, repo)
	before = p.bulks.Load()
	if r = redrives(t, 0, redrive...); r.Documents != 0 || p.bulks.Load() != before {
		t.Errorf("a second redrive: %+v, %d requests", r, p.bulks.Load()-before)
	}
	again(0, 0, "997 documents did not arrive when they were sent; rfsd redrive has delivered 997 of them")
}

// TestRedriveReadsTheSnapshotAgain: what the files do not hold, and what only the control index knows, comes from the snapshot.
func TestRedriveReadsTheSnapshotAgain(t *testing.T) {
	const refused = 997
	n := cluster.OpenSearch(t, targets[0])
	rules := filepath.Join(t.TempDir(), "rules.toml")
	must(t, os.WriteFile(rules, []byte("[[document]]\nmatch = \"docs\"\nrename = [{ from = \"raw\", to = \"was_raw\" }]\n"), 0o600))
	for _, c := range []struct {
		name    string
		content []string
		rules   []string
		redrive []string
	}{
		{"hash", []string{"--failed-documents-content", "hash"}, nil, nil},
		{"none, with rules", []string{"--failed-documents-content", "none"}, []string{"--rules", rules}, nil},
		{"control index", nil, nil, []string{"--from-control-index"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, n)
			repo, dir := fixture(t, "1.7.6-basic"), filepath.Join(t.TempDir(), "failed")
			call(t, n, "PUT", "/docs", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
			args := append(append(targetArgs(n.URL, repo, "--session-name", "again", "--failed-documents", dir, "--max-failed-documents", "unlimited"), c.content...), c.rules...)
			if c.redrive != nil {
				args[0] = "worker"
			}
			for code := -1; code != 6 && code != 3; {
				res := Run(t, "rfsd", args...)
				if code = res.Code; code != 6 && code != 3 && code != 0 {
					t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
				}
			}
			redrive := append([]string{"--target-host", n.URL, "--session-name", "again", "--index-allowlist", "docs", "--max-failed-documents", "unlimited", "--repo-uri", repo}, c.rules...)
			if c.redrive == nil {
				redrive = append(redrive, "--failed-documents", dir)
			}
			redrive = append(redrive, c.redrive...)
			if r := redrives(t, 6, redrive...); r.Failed != refused || r.Indexed != 0 || len(r.Classes) != 1 || r.Classes[0].Class != "strict_mapping" {
				t.Errorf("before the mapping is fixed: %+v", r)
			}
			off := map[string]any{"type": "object", "enabled": false}
			call(t, n, "PUT", "/docs/_mapping", map[string]any{"dynamic": true, "properties": map[string]any{"raw": off, "was_raw": off}})
			if r := redrives(t, 0, redrive...); r.Documents != refused || r.Indexed != refused || !r.Complete {
				t.Errorf("%+v", r)
			}
			if c.rules == nil {
				compareLanded(t, n, repo)
			} else {
				call(t, n, "POST", "/docs/_refresh", nil)
				body, err := n.Send(t.Context(), "GET", "/docs/_search?size=1000", "", nil)
				must(t, err)
				if b := string(body); !strings.Contains(b, `"was_raw":`) || strings.Contains(b, `"raw":`) {
					t.Error("the rules were not applied")
				}
			}
			if r := redrives(t, 0, redrive...); r.Documents != 0 {
				t.Errorf("a second redrive: %+v", r)
			}
		})
	}
}

// TestRedriveKeepsToWhatTheSessionDoesWithExistingDocuments has a strict mapping refuse documents, two of which applications write
// meanwhile with a higher version, and sends them again.
func TestRedriveKeepsToWhatTheSessionDoesWithExistingDocuments(t *testing.T) {
	const refused = 997
	n := cluster.OpenSearch(t, targets[0])
	for _, existing := range []string{"newer", "keep"} { // overwriting is what all other tests do
		t.Run(existing, func(t *testing.T) {
			wipe(t, n)
			repo, dir := fixture(t, "1.7.6-basic"), filepath.Join(t.TempDir(), "failed")
			call(t, n, "PUT", "/docs", map[string]any{"mappings": map[string]any{"dynamic": "strict"}})
			args := targetArgs(n.URL, repo, "--session-name", existing, "--failed-documents", dir, "--max-failed-documents", "unlimited", "--existing-documents", existing)
			if res := Run(t, "rfsd", args...); res.Code != 6 {
				t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
			lines := inSink(t, dir)
			if len(lines) != refused {
				t.Fatalf("%d failed documents in the files", len(lines))
			}
			call(t, n, "PUT", "/docs/_mapping", map[string]any{"dynamic": true, "properties": map[string]any{"raw": map[string]any{"type": "object", "enabled": false}}})
			there := map[string]bool{} // by id: the application's version is higher than that of the snapshot
			for k := range lines {
				if there[k.id] = len(there) == 0; len(there) == 2 {
					break
				}
			}
			for id, higher := range there {
				version := "1"
				if higher {
					version = "1000"
				}
				call(t, n, "PUT", "/docs/_doc/"+url.PathEscape(id)+"?refresh=true&version_type=external&version="+version, map[string]any{"foreign": id})
			}
			r := redrives(t, 0, "--target-host", n.URL, "--session-name", existing, "--index-allowlist", "docs", "--failed-documents", dir, "--max-failed-documents", "unlimited")
			if r.Documents != refused || r.Failed != 0 || !r.Complete || len(inSink(t, dir)) != 0 {
				t.Errorf("%+v, %d in the files", r, len(inSink(t, dir)))
			}
			for id, higher := range there {
				source, _ := call(t, n, "GET", "/docs/_doc/"+url.PathEscape(id), nil)["_source"].(map[string]any)
				stays := source["foreign"] == id
				if want := existing == "keep" || existing == "newer" && higher; stays != want {
					t.Errorf("document %s (higher version: %v) stayed: %v, want %v", id, higher, stays, want)
				}
			}
		})
	}
}
