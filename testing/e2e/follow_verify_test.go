package e2e

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"testing"

	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
	"github.com/rfsd/rfsd/testing/truth"
)

// verifyChanged compares what the last round changed, and returns the report.
func verifyChanged(t *testing.T, dir, repo, url, session string, code int, more ...string) *verify.Report {
	t.Helper()
	args := []string{"verify", "--changed", "--repo-uri", repo, "--target-host", url, "--output", "json", "--session-name", session}
	r := RunIn(t, dir, nil, "rfsd", append(args, more...)...)
	if r.Code != code {
		t.Fatalf("exit %d, not %d: %s %s", r.Code, code, r.Stdout, r.Stderr)
	}
	var sealed struct{ Report verify.Report }
	must(t, outputtest.Decode(r.Stdout, &sealed))
	return &sealed.Report
}

// TestFollow_VerifyChanged compares what a round changed. Each difference that is made on the target afterwards is found, and nothing of
// documents that did not change.
func TestFollow_VerifyChanged(t *testing.T) {
	n := cluster.OpenSearch(t, targets[0])
	for _, name := range draw.Of(t, 1, []string{"7.10.2-history", "2.4.6-history", "os2.19.4-history"}) {
		t.Run(name, func(t *testing.T) {
			wipe(t, n)
			repo, dir := fixture(t, name), t.TempDir()
			round(t, dir, followArgs(n.URL, repo, "snap-1"))
			refusedWith(t, RunIn(t, dir, nil, "rfsd", "verify", "--changed", "--repo-uri", repo, "--target-host", n.URL, "--session-name", "chain"), "no round of session chain has arrived")
			round(t, dir, followArgs(n.URL, repo, "snap-3"))

			r := verifyChanged(t, dir, repo, n.URL, "chain", 0, "--strict")
			compared := map[string]int64{}
			for _, x := range r.Indices {
				compared[x.Target] = x.SourceDocuments
				if x.State != verify.Equal || x.SourceDocuments != x.TargetDocuments {
					t.Errorf("%+v", x)
				}
			}
			if want := map[string]int64{"again": 7, "grows": 12}; !maps.Equal(compared, want) || r.Since != "snap-1" || r.Snapshot != "snap-3" {
				t.Errorf("%v were compared, of %s since %s", compared, r.Snapshot, r.Since)
			}

			was, err := truth.Load(false, repo+".snap-1.ndjson.gz")
			must(t, err)
			is, err := truth.Load(false, repo+".snap-3.ndjson.gz")
			must(t, err)
			var changed, same []truth.Key
			var deleted truth.Key
			for k, source := range was {
				switch now, there := is[k]; {
				case k.Index != "grows":
				case !there:
					deleted = k
				case bytes.Equal(source, now):
					same = append(same, k)
				default:
					changed = append(changed, k)
				}
			}
			at := func(k truth.Key) string {
				path := "/" + k.Index + "/_doc/" + url.PathEscape(k.ID) + "?refresh=true"
				if k.Routing != "" {
					path += "&routing=" + url.QueryEscape(k.Routing)
				}
				return path
			}
			call(t, n, "PUT", at(changed[0]), map[string]any{"theirs": true})
			call(t, n, "DELETE", at(changed[1]), nil)
			call(t, n, "PUT", at(deleted), map[string]any{"theirs": true})
			call(t, n, "DELETE", at(same[0]), nil) // it did not change: the round says nothing of it
			r = verifyChanged(t, dir, repo, n.URL, "chain", 8)
			found := map[string]verify.Kind{}
			for _, x := range r.Indices {
				for _, d := range x.Differences {
					found[d.ID] = d.Kind
				}
			}
			if want := map[string]verify.Kind{changed[0].ID: verify.ChangedSince, changed[1].ID: verify.Missing, deleted.ID: verify.ChangedSince}; !maps.Equal(found, want) {
				t.Errorf("found %v, want %v", found, want)
			}
			refusedWith(t, RunIn(t, dir, nil, "rfsd", "verify", "--changed", "--repo-uri", repo, "--snapshot-name", "snap-3", "--target-host", n.URL, "--session-name", "chain"), "leave --snapshot-name out")
			refusedWith(t, RunIn(t, dir, nil, "rfsd", "verify", "--changed", "--quick", "--repo-uri", repo, "--target-host", n.URL, "--session-name", "chain"), "exclude each other")
		})
	}
}

// TestFollow_VerifyTakesFailuresOfAllRounds: a document that failed in a round explains a difference from the last snapshot, unless a later
// round has sent it again.
func TestFollow_VerifyTakesFailuresOfAllRounds(t *testing.T) {
	source, n := cluster.Elasticsearch(t, "7.10.2"), cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	dir, args := t.TempDir(), followLive(source, "fails", n.URL, "fails-*")
	t.Cleanup(func() {
		_, _ = source.Send(context.WithoutCancel(t.Context()), http.MethodDelete, "/fails-*", "", nil)
	})
	put := func(v int, ids ...string) {
		for _, id := range ids {
			call(t, source, "PUT", "/fails-a/_doc/"+id+"?refresh=true", map[string]any{"v": v})
		}
	}
	pipeline := func(name any) { call(t, n, "PUT", "/fails-a/_settings", map[string]any{"index.final_pipeline": name}) }
	call(t, n, "PUT", "/_ingest/pipeline/refuses", map[string]any{"processors": []any{map[string]any{"fail": map[string]any{"message": "no"}}}})
	put(0, "still", "changed")
	round(t, dir, args)
	fails := func() string {
		t.Helper()
		r := RunIn(t, dir, nil, "rfsd", args...)
		if r.Code != 6 {
			t.Fatalf("exit %d: %s %s", r.Code, r.Stdout, r.Stderr)
		}
		return parseSummary(t, r).Round.Snapshot
	}
	pipeline("refuses")
	put(1, "changed", "superseded", "lacks", "deleted")
	fails()
	pipeline(nil)
	put(2, "superseded", "changed")
	call(t, source, "DELETE", "/fails-a/_doc/deleted?refresh=true", nil)
	round(t, dir, args)
	pipeline("refuses")
	put(3, "changed", "new")
	last := fails()
	pipeline(nil)
	compare := func(code int, failed int64, want map[string]verify.Kind) {
		t.Helper()
		r := RunIn(t, dir, nil, "rfsd", "verify", "--repo-uri", args[3], "--snapshot-name", last, "--index-allowlist", "fails-*", "--target-host", n.URL, "--output", "json", "--session-name", "fails")
		var sealed struct{ Report verify.Report }
		if r.Code != code || outputtest.Decode(r.Stdout, &sealed) != nil || len(sealed.Report.Indices) != 1 {
			t.Fatalf("exit %d, not %d: %s %s", r.Code, code, r.Stdout, r.Stderr)
		}
		x, found := sealed.Report.Indices[0], map[string]verify.Kind{}
		for _, d := range x.Differences {
			found[d.ID] = d.Kind
		}
		if x.Failed != failed || !maps.Equal(found, want) {
			t.Errorf("%d failed, differences %v, want %v: %+v", x.Failed, found, want, x)
		}
	}
	compare(6, 3, nil) // lacks, changed and new
	call(t, n, "DELETE", "/fails-a/_doc/superseded?refresh=true", nil)
	call(t, n, "PUT", "/fails-a/_doc/deleted?refresh=true", map[string]any{"v": 1})
	compare(8, 3, map[string]verify.Kind{"superseded": verify.Missing, "deleted": verify.ChangedSince})
	for round := range 4 { // where redrive has delivered them, nothing is explained any more
		if r := RunIn(t, dir, nil, "rfsd", "redrive", "--repo-uri", args[3], "--target-host", n.URL, "--session-name", fmt.Sprintf("fails-round-%d", round)); round%2 == 1 && r.Code != 0 {
			t.Errorf("redrive of round %d: exit %d: %s %s", round, r.Code, r.Stdout, r.Stderr)
		}
	}
	compare(8, 0, map[string]verify.Kind{"superseded": verify.Missing, "deleted": verify.Extra})
}
