package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// indices is a target that remembers what was created, by name.
type indices struct {
	bodies  map[string]string
	typed   map[string]string
	final   map[string]string
	aliases map[string]string
	refuse  error
	unfit   map[string]string
	hide    error // what the settings of indices are refused with
}

func (x *indices) IndexExists(_ context.Context, name string) (bool, error) {
	_, ok := x.bodies[name]
	return ok, nil
}

func (x *indices) CreateIndex(_ context.Context, name string, body []byte) error {
	if x.refuse != nil {
		return x.refuse
	}
	x.bodies[name] = string(body)
	return nil
}

func (x *indices) CreateTypedIndex(ctx context.Context, name, typ string, body []byte) error {
	x.typed[name] = typ
	return x.CreateIndex(ctx, name, body)
}

func (x *indices) UnfitAliases(_ context.Context, names []string) (map[string]string, error) {
	found := map[string]string{}
	for _, n := range names {
		if why, ok := x.unfit[n]; ok {
			found[n] = why
		}
	}
	return found, x.hide
}

func (*indices) PipelineEffects(context.Context, string) ([]string, error) {
	return []string{"drop drops documents"}, nil
}
func (x *indices) FinalPipelines(_ context.Context, names []string) (map[string]string, error) {
	if x.hide != nil {
		return nil, x.hide
	}
	found := map[string]string{}
	for _, n := range names {
		if p, ok := x.final[n]; ok {
			found[n] = p
		}
	}
	return found, nil
}

func (x *indices) SetAliases(_ context.Context, index string, aliases json.RawMessage) error {
	x.aliases[index] = string(aliases)
	return nil
}

// prepare checks a plan and creates all its indices.
func prepare(ctx context.Context, on *indices, v target.Version, plan *plan.Plan, log *slog.Logger) error {
	c := &TargetIndices{Cluster: on, Version: v, Log: log}
	if err := c.Check(ctx, plan); err != nil {
		return err
	}
	for _, x := range plan.Indices {
		if _, err := c.Make(ctx, x); err != nil {
			return err
		}
	}
	return nil
}

func newIndices() *indices {
	return &indices{bodies: map[string]string{}, typed: map[string]string{}, aliases: map[string]string{}, final: map[string]string{}}
}

// twoTypes is an index in which documents of the given types exist.
func twoTypes(n plan.Naming) *plan.Plan {
	n.Index = "blog"
	return &plan.Plan{Indices: []plan.Index{{Name: "blog", Entry: plan.Entry{Naming: n}, Source: &snapshot.Index{
		Name: "blog", Settings: map[string]string{"index.number_of_shards": "2", "index.uuid": "u"},
		Mappings: []snapshot.Mapping{
			{Type: "post", Body: json.RawMessage(`{"properties":{"title":{"type":"text"}}}`)},
			{Type: "user", Body: json.RawMessage(`{"properties":{"name":{"type":"keyword"}}}`)},
		},
		Aliases: json.RawMessage(`{"all":{}}`),
	}}}}
}

var opensearch2 = target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

func TestEveryTargetIndexGetsTheMappingOfTheDocumentsThatLandInIt(t *testing.T) {
	for _, c := range []struct {
		name   string
		naming plan.Naming
		want   map[string][]string // index → words in its body; those after "!" are not in it
	}{
		{"split", plan.Naming{Types: []string{"post", "user"}, Multi: plan.SplitTypes},
			map[string][]string{"blog_post": {"title", "!name\"", "!all"}, "blog_user": {"name\"", "!title", "!all"}}},
		{"union", plan.Naming{Types: []string{"post", "user"}, Multi: plan.UnionTypes},
			map[string][]string{"blog": {"title", "name\"", `"all":{}`, `"index.number_of_shards":"2"`, "!uuid"}}},
		{"one type has documents", plan.Naming{Types: []string{"user"}},
			map[string][]string{"blog": {"name\"", "!title", `"all":{}`}}},
		{"a type that is not mapped", plan.Naming{Types: []string{"ghost"}},
			map[string][]string{"blog": {"!mappings", `"all":{}`}}},
		{"no documents", plan.Naming{}, map[string][]string{"blog": {"title", "name\""}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := newIndices()
			if err := prepare(t.Context(), on, opensearch2, twoTypes(c.naming), quiet()); err != nil {
				t.Fatal(err)
			}
			if len(on.bodies) != len(c.want) {
				t.Errorf("created %v", on.bodies)
			}
			for index, words := range c.want {
				for _, w := range words {
					word, not := strings.CutPrefix(w, "!")
					if strings.Contains(on.bodies[index], word) == not {
						t.Errorf("%s: %s; want %s", index, on.bodies[index], w)
					}
				}
			}
		})
	}
}

func TestWhatExistsIsLeftAsItIsAndARepetitionChangesNothing(t *testing.T) {
	on := newIndices()
	on.bodies["blog"] = "made by hand"
	for range 2 {
		if err := prepare(t.Context(), on, opensearch2, twoTypes(plan.Naming{}), quiet()); err != nil {
			t.Fatal(err)
		}
	}
	if on.bodies["blog"] != "made by hand" || len(on.bodies) != 1 {
		t.Errorf("%v", on.bodies)
	}
}

func TestMappingTypesAreEmittedOnlyWhereTheTargetTakesThem(t *testing.T) {
	emit := plan.Naming{Types: []string{"post"}, Emit: true}
	err := prepare(t.Context(), newIndices(), opensearch2, twoTypes(emit), quiet())
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "opensearch 2.19.4") {
		t.Errorf("%v", err)
	}
	on := newIndices()
	if err := prepare(t.Context(), on, target.Version{Distribution: "elasticsearch", Number: "7.10.2", Major: 7, Minor: 10}, twoTypes(emit), quiet()); err != nil {
		t.Fatal(err)
	}
	if on.typed["blog"] != "post" {
		t.Errorf("typed indices %v", on.typed)
	}
}

func TestARefusalNamesTheIndexAndKeepsTheTargetsWords(t *testing.T) {
	on := newIndices()
	on.refuse = fmt.Errorf("must be lowercase: %w", fault.ErrRejected)
	err := prepare(t.Context(), on, opensearch2, twoTypes(plan.Naming{Types: []string{"post", "user"}, Multi: plan.SplitTypes}), quiet())
	for _, word := range []string{"blog_post", "must be lowercase", "--multi-type union"} {
		if !errors.Is(err, fault.ErrRejected) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v; want %s", err, word)
		}
	}
}

func TestFinalPipelinesAndDifferencesAreTold(t *testing.T) {
	on := newIndices()
	on.final["blog"] = "spoil"
	plan := twoTypes(plan.Naming{Types: []string{"post"}})
	plan.Indices[0].Source.Mappings[0].Body = json.RawMessage(`{"properties":{"a":{"type":"string"},"b":{"type":"string"},"v":{"type":"dense_vector"}}}`)
	var out bytes.Buffer
	if err := prepare(t.Context(), on, opensearch2, plan, slog.New(slog.NewJSONHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"pipeline":"spoil","effects":"drop drops documents"`, `"changes":2`, `"level":"INFO","msg":"index differs from the snapshot","index":"blog","rule":"string-to-text"`, `"level":"WARN","msg":"index differs from the snapshot","index":"blog","rule":"dense-vector"`, `"msg":"index created","index":"blog"`} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("log lacks %s: %s", word, out.String())
		}
	}
}

func TestNamesThatAreUnfitAliasesAreRefusedAtOnce(t *testing.T) {
	on := newIndices()
	on.unfit = map[string]string{"blog": "blog is an alias of 2 indices"}
	err := prepare(t.Context(), on, opensearch2, twoTypes(plan.Naming{}), quiet())
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(fault.Text(err), "blog is an alias of 2 indices") || len(on.bodies) > 0 {
		t.Errorf("%v, created %v", err, on.bodies)
	}
}

func TestAMissingPermissionForAWarningStopsNothing(t *testing.T) {
	on := newIndices()
	on.hide = fmt.Errorf("no permissions for [indices:monitor/settings/get]: %w", fault.ErrConfig)
	var out bytes.Buffer
	if err := prepare(t.Context(), on, opensearch2, twoTypes(plan.Naming{}), slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "settings/get") {
		t.Errorf("log %s", out.String())
	}
	on.hide = fault.ErrUnavailable
	if err := prepare(t.Context(), on, opensearch2, twoTypes(plan.Naming{}), quiet()); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
