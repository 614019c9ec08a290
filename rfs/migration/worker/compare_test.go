package worker

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/creationtest"
	"github.com/rfsd/rfsd/testing/migrationtest"
)

func TestWhatSharesATargetIsComparedTogether(t *testing.T) {
	index := func(name, to string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: to}, Shards: 2}}
	}
	all := []plan.Index{index("a", "x"), index("b", "y"), index("c", "x"), index("d", "z")}
	redirects := func(name string) []string {
		if name == "d" {
			return []string{"y", "x"}
		}
		return nil
	}
	edit := func(name string) shards.DocumentEditor {
		if name == "b" {
			return deadlyAt{}
		}
		return nil
	}
	for _, c := range []struct {
		name string
		side compare.Comparison
		plan []plan.Index
		want []string // targets < sources: units; why they are not counted
	}{
		{"indices of their own", compare.Comparison{}, all[:2], []string{"x < a: a/0 a/1;", "y < b: b/0 b/1;"}},
		{"one index of two", compare.Comparison{}, all[:3], []string{"y < b: b/0 b/1;", "x < a,c: a/0 a/1 c/0 c/1;several"}},
		{"rules that redirect into all", compare.Comparison{Redirects: redirects}, all, []string{"x,y,z < a,c,b,d: a/0 a/1 c/0 c/1 b/0 b/1 d/0 d/1;several"}},
		{"what reaches others by way of a third", compare.Comparison{Redirects: func(name string) []string { return map[string][]string{"a": {"y"}}[name] }}, []plan.Index{all[0], all[2], all[1]}, []string{"x,y < a,c,b: a/0 a/1 c/0 c/1 b/0 b/1;several"}},
		{"rules that leave out", compare.Comparison{Edit: edit}, all[:2], []string{"x < a: a/0 a/1;", "y < b: b/0 b/1;rules"}},
		{"rules that leave out where others arrive", compare.Comparison{Edit: edit, Redirects: redirects}, []plan.Index{all[1], all[3]}, []string{"x,y,z < b,d: b/0 b/1 d/0 d/1;rules"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			groups := c.side.Groups(&plan.Plan{Indices: c.plan})
			if len(groups) != len(c.want) {
				t.Fatalf("%d groups, want %q", len(groups), c.want)
			}
			for i, g := range groups {
				var units []string
				for _, u := range g.Units {
					units = append(units, u.Name)
				}
				why, _, _ := strings.Cut(g.Uncounted, " ")
				if got := strings.Join(g.Targets, ",") + " < " + strings.Join(g.Sources, ",") + ": " + strings.Join(units, " ") + ";" + why; got != c.want[i] {
					t.Errorf("%s, want %s", got, c.want[i])
				}
			}
		})
	}
}

// picky leaves out every third document and cannot read every fifth.
type picky struct{}

func (picky) Forget() {}

func (picky) Edit(d *doc.Document, _ int64) (bool, error) {
	if d.Ordinal%5 == 4 {
		return false, errors.New("no object")
	}
	return d.Ordinal%3 != 2, nil
}

// TestAVerificationReadsWhatAMigrationSends compares the fates of all documents with those of a run.
func TestAVerificationReadsWhatAMigrationSends(t *testing.T) {
	repository := filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo")
	blobs, err := repo.NewDir(repository)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "snap1", IncludeSystem: true, MultiType: plan.SplitTypes, EmitType: plan.EmitAuto})
	if err != nil {
		t.Fatal(err)
	}
	edit := func(string) shards.DocumentEditor { return picky{} }
	sent := &migrationtest.Sink{Docs: map[string][32]byte{}}
	sum, err := runTo(t.Context(), t, t.TempDir(), repository, "run.db", sent, edit)
	if err != nil {
		t.Fatal(err)
	}
	arrived := map[string][32]byte{}
	for line, digest := range sent.Docs {
		var action struct {
			Index struct {
				Index   string `json:"_index"`
				ID      string `json:"_id"`
				Routing string `json:"routing"`
			} `json:"index"`
		}
		if err := json.Unmarshal([]byte(line), &action); err != nil {
			t.Fatal(err)
		}
		arrived[action.Index.Index+"/"+action.Index.ID+"/"+action.Index.Routing] = digest
	}
	var live, filtered, unsent int64
	for _, g := range (compare.Comparison{Repo: blobs, Edit: edit}).Groups(plan) {
		for _, u := range g.Units {
			n, err := u.Count(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			live += n
			shard, at := -1, int64(-1)
			err = u.Read(t.Context(), 0, func(d *verify.Document) error {
				if want := fmt.Sprintf("%s/%d", g.Sources[0], d.Shard); want != u.Name || d.Ordinal <= at || len(d.ID) == 0 || !slices.Contains(g.Targets, string(d.Index)) {
					t.Errorf("%s: document %+v after %d", u.Name, d, at)
				}
				shard, at = d.Shard, d.Ordinal
				key := string(d.Index) + "/" + string(d.ID) + "/" + string(d.Routing)
				switch d.Fate {
				case verify.Sent:
					if got, ok := arrived[key]; !ok || got != sha256.Sum256(d.Source) {
						t.Errorf("%s is not what was sent", key)
					}
					delete(arrived, key)
				case verify.Filtered:
					filtered++
				case verify.Unsent:
					if d.Reason != string(doc.BadSource) {
						t.Errorf("%s: reason %q", key, d.Reason)
					}
					unsent++
				}
				return nil
			})
			if err != nil || shard < 0 && n > 0 {
				t.Errorf("%s: %v", u.Name, err)
			}
		}
	}
	if len(arrived) != 0 {
		t.Errorf("%d documents were sent and are not read", len(arrived))
	}
	if filtered == 0 || filtered != sum.Totals.Filtered || unsent == 0 || live == 0 || live < int64(len(sent.Docs))+filtered+unsent {
		t.Errorf("live %d, filtered %d, unsent %d; the run: %+v", live, filtered, unsent, sum.Totals)
	}
	enough := errors.New("enough")
	u := compare.Comparison{Repo: blobs}.Groups(plan)[0].Units[0]
	if err := u.Read(t.Context(), 0, func(*verify.Document) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("a reader that ends it: %v", err)
	}
	gone := plan.Indices[0].Entry
	gone.Locator.IndexID = "gone"
	none := func(*doc.Document) error { return nil }
	if err := shards.Read(t.Context(), blobs, gone, 0, nil, shards.Documents{Send: none}); err == nil {
		t.Error("a shard that is missing was read")
	}
	if n, err := shards.Count(t.Context(), blobs, gone, 0); err == nil {
		t.Errorf("a shard that is missing has %d documents", n)
	}
}

// replies is a target that answers by method and path, "503" and the like without a body; all else is not found.
type replies map[string]string

func (r replies) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, ok := r[q.Method+" "+q.URL.Path]
	switch {
	case !ok:
		http.Error(w, `{"error":{"type":"index_not_found_exception","reason":"no such index"},"status":404}`, http.StatusNotFound)
	case len(body) == 3:
		var status int
		_, _ = fmt.Sscan(body, &status)
		w.WriteHeader(status)
	default:
		fmt.Fprint(w, body)
	}
}

func TestWhatATargetHoldsIsLookedAt(t *testing.T) {
	index := func(name, shards, mappings string) string {
		return fmt.Sprintf(`%q:{"settings":{"index.number_of_shards":%q,"index.max_result_window":"70"},"mappings":%s}`, name, shards, mappings)
	}
	const count, refresh = `{"count":12,"_shards":{"failed":0}}`, `{"_shards":{}}`
	for _, c := range []struct {
		name  string
		on    replies
		held  verify.Held
		units []string
		logs  string
		fails error
	}{
		{name: "nothing", on: replies{}, held: verify.Held{Absent: true}},
		{name: "a pattern of nothing", on: replies{"GET /a": `{}`}, held: verify.Held{Absent: true}},
		{
			name: "an index", on: replies{"GET /a": "{" + index("a", "2", "{}") + "}", "POST /a/_refresh": refresh, "GET /a/_count": count},
			held: verify.Held{Documents: 12}, units: []string{"target index a/0", "target index a/1"},
		},
		{
			name:  "an alias of two that store no sources",
			on:    replies{"GET /a": "{" + index("c", "1", `{"_source":{"enabled":false}}`) + "," + index("b", "1", `{"_source":{"enabled":false}}`) + "}", "POST /a/_refresh": refresh, "GET /a/_count": count},
			held:  verify.Held{Documents: 12, NotComparable: "_source is disabled"},
			units: []string{"target index b/0", "target index c/0"},
		},
		{
			name: "one that may not be refreshed", on: replies{"GET /a": "{" + index("a", "1", "{}") + "}", "POST /a/_refresh": "403", "GET /a/_count": count},
			held: verify.Held{Documents: 12}, units: []string{"target index a/0"}, logs: "the last second may be missing",
		},
		{name: "no answer", on: replies{"GET /a": "500"}, fails: fault.ErrUnavailable},
		{name: "no refresh", on: replies{"GET /a": "{" + index("a", "1", "{}") + "}", "POST /a/_refresh": "500", "GET /a/_count": count}, fails: fault.ErrUnavailable},
		{name: "no count", on: replies{"GET /a": "{" + index("a", "1", "{}") + "}", "POST /a/_refresh": refresh, "GET /a/_count": "500"}, fails: fault.ErrUnavailable},
		{name: "no shards", on: replies{"GET /a": "{" + index("a", "0", "{}") + "}", "POST /a/_refresh": refresh, "GET /a/_count": count}, fails: fault.ErrUnavailable},
		{name: "too many shards", on: replies{"GET /a": "{" + index("a", "65537", "{}") + "}", "POST /a/_refresh": refresh, "GET /a/_count": count}, fails: fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log bytes.Buffer
			on := comparedTarget(t, c.on, &log)
			held, err := on.Look(t.Context(), "a")
			if !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
				t.Fatalf("%v", err)
			}
			if !strings.Contains(log.String(), c.logs) || c.logs == "" && log.Len() > 0 {
				t.Errorf("log %q", log.String())
			}
			if c.fails != nil {
				return
			}
			var units []string
			for _, u := range held.Units {
				units = append(units, u.Name)
			}
			if held.Absent != c.held.Absent || held.Documents != c.held.Documents || held.NotComparable != c.held.NotComparable || !slices.Equal(units, c.units) {
				t.Errorf("%+v, units %q", held, units)
			}
		})
	}
}

func comparedTarget(t *testing.T, on http.Handler, log *bytes.Buffer) compare.Target {
	t.Helper()
	srv := httptest.NewServer(on)
	t.Cleanup(srv.Close)
	client, err := target.New(t.Context(), target.Config{URL: srv.URL})
	if err != nil {
		t.Fatal(err)
	}
	return compare.Target{Client: client, Log: slog.New(slog.NewTextHandler(log, nil))}
}

func TestATargetsDocumentsAreReadAndCounted(t *testing.T) {
	const page = `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[{"_index":"a","_id":"1","_routing":"r","_source":{"n":1}}]}}`
	on := replies{
		"HEAD /a": `{"a":{}}`, "GET /a": `{"a":{"settings":{"index.number_of_shards":"1"},"mappings":{}}}`, "POST /a/_refresh": `{}`, "GET /a/_count": `{"count":1}`,
		"GET /a/_stats/docs": `{"_shards":{"failed":0},"_all":{"primaries":{"docs":{"count":3}}}}`,
		"POST /a/_search":    page, "POST /_search/scroll": `{"_scroll_id":"s","_shards":{"failed":0},"hits":{"hits":[]}}`, "DELETE /_search/scroll": `{}`,
	}
	var log bytes.Buffer
	admitted := 0
	c := comparedTarget(t, on, &log)
	c.Admit = func(_ context.Context, n int) error { admitted += n; return nil }
	held, err := c.Look(t.Context(), "a")
	if err != nil || len(held.Units) != 1 {
		t.Fatalf("%+v, %v", held, err)
	}
	var got []string
	err = held.Units[0].Read(t.Context(), 0, func(d *verify.Document) error {
		got = append(got, fmt.Sprintf("%s %s %s", d.ID, d.Routing, d.Source))
		return nil
	})
	if err != nil || !slices.Equal(got, []string{`1 r {"n":1}`}) || admitted != len(page) {
		t.Errorf("%q, %d bytes, %v", got, admitted, err)
	}
	for _, x := range []struct {
		name    string
		changes replies
		n       int64
		there   bool
		fails   error
	}{
		{"an index", nil, 3, true, nil},
		{"one that may not be refreshed", replies{"POST /a/_refresh": "403"}, 3, true, nil},
		{"one that cannot be refreshed", replies{"POST /a/_refresh": "500"}, 0, true, fault.ErrUnavailable},
		{"one that does not count", replies{"GET /a/_stats/docs": "500"}, 0, true, fault.ErrUnavailable},
		{"one that is unknown to be there", replies{"HEAD /a": "500"}, 0, false, fault.ErrUnavailable},
		{"none", replies{"HEAD /a": "404"}, 0, false, nil},
	} {
		changed := replies{}
		for k, v := range on {
			changed[k] = v
		}
		for k, v := range x.changes {
			changed[k] = v
		}
		n, there, err := comparedTarget(t, changed, &log).Count(t.Context(), "a")
		if n != x.n || there != x.there || !errors.Is(err, x.fails) || (err != nil) != (x.fails != nil) {
			t.Errorf("%s: %d, %v, %v", x.name, n, there, err)
		}
	}
}

func TestAPlanIsLocatedAsTheMigrationFindsIt(t *testing.T) {
	const excludes = `{"_source":{"excludes":["secret"]}}`
	index := func(name, mappings string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: name}}, Source: &snapshot.Index{Name: name, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(mappings)}}}}
	}
	for _, c := range []struct {
		name      string
		on        migrationtest.Says
		x         plan.Index
		originals bool
		fails     error
	}{
		{"originals are sent where the target leaves out the same", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":` + excludes + `}}`}, index("a", excludes), true, nil},
		{"not where it leaves out other fields", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":{}}}`}, index("a", excludes), false, nil},
		{"nor where the target has no such index", migrationtest.Says{"/a/_mapping": `{"a":{"mappings":` + excludes + `}}`}, index("a", excludes), false, nil},
		{"nor of an index that leaves out nothing", migrationtest.Says{"/a": "", "/a/_mapping": `{"a":{"mappings":{}}}`}, index("a", `{}`), false, nil},
		{"a mapping that cannot be read is an error", migrationtest.Says{"/a": ""}, index("a", excludes), false, fault.ErrRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan := &plan.Plan{Indices: []plan.Index{c.x}}
			on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: c.on}}, Requester: c.on, Version: creationtest.OpenSearch2, Log: quiet()}
			if err := on.Locate(t.Context(), plan); !errors.Is(err, c.fails) || (err != nil) != (c.fails != nil) {
				t.Fatalf("%v", err)
			}
			if got := plan.Indices[0].Entry.Originals; got != c.originals {
				t.Errorf("originals are sent: %v", got)
			}
		})
	}
	for _, c := range []struct {
		name string
		on   migrationtest.Says
		want string
	}{
		{"backing indices keep their names", migrationtest.Says{}, ".ds-events-000001 .ds-events-000002"},
		{"and get others where a stream has the name", migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}, "ds-events-000001 ds-events-000002"},
	} {
		t.Run(c.name, func(t *testing.T) {
			plan, err := migrationtest.StreamPlan(t, plan.Request{})
			if err != nil {
				t.Fatal(err)
			}
			on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: c.on}}, Requester: c.on, Version: creationtest.OpenSearch2, Log: quiet()}
			if err := on.Locate(t.Context(), plan); err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, x := range plan.Indices {
				names = append(names, x.Entry.Naming.Index)
			}
			if got := strings.Join(names, " "); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
	taken, err := migrationtest.StreamPlan(t, plan.Request{})
	if err != nil {
		t.Fatal(err)
	}
	taken.Indices = append(taken.Indices, index("ds-events-000001", "{}"))
	says := migrationtest.Says{"/events": "", "/_data_stream/events": migrationtest.StreamThere}
	on := &creation.Indices{Cluster: objects.DryRunCluster{Target: migrationtest.Asker{Says: says}}, Requester: says, Version: creationtest.OpenSearch2, Log: quiet()}
	if err := on.Locate(t.Context(), taken); err == nil {
		t.Error("two indices of the snapshot have one target")
	}
	if taken, err = migrationtest.StreamPlan(t, plan.Request{}); err != nil {
		t.Fatal(err)
	}
	on.Requester = migrationtest.Unavailable{}
	if err := on.Locate(t.Context(), taken); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a target that does not tell its data streams: %v", err)
	}
	absent := &creation.Indices{Cluster: silent{creationtest.NewIndices()}, Log: quiet()}
	if err := absent.Locate(t.Context(), &plan.Plan{Indices: []plan.Index{index("a", "{}")}}); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a target that does not answer: %v", err)
	}
}

// TestAShardThatTheSnapshotLacksIsReported: a comparison goes on without it, as the migration does.
func TestAShardThatTheSnapshotLacksIsReported(t *testing.T) {
	blobs, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "6.8.23-partial"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := plan.New(t.Context(), blobs, plan.Request{SnapshotName: "partial", MultiType: plan.SplitTypes, EmitType: plan.EmitAuto, AllowPartial: true})
	if err != nil {
		t.Fatal(err)
	}
	lacking := 0
	for _, g := range (compare.Comparison{Repo: blobs}).Groups(plan) {
		for _, u := range g.Units {
			_, counted := u.Count(t.Context())
			read := u.Read(t.Context(), 0, func(*verify.Document) error { return nil })
			if counted == nil && read == nil {
				continue
			}
			lacking++
			for _, err := range []error{counted, read} {
				if !errors.Is(err, fault.ErrCorrupt) || !errors.Is(err, snapshot.ErrShardMissing) {
					t.Errorf("%s: %v", u.Name, err)
				}
			}
		}
	}
	if lacking != len(plan.Missing) || lacking == 0 {
		t.Errorf("%d shards are lacking, the plan names %q", lacking, plan.Missing)
	}
}

// silent does not report which indices it has.
type silent struct{ *creationtest.Indices }

func (silent) IndexExists(context.Context, string) (bool, error) {
	return false, fault.ErrUnavailable
}
