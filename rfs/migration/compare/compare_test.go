package compare_test

import (
	"bytes"
	"context"
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
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// unchanged edits nothing.
type unchanged struct{}

func (unchanged) Forget() {}

func (unchanged) Edit(*doc.Document, int64) (bool, error) { return true, nil }

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
			return unchanged{}
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
		held  verify.Content
		units []string
		logs  string
		fails error
	}{
		{name: "nothing", on: replies{}, held: verify.Content{Absent: true}},
		{name: "a pattern of nothing", on: replies{"GET /a": `{}`}, held: verify.Content{Absent: true}},
		{
			name: "an index", on: replies{"GET /a": "{" + index("a", "2", "{}") + "}", "POST /a/_refresh": refresh, "GET /a/_count": count},
			held: verify.Content{Documents: 12}, units: []string{"target index a/0", "target index a/1"},
		},
		{
			name:  "an alias of two that store no sources",
			on:    replies{"GET /a": "{" + index("c", "1", `{"_source":{"enabled":false}}`) + "," + index("b", "1", `{"_source":{"enabled":false}}`) + "}", "POST /a/_refresh": refresh, "GET /a/_count": count},
			held:  verify.Content{Documents: 12, NotComparable: "_source is disabled"},
			units: []string{"target index b/0", "target index c/0"},
		},
		{
			name: "one that may not be refreshed", on: replies{"GET /a": "{" + index("a", "1", "{}") + "}", "POST /a/_refresh": "403", "GET /a/_count": count},
			held: verify.Content{Documents: 12}, units: []string{"target index a/0"}, logs: "the last second may be missing",
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
			held, err := on.Content(t.Context(), "a")
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
	held, err := c.Content(t.Context(), "a")
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
