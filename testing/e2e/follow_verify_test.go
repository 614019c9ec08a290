package e2e

import (
	"bytes"
	"maps"
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
