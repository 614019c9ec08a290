package metadata

import (
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestBackingIndicesBecomeOrdinaryOnesBehindAnAliasIfItsNameIsFree(t *testing.T) {
	g := Globals{DataStreams: map[string][]string{"logs": {".ds-logs-1", ".ds-logs-2"}, "used": {".ds-used-1"}}}
	parts := StreamParts(g, func(name string) bool { return name == "used" })
	for name, want := range map[string]StreamPart{".ds-logs-1": {"logs", "logs", false}, ".ds-logs-2": {"logs", "logs", true}, ".ds-used-1": {"used", "", false}} {
		if parts[name] != want {
			t.Errorf("%s: %+v", name, parts[name])
		}
	}
	for name, want := range map[string]string{".ds-logs-1": `{"a":{},"logs":{"is_write_index":false}}`, ".ds-logs-2": `{"a":{},"logs":{"is_write_index":true}}`, ".ds-used-1": `{"a":{}}`} {
		x, err := parts[name].With(Index{Name: name, Aliases: []byte(`{"a":{}}`)})
		if err != nil || string(x.Aliases) != want {
			t.Errorf("%s: %s, %v", name, x.Aliases, err)
		}
	}
	if a, b := BackingName(".ds-x-1", true), BackingName(".ds-x-1", false); a != "ds-x-1" || b != ".ds-x-1" {
		t.Error(a, b)
	}
}

func shards(t *testing.T, s string) ShardRule {
	t.Helper()
	r, err := ParseShardRule(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func renamed(t *testing.T, s string) RenameRule {
	t.Helper()
	r, err := ParseRenameRule(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestWishesAboutIndicesAreObeyedAndToldOrRefused(t *testing.T) {
	n := 2
	o := Overrides{Replicas: &n, Shards: []ShardRule{shards(t, "logs-*=3"), shards(t, "*=9")}, Zones: 2, Rename: []RenameRule{renamed(t, `regex:logs-(.*)=old-$1`)}}
	done, err := ConvertIndex(os219, Wanted{Name: "old-1", Overrides: o, Index: Index{Name: "logs-1",
		Settings: map[string]string{"index.number_of_shards": "5", "index.number_of_routing_shards": "20", "index.number_of_replicas": "1", "index.auto_expand_replicas": "0-all"},
		Aliases:  []byte(`{"plain":{},"w":{"is_write_index":true},"f":{"filter":{"term":{"a":1}}}}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if got := string(done.Body); got != `{"aliases":{"plain":{}},"settings":{"index.number_of_replicas":"3","index.number_of_shards":"3"}}` {
		t.Errorf("%s", got)
	}
	if got := string(done.Late); got != `{"f":{"filter":{"term":{"a":1}}},"w":{"is_write_index":true}}` {
		t.Errorf("%s", got)
	}
	names, err := o.Names([]string{"logs-1", "x"})
	if err != nil || names["logs-1"] != "old-1" || names["x"] != "x" {
		t.Errorf("%v, %v", names, err)
	}
	if _, err := o.Names([]string{"logs-1", "old-1"}); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "logs-1 and old-1") {
		t.Errorf("collision: %v", err)
	}
	for _, bad := range []string{"", "=", "a=", "a=x", "a=0", "[=3", "a=1025"} {
		if _, err := ParseShardRule(bad); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("shards %q: %v", bad, err)
		}
	}
	for _, bad := range []string{"", "=", "a=", "(=b", "regex:(=b"} {
		if _, err := ParseRenameRule(bad); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("rename %q: %v", bad, err)
		}
	}
	r, err := ParseRenameRule(`a?=B$1`)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (Overrides{Rename: []RenameRule{r}}).Names([]string{"ax"}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("upper case: %v", err)
	}
}

func TestATemplateOfThePlanMakesAStreamUnlessAnotherCountsMore(t *testing.T) {
	plan := GlobalPlan{Objects: []Global{
		{Kind: ComponentTemplate, Name: "c", Body: []byte(`{"index_patterns":["plain"],"data_stream":{}}`)},
		{Kind: IndexTemplate, Name: "s", Body: []byte(`{"index_patterns":["logs-*"],"priority":1,"data_stream":{}}`)},
		{Kind: IndexTemplate, Name: "p", Body: []byte(`{"index_patterns":["logs-plain"],"priority":2}`)},
	}}
	for stream, want := range map[string]bool{"logs-a": true, "logs-plain": false, "plain": false} {
		if plan.MakesStream(stream) != want {
			t.Errorf("%s: %v", stream, !want)
		}
	}
}

func TestAnAliasOfSeveralIndicesIsSetForAllOfThemWhenDocumentsAreThere(t *testing.T) {
	early, late := splitAliases(map[string]any{"old": map[string]any{"is_write_index": false}, "new": map[string]any{"is_write_index": true}, "plain": map[string]any{}}, AliasesAuto)
	if len(early) != 1 || early["plain"] == nil || len(late) != 2 {
		t.Errorf("early %v, late %v", early, late)
	}
}

func TestATrialRunSetsNoAlias(t *testing.T) {
	if early, late := splitAliases(map[string]any{"live": map[string]any{}, "writes": map[string]any{"is_write_index": true}}, AliasesNone); len(early)+len(late) > 0 {
		t.Errorf("early %v, late %v", early, late)
	}
}
