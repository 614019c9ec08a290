package e2e

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/migration/preflight"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestEvaluateReportsWhatAnExistingTargetWouldSpoil evaluates a migration to a node on which the index of the snapshot exists
// with other types, strict and blocked, and one on which applications read by the alias of the snapshot already.
func TestEvaluateReportsWhatAnExistingTargetWouldSpoil(t *testing.T) {
	for _, version := range draw.Of(t, 1, targets) {
		t.Run(version, func(t *testing.T) {
			n := cluster.OpenSearch(t, version)
			wipe(t, n)
			args := targetArgs(n.URL, demo(t), "--index-allowlist", "orders")
			var warnings []string
			evaluated := func(code int, more ...string) (preflight.Object, []string) {
				t.Helper()
				res := Run(t, "rfsd", slices.Concat([]string{"plan", "--only", "changes"}, args[1:], more)...)
				var r preflight.Report
				defer func() { warnings = r.Warnings }()
				if err := outputtest.Decode(res.Stdout, &r); err != nil || res.Code != code || len(r.Indices) != 1 || len(r.Indices[0].Targets) != 1 {
					t.Fatalf("exit %d, want %d: %v\n%s%s", res.Code, code, err, res.Stdout, res.Stderr)
				}
				return r.Indices[0].Targets[0], r.Stops
			}
			changes := func(o preflight.Object) (all []string) {
				for _, d := range o.Changes {
					all = append(all, d.Path+": "+d.Detail)
				}
				return all
			}
			contains := func(all []string, words ...string) bool {
				return slices.ContainsFunc(all, func(s string) bool {
					return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s, w) })
				})
			}

			if o, stops := evaluated(0); o.Action != preflight.WouldCreate || len(stops) > 0 {
				t.Errorf("an empty target: %+v, stops %q", o, stops)
			}
			if res := Run(t, "rfsd", args...); res.Code != 0 {
				t.Fatalf("migrate: exit %d: %s", res.Code, res.Stderr)
			}
			o, stops := evaluated(0, "--index-rename", "orders=new-orders", "--session-name", "renamed")
			if o.Action != preflight.WouldCreate || len(stops) > 0 || !contains(changes(o), "aliases.sales", "leads to orders already", "new-orders") {
				t.Errorf("an alias on the old and the renamed index: %+v, stops %q", o, stops)
			}
			if o, stops = evaluated(0); o.Action != preflight.WouldKeep || len(stops) > 0 || !contains(warnings, "the session default exists", "continues it") {
				t.Errorf("the session that migrated the index: %+v, stops %q, warnings %q", o, stops, warnings)
			}
			another := []string{"--session-name", "another"}
			o, stops = evaluated(7, another...)
			if o.Action != preflight.WouldKeep || o.Documents == 0 || contains(changes(o), "properties.") || contains(changes(o), "dynamic") || contains(changes(o), "aliases.") || !contains(stops, "orders (", "--existing-documents") {
				t.Errorf("the migrated index: %+v, stops %q", o, stops)
			}

			var found map[string]struct {
				Mappings struct {
					Properties map[string]json.RawMessage `json:"properties"`
				}
			}
			must(t, n.JSON(t.Context(), "GET", "/orders/_mapping", nil, &found))
			other := map[string]any{}
			for field := range found["orders"].Mappings.Properties {
				other[field] = map[string]any{"type": "binary"}
			}
			call(t, n, "DELETE", "/orders", nil)
			call(t, n, "PUT", "/orders", map[string]any{"settings": map[string]any{"index.blocks.write": true}, "mappings": map[string]any{"dynamic": "strict", "properties": other}})
			o, stops = evaluated(7, another...)
			if len(other) == 0 || !contains(stops, "orders", "index.blocks.write") || !contains(changes(o), "dynamic", "strict") {
				t.Errorf("a strict index that is blocked: %+v, stops %q", o, stops)
			}
			for field := range other {
				if !contains(changes(o), "properties."+field) {
					t.Errorf("the other type of %s is not reported: %q", field, changes(o))
				}
			}
		})
	}
}
