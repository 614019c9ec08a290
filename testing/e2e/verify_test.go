package e2e

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
	"github.com/rfsd/rfsd/testing/verifytest"
)

// verified compares a target with what a command line of migrate brought there.
func verified(t *testing.T, dir string, migrate []string, more ...string) (Result, *verify.Report) {
	t.Helper()
	res := RunIn(t, dir, nil, "rfsd", append(append([]string{"verify"}, migrate[1:]...), more...)...)
	r, err := verifytest.Unseal([]byte(res.Stdout))
	if err != nil {
		t.Fatalf("verify: exit %d: %v\n%s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	return res, r
}

// notEqual lists what a report says of indices that are not equal.
func notEqual(r *verify.Report) string {
	var b strings.Builder
	for _, x := range r.Indices {
		if x.State != verify.Equal {
			text, err := json.Marshal(x)
			fmt.Fprintf(&b, "%.1000s %v\n", text, err)
		}
	}
	return b.String()
}

// someVerified are the snapshots that are compared unless RFSD_SOURCES is "all".
var someVerified = []string{
	"1.7.6-updates-deletes/snap1", "5.6.16-multi-type/snap1", "6.8.23-partial/partial", "7.10.2-sources/snap1", "8.19.21-synthetic/snap1", "9.5.3-basic/snap1", "os2.19.4-data-stream/snap1",
}

// TestVerifyAgreesWithMigrationsOfDefaultRules migrates snapshots of all versions: what arrived is equal, and what did not is in
// the account.
func TestVerifyAgreesWithMigrationsOfDefaultRules(t *testing.T) {
	all := repositories(t, filepath.Join(Root(), "testing", "fixtures"))
	if os.Getenv("RFSD_SOURCES") != "all" {
		all = slices.DeleteFunc(all, func(r repository) bool { return !slices.Contains(someVerified, r.name) })
	}
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			for _, r := range all {
				t.Run(r.name, func(t *testing.T) {
					before := openSearches(t, n) // comparisons that other tests killed leave some
					verifyAgrees(t, n, r)
					nothingLeftOpen(t, n, before)
				})
			}
		})
	}
}

// verifyAgrees migrates a snapshot with default rules and compares.
func verifyAgrees(t *testing.T, n *cluster.Node, r repository) {
	withoutStreams(t, n)
	dir := t.TempDir()
	args := []string{"migrate", "--repo-uri", r.path, "--snapshot-name", r.snapshot, "--target-host", n.URL, "--output", "json", "--allow-partial"}
	migrated := RunIn(t, dir, nil, "rfsd", args...)
	if migrated.Code != 0 && migrated.Code != 6 && migrated.Code != 7 {
		t.Fatalf("migrate: exit %d: %s", migrated.Code, migrated.Stderr)
	}
	res, report := verified(t, dir, args)
	if res.Code != migrated.Code && (res.Code != 0 && res.Code != 6 || migrated.Code == 0) { // a damaged shard may hide what failed, and reduced sources are no failures
		t.Errorf("exit %d after %d of the migration\n%s%s", res.Code, migrated.Code, notEqual(report), res.Stderr)
	}
	var documents int64
	for _, x := range report.Indices {
		documents += x.SourceSide.Documents
		if x.State == verify.NotComparable {
			t.Logf("%s is not comparable: %s", x.Target, x.NotComparable)
		}
	}
	if migrated := triedOf(t, migrated); documents == 0 && migrated.Totals.Indexed > 0 {
		t.Error("nothing was compared")
	}
}

// TestVerifyReadsATargetWithoutPointsInTime compares with OpenSearch 1.3, which is read by scrolls, and changes a document.
func TestVerifyReadsATargetWithoutPointsInTime(t *testing.T) {
	if _, whole := atSize(); !whole {
		t.Skip("RFSD_VERIFY=1 starts OpenSearch 1.3.14, for about half a minute")
	}
	n := cluster.OpenSearch(t, "1.3.14")
	for _, name := range []string{"7.10.2-demo", "5.6.16-many-chunks", "1.7.6-updates-deletes", "2.4.6-basic"} {
		t.Run(name, func(t *testing.T) {
			verifyAgrees(t, n, repository{name: name, path: fixture(t, name), snapshot: "snap1"})
			nothingLeftOpen(t, n, opened{})
		})
	}
	dir := t.TempDir()
	args := targetArgs(n.URL, fixture(t, "2.4.6-basic"), "--strict")
	_, was := verified(t, dir, args)
	if _, err := n.Send(t.Context(), "PUT", "/"+was.Indices[0].Target+"/_doc/zz-extra?refresh=true", "application/json", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if res, r := verified(t, dir, args); res.Code != 8 || r.Indices[0].Counts[verify.ChangedSince] != 1 {
		t.Errorf("one document more: exit %d\n%s%s", res.Code, notEqual(r), res.Stderr)
	}
}

// opened are the searches that are open at a node.
type opened struct {
	Points  int64 `json:"point_in_time_current"`
	Scrolls int64 `json:"scroll_current"`
}

// nothingLeftOpen fails if more searches are open than before. It must be called while the indices exist: a node permanently counts
// searches that are open on an index when it is deleted.
func nothingLeftOpen(t *testing.T, n *cluster.Node, before opened) {
	t.Helper()
	var after opened
	for range 60 { // the node counts an ended one for a moment
		if after = openSearches(t, n); after.Points <= before.Points && after.Scrolls <= before.Scrolls {
			return
		}
		time.Sleep(500 * time.Millisecond)
	}
	t.Errorf("left open at the target: %+v, before it were %+v", after, before)
}

func openSearches(t *testing.T, n *cluster.Node) (all opened) {
	t.Helper()
	var open struct {
		Nodes map[string]struct{ Indices struct{ Search opened } }
	}
	must(t, n.JSON(t.Context(), "GET", "/_nodes/stats/indices/search", nil, &open))
	for _, node := range open.Nodes {
		all.Points += node.Indices.Search.Points
		all.Scrolls += node.Indices.Search.Scrolls
	}
	return all
}

func TestVerifyAgreesWithOtherNamesRulesAndStreams(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, c := range []struct {
		name, repo string
		more       []string
	}{
		{"renamed", fixture(t, "7.10.2-demo"), []string{"--index-rename", "*=copy-of-$1"}},
		{"rules that filter, change and redirect", demo(t), []string{"--rules", writeRules(t, userRules)}},
		{"types in one index", fixture(t, "5.6.16-multi-type"), []string{"--multi-type", "union"}},
		{"data streams", fixture(t, "os2.19.4-data-stream"), []string{"--data-streams", "create"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			withoutStreams(t, n)
			dir := t.TempDir()
			args := targetArgs(n.URL, c.repo, c.more...)
			if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
				t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
			}
			if res, r := verified(t, dir, args); res.Code != 0 || len(r.Indices) == 0 {
				t.Errorf("exit %d\n%s%s", res.Code, notEqual(r), res.Stderr)
			}
		})
	}
}

// TestVerifyNamesWhatWasChanged changes documents on the target after a migration.
func TestVerifyNamesWhatWasChanged(t *testing.T) {
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			dir := t.TempDir()
			args := targetArgs(n.URL, fixture(t, "5.6.16-many-chunks"))
			if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
				t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
			}
			if res, r := verified(t, dir, args, "--quick"); res.Code != 0 {
				t.Fatalf("quick: exit %d\n%s", res.Code, notEqual(r))
			}
			docs := landed(t, n)
			keys := make([]truth.Key, 0, len(docs))
			for k := range docs {
				if k.Routing == "" {
					keys = append(keys, k)
				}
			}
			slices.SortFunc(keys, func(a, b truth.Key) int { return strings.Compare(a.Index+" "+a.ID, b.Index+" "+b.ID) })
			put := func(k truth.Key, routing, source string) {
				t.Helper()
				path := "/" + k.Index + "/_doc/" + url.PathEscape(k.ID)
				if routing != "" {
					path += "?routing=" + url.QueryEscape(routing)
				}
				if _, err := n.Send(t.Context(), "PUT", path, "application/json", []byte(source)); err != nil {
					t.Fatal(err)
				}
			}
			remove := func(k truth.Key) {
				t.Helper()
				if _, err := n.Send(t.Context(), "DELETE", "/"+k.Index+"/_doc/"+url.PathEscape(k.ID), "", nil); err != nil {
					t.Fatal(err)
				}
			}
			open := func(k truth.Key) string { return strings.TrimPrefix(string(docs[k]), "{") }
			changed, form, gone, routed := keys[0], keys[1], keys[2], keys[3]
			put(changed, "", `{"zz_added":1,`+open(changed))
			put(form, "", ` {`+open(form)+` `)
			remove(gone)
			if res, r := verified(t, dir, args, "--quick"); res.Code != 8 || r.State != verify.Different {
				t.Errorf("quick, with one document less: exit %d\n%s", res.Code, notEqual(r))
			}
			extra := truth.Key{Index: keys[0].Index, ID: "zz-extra"}
			put(extra, "", `{}`)
			remove(routed)
			put(routed, "elsewhere", string(docs[routed]))

			strange := RunIn(t, dir, nil, "rfsd", append(append([]string{"verify"}, args[1:]...), "--session-name", "of-another-migration")...)
			if strange.Code != 1 || !strings.Contains(strange.Stderr, `holds no session "of-another-migration", only the one without a name`) {
				t.Errorf("a session that does not exist: exit %d: %s", strange.Code, strange.Stderr)
			}
			if res := RunIn(t, dir, nil, "rfsd", targetArgs(n.URL, demo(t), "--phases", "metadata", "--session-name", "of-another-migration")...); res.Code != 0 {
				t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
			}
			res, r := verified(t, dir, args, "--session-name", "of-another-migration") // it has no record of the end
			want := map[verify.Kind]string{verify.Changed: changed.ID, verify.SameValue: form.ID, verify.Missing: gone.ID, verify.Extra: extra.ID, verify.OtherRouting: routed.ID}
			got := map[verify.Kind]string{}
			for _, x := range r.Indices {
				for _, d := range x.Differences {
					got[d.Kind] += d.ID
					if d.Kind == verify.Changed && d.Path != "zz_added" {
						t.Errorf("path %q", d.Path)
					}
				}
			}
			if res.Code != 8 || fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("exit %d: %v, want %v\n%s", res.Code, got, want, res.Stderr)
			}
			_, r = verified(t, dir, args) // by the record of the session
			since := map[verify.Kind]string{}
			for _, x := range r.Indices {
				for _, d := range x.Differences {
					since[cmp.Or(d.Change, d.Kind)] += d.ID
					if (d.Kind == verify.ChangedSince) != (d.ID != gone.ID) {
						t.Errorf("%+v", d)
					}
				}
			}
			if fmt.Sprint(since) != fmt.Sprint(want) {
				t.Errorf("changed since: %v, want %v", since, want)
			}
			text := RunIn(t, dir, nil, "rfsd", append(append([]string{"verify"}, args[1:]...), "--output", "text")...)
			if text.Code != 8 || !strings.Contains(text.Stdout, fmt.Sprintf("missing: %q", gone.ID)) || !strings.Contains(text.Stdout, "result: different") {
				t.Errorf("exit %d: %s", text.Code, text.Stdout)
			}
			put(gone, "", string(docs[gone])) // what is left was all written since
			if res, r := verified(t, dir, args); res.Code != 0 || r.State != verify.Since {
				t.Errorf("exit %d, %s: %s", res.Code, r.State, notEqual(r))
			}
			call(t, n, "PUT", "/"+gone.Index+"/_mapping", map[string]any{"properties": map[string]any{"zz_more": map[string]any{"type": "keyword"}}})
			if res, r := verified(t, dir, args); res.Code != 0 || len(r.Indices[0].Fields) != 0 {
				t.Errorf("a further field: exit %d, %s: %s", res.Code, r.State, notEqual(r))
			}
			if res, r := verified(t, dir, args, "--strict"); res.Code != 8 || r.State != verify.Different {
				t.Errorf("strict: exit %d, %s: %s", res.Code, r.State, notEqual(r))
			}
			if dir := os.Getenv("RFSD_KEEP"); dir != "" {
				must(t, os.WriteFile(filepath.Join(dir, "verify-"+version+".txt"), []byte(text.Stdout), 0o600))
			}
		})
	}
}

// TestVerifyExplainsFailedDocuments migrates into a strict mapping: what it refused is in the account.
func TestVerifyExplainsFailedDocuments(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	index := demoIndex(t)
	if _, err := n.Send(t.Context(), "PUT", "/"+index, "application/json", []byte(`{"mappings":{"dynamic":"strict"}}`)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	args := targetArgs(n.URL, demo(t), "--index-allowlist", index, "--max-failed-documents", "unlimited")
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 6 {
		t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
	}
	res, r := verified(t, dir, args)
	if res.Code != 6 || len(r.Indices) != 1 || r.Indices[0].Failed == 0 || r.Indices[0].FailedThere != 0 || r.Indices[0].SourceDocuments != r.Indices[0].Failed+r.Indices[0].SourceSide.Documents {
		t.Errorf("exit %d: %s", res.Code, notEqual(r))
	}
	if res, r := verified(t, dir, args, "--quick"); res.Code != 6 || r.State != verify.FailedDocuments {
		t.Errorf("quick: exit %d: %s", res.Code, notEqual(r))
	}
	if res, r := verified(t, dir, args, "--failed-documents", t.TempDir()); res.Code != 8 || r.Indices[0].Counts[verify.Missing] == 0 || !strings.Contains(fmt.Sprint(r.Warnings), "name that place") {
		t.Errorf("without the account: exit %d: %s", res.Code, notEqual(r))
	}
}

// TestMigrateVerifiesAtItsEnd migrates into an index that holds a document of its own.
func TestMigrateVerifiesAtItsEnd(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	index := demoIndex(t)
	for _, c := range []struct {
		name  string
		there bool
		code  int
		state verify.State
	}{{"equal", false, 0, verify.Equal}, {"a document that was there before", true, 8, verify.Different}} {
		t.Run(c.name, func(t *testing.T) {
			wipe(t, n)
			if c.there {
				if _, err := n.Send(t.Context(), "PUT", "/"+index+"/_doc/zz-extra", "application/json", []byte(`{}`)); err != nil {
					t.Fatal(err)
				}
			}
			res := RunIn(t, t.TempDir(), nil, "rfsd", targetArgs(n.URL, demo(t), "--index-allowlist", index, "--verify", "--existing-documents", "overwrite")...)
			var sum struct{ Verification *verify.Report }
			must(t, outputtest.Decode(res.Stdout, &sum))
			if res.Code != c.code || sum.Verification == nil || sum.Verification.State != c.state {
				t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			}
		})
	}
}

// TestAVerificationThatWasKilledIsRepeated kills a migration with --verify while it reads the target. The next run verifies
// again, and sends nothing.
func TestAVerificationThatWasKilledIsRepeated(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	k := newKiller(t, n)
	state := filepath.Join(t.TempDir(), "state.db")
	args := targetArgs(k.URL, demo(t), "--verify", "--coordinator-file", state)
	index := demoIndex(t)
	k.run(t, "POST /"+index+"/_search/point_in_time", 1, true, "rfsd", args...)

	front := newProxy(t, n.URL, 0)
	args = targetArgs(front.URL, demo(t), "--verify", "--coordinator-file", state)
	res := RunIn(t, t.TempDir(), nil, "rfsd", args...)
	var sum struct {
		Items   int `json:"items_run"`
		Indices []struct {
			Index   string
			Live    int64
			Indexed int64
			Arrival *struct{ Expected, Found, Lucene int64 }
		}
		Verification *verify.Report
	}
	must(t, outputtest.Decode(res.Stdout, &sum))
	if res.Code != 0 || sum.Verification == nil || sum.Verification.State != verify.Equal {
		t.Fatalf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	if sum.Items != 0 || front.bulks.Load() != 0 {
		t.Errorf("%d items were run again, with %d bulk requests", sum.Items, front.bulks.Load())
	}
	for _, x := range sum.Indices {
		if a := x.Arrival; a == nil || a.Found != x.Indexed || a.Lucene < a.Found || x.Live != x.Indexed {
			t.Errorf("%s: %+v of %d", x.Index, a, x.Indexed)
		}
	}
}

// TestAnotherMachineTakesOverAComparison kills a comparison while it reads a shard of the target. A process that knows only the leases of
// the first one continues after their expiry.
func TestAnotherMachineTakesOverAComparison(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	k := newKiller(t, n)
	args := targetArgs(n.URL, demo(t))
	if res := RunIn(t, t.TempDir(), nil, "rfsd", args...); res.Code != 0 {
		t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
	}
	_, want := verified(t, t.TempDir(), args)
	const lease, last = 6 * time.Second, "catalogue" // the fewest documents
	more := []string{"verify", "--slots", "1", "--initial-lease-duration", lease.String(), "--failed-documents", filepath.Join(t.TempDir(), "none")}
	k.run(t, "POST /"+last+"/_search/point_in_time", 1, true, "rfsd", append(slices.Clone(more), targetArgs(k.URL, demo(t))[1:]...)...)
	died := time.Now()
	res := RunIn(t, t.TempDir(), nil, "rfsd", append(more, args[1:]...)...)
	r, err := verifytest.Unseal([]byte(res.Stdout))
	if err != nil || res.Code != 0 || indicesOf(t, r) != indicesOf(t, want) {
		t.Errorf("exit %d: %v\n%s", res.Code, err, res.Stderr)
	}
	took := time.Since(died)
	if was := doneBefore(t, res); was == 0 || took < lease/2 || took > timing.DefaultInitialLease/2 {
		t.Errorf("%d items were done before, the end came %v after the death\n%s", was, took, res.Stderr)
	}
}

// TestAComparisonWithoutAPlaceAtTheTarget: a target that does not let the index of the comparison's items be created is compared by
// each process on its own.
func TestAComparisonWithoutAPlaceAtTheTarget(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	args := targetArgs(n.URL, demo(t))
	if res := RunIn(t, dir, nil, "rfsd", args...); res.Code != 0 {
		t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
	}
	var refused atomic.Int64
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Count(r.URL.Path, "/") == 1 && strings.HasPrefix(r.URL.Path, "/.") {
			refused.Add(1)
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprint(w, `{"error":{"type":"security_exception","reason":"no permissions for [indices:admin/create]"},"status":403}`)
			return
		}
		forward(w, r, n.URL)
	}))
	defer front.Close()
	res, r := verified(t, dir, targetArgs(front.URL, demo(t)))
	if res.Code != 0 || len(r.Indices) == 0 || refused.Load() == 0 || !strings.Contains(res.Stderr, "this process compares by itself") || !strings.Contains(res.Stderr, "no permissions for [indices:admin/create]") {
		t.Errorf("exit %d, %d requests refused\n%s%s", res.Code, refused.Load(), notEqual(r), res.Stderr)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "state", "rfsd", "verify-*")); err != nil || len(left) > 0 {
		t.Errorf("%v, left behind: %v", err, left)
	}
}

// TestANodeComparesAtItsEnd runs a node to its end, loses a document of the target, and runs it again.
func TestANodeComparesAtItsEnd(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir := t.TempDir()
	args := append([]string{"run", "--exit-when-done", "--verify", "--workers", "2", "--socket", "off", "--status-socket", "off"}, targetArgs(n.URL, demo(t))[1:]...)
	ends := func(code int, state verify.State) {
		t.Helper()
		res := RunIn(t, dir, nil, "rfsd", args...)
		r, err := verifytest.Unseal([]byte(res.Stdout))
		if err != nil || res.Code != code || r.State != state || len(r.Indices) == 0 {
			t.Errorf("exit %d, want %d: %v\n%.3000s%s", res.Code, code, err, res.Stdout, res.Stderr)
		}
	}
	ends(0, verify.Equal)
	var found struct {
		Hits struct {
			Hits []struct {
				ID      string `json:"_id"`
				Routing string `json:"_routing"`
			}
		}
	}
	index := demoIndex(t)
	must(t, n.JSON(t.Context(), "GET", "/"+index+"/_search?size=1", nil, &found))
	call(t, n, "DELETE", "/"+index+"/_doc/"+url.PathEscape(found.Hits.Hits[0].ID)+"?refresh=true&routing="+url.QueryEscape(cmp.Or(found.Hits.Hits[0].Routing, found.Hits.Hits[0].ID)), nil)
	ends(8, verify.Different)
	if res := RunIn(t, dir, nil, "rfsd", "run", "--verify", "--repo-uri", demo(t), "--snapshot-name", "snap1", "--target-host", n.URL); res.Code != 1 || !strings.Contains(res.Stderr, "--exit-when-done") {
		t.Errorf("a node that does not end: exit %d: %s", res.Code, res.Stderr)
	}
}
