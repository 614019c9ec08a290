package creation_test

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
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/creationtest"
)

// prepare checks a plan and creates all its indices.
func prepare(ctx context.Context, on *creationtest.Indices, v target.Version, plan *plan.Plan, log *slog.Logger) error {
	c := &creation.Indices{Cluster: on, Version: v, Log: log}
	if err := c.Check(ctx, plan, nil); err != nil {
		return err
	}
	for _, x := range plan.Indices {
		if _, err := c.Make(ctx, x); err != nil {
			return err
		}
	}
	return nil
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
			on := creationtest.NewIndices()
			if err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(c.naming), slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			if len(on.Bodies) != len(c.want) {
				t.Errorf("created %v", on.Bodies)
			}
			for index, words := range c.want {
				for _, w := range words {
					word, not := strings.CutPrefix(w, "!")
					if strings.Contains(on.Bodies[index], word) == not {
						t.Errorf("%s: %s; want %s", index, on.Bodies[index], w)
					}
				}
			}
		})
	}
}

func TestWhatExistsIsLeftAsItIsAndARepetitionChangesNothing(t *testing.T) {
	on := creationtest.NewIndices()
	on.Bodies["blog"] = "made by hand"
	for range 2 {
		if err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(plan.Naming{}), slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
	}
	if on.Bodies["blog"] != "made by hand" || len(on.Bodies) != 1 {
		t.Errorf("%v", on.Bodies)
	}
}

func TestMappingTypesAreEmittedOnlyWhereTheTargetTakesThem(t *testing.T) {
	emit := plan.Naming{Types: []string{"post"}, Emit: true}
	err := prepare(t.Context(), creationtest.NewIndices(), creationtest.OpenSearch2, twoTypes(emit), slog.New(slog.DiscardHandler))
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "opensearch 2.19.4") {
		t.Errorf("%v", err)
	}
	on := creationtest.NewIndices()
	if err := prepare(t.Context(), on, target.Version{Distribution: "elasticsearch", Number: "7.10.2", Major: 7, Minor: 10}, twoTypes(emit), slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	if on.Typed["blog"] != "post" {
		t.Errorf("typed indices %v", on.Typed)
	}
}

func TestARefusalNamesTheIndexAndKeepsTheTargetsWords(t *testing.T) {
	on := creationtest.NewIndices()
	on.Refuse = fmt.Errorf("must be lowercase: %w", fault.ErrRejected)
	err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(plan.Naming{Types: []string{"post", "user"}, Multi: plan.SplitTypes}), slog.New(slog.DiscardHandler))
	for _, word := range []string{"blog_post", "must be lowercase", "--multi-type union"} {
		if !errors.Is(err, fault.ErrRejected) || !strings.Contains(err.Error(), word) {
			t.Errorf("%v; want %s", err, word)
		}
	}
}

func TestFinalPipelinesAndDifferencesAreTold(t *testing.T) {
	on := creationtest.NewIndices()
	on.Final["blog"] = "spoil"
	plan := twoTypes(plan.Naming{Types: []string{"post"}})
	plan.Indices[0].Source.Mappings[0].Body = json.RawMessage(`{"properties":{"a":{"type":"string"},"b":{"type":"string"},"v":{"type":"dense_vector"}}}`)
	var out bytes.Buffer
	if err := prepare(t.Context(), on, creationtest.OpenSearch2, plan, slog.New(slog.NewJSONHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"pipeline":"spoil","effects":"drop drops documents"`, `"changes":2`, `"level":"INFO","msg":"index differs from the snapshot","index":"blog","rule":"string-to-text"`, `"level":"WARN","msg":"index differs from the snapshot","index":"blog","rule":"dense-vector"`, `"msg":"index created","index":"blog"`} {
		if !strings.Contains(out.String(), word) {
			t.Errorf("log lacks %s: %s", word, out.String())
		}
	}
}

func TestNamesThatAreUnfitAliasesAreRefusedAtOnce(t *testing.T) {
	on := creationtest.NewIndices()
	on.Unfit = map[string]string{"blog": "blog is an alias of 2 indices"}
	err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(plan.Naming{}), slog.New(slog.DiscardHandler))
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(fault.Text(err), "blog is an alias of 2 indices") || len(on.Bodies) > 0 {
		t.Errorf("%v, created %v", err, on.Bodies)
	}
}

func TestAMissingPermissionForAWarningStopsNothing(t *testing.T) {
	on := creationtest.NewIndices()
	on.Hide = fmt.Errorf("no permissions for [indices:monitor/settings/get]: %w", fault.ErrConfig)
	var out bytes.Buffer
	if err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(plan.Naming{}), slog.New(slog.NewTextHandler(&out, nil))); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "level=WARN") || !strings.Contains(out.String(), "settings/get") {
		t.Errorf("log %s", out.String())
	}
	on.Hide = fault.ErrUnavailable
	if err := prepare(t.Context(), on, creationtest.OpenSearch2, twoTypes(plan.Naming{}), slog.New(slog.DiscardHandler)); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("%v", err)
	}
}
