package creation_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
	"github.com/rfsd/rfsd/testing/creationtest"
)

// exportedPlan has an index with an analyzer of its own, and two backing indices of a data stream.
func exportedPlan() *plan.Plan {
	index := func(name, target string, settings map[string]string, mapping, aliases string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: target}}, Source: &snapshot.Index{
			Name: name, Settings: settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(mapping)}}, Aliases: json.RawMessage(aliases)}}
	}
	return &plan.Plan{Indices: []plan.Index{
		index("books", "books", map[string]string{"index.number_of_shards": "3", "index.uuid": "u",
			"index.analysis.analyzer.own.type": "custom", "index.analysis.analyzer.own.tokenizer": "standard", "index.analysis.analyzer.own.filter.0": "lowercase"},
			`{"properties":{"title":{"type":"text","analyzer":"own"},"parts":{"type":"nested"}}}`, `{"all-books":{},"new-books":{"is_write_index":true}}`),
		index(".ds-logs-000001", "logs", map[string]string{"index.number_of_shards": "1"}, `{"properties":{"old":{"type":"keyword"}}}`, `{}`),
		index(".ds-logs-000002", "logs", map[string]string{"index.number_of_shards": "2"}, `{"properties":{"new":{"type":"keyword"}}}`, `{}`),
	}}
}

// TestExported_Make: indices are created as the export describes them, and as rfsd migrate would create them.
func TestExported_Make(t *testing.T) {
	written, err := creation.EncodeExported(t.Context(), &creation.Indices{}, exportedPlan())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, file, index string
		there             bool
		refuse            error
		want              []string // in the body; nil: none is sent
		created, known    bool
		fails             error
	}{
		{name: "with its analyzer", index: "books", want: []string{`"analyzer":"own"`, `"nested"`, `tokenizer":"standard"`, `lowercase`, `number_of_shards":"3"`, `"mark":"m"`, `"aliases":{"all-books":{}}`}, created: true, known: true},
		{name: "the last backing index of a stream", index: "logs", want: []string{`"new"`, `number_of_shards":"2"`}, created: true, known: true},
		{name: "the target has it", index: "books", there: true, known: true},
		{name: "the target rejects it", index: "books", refuse: fault.ErrRejected, known: true, fails: fault.ErrRejected},
		{name: "an index of others", index: "other"},
		{name: "no description", file: "none", index: "books"},
		{name: "of an earlier version, without settings", file: `{"rfsd_mappings":1,"indices":{"books":[{"properties":{"title":{"type":"keyword"}}}]}}`, index: "books", want: []string{`"keyword"`}, created: true, known: true},
		{name: "of a later version", file: `{"rfsd_mappings":2}`, index: "books", fails: fault.ErrUnsupported},
		{name: "damaged", file: `{"rfsd_map`, index: "books", fails: fault.ErrCorrupt},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, file := t.TempDir(), string(written)
			if c.file != "" {
				file = c.file
			}
			if file != "none" {
				if err := os.WriteFile(filepath.Join(dir, creation.ExportedName), []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			files, err := repo.NewDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			on := creationtest.NewIndices()
			if on.Refuse = c.refuse; c.there {
				on.Bodies[c.index] = ""
			}
			e := &creation.Exported{Files: files, Indices: &creation.Indices{Cluster: on, Version: creationtest.OpenSearch2, Log: slog.New(slog.DiscardHandler)}}
			created, known, err := e.Make(t.Context(), c.index, objects.Mark{Session: "s", Token: "m"})
			if created != c.created || known != c.known || !errors.Is(err, c.fails) || c.fails == nil && err != nil {
				t.Errorf("created %v, known %v, %v", created, known, err)
			}
			for _, want := range c.want {
				if !strings.Contains(on.Bodies[c.index], want) {
					t.Errorf("%s is not in %s", want, on.Bodies[c.index])
				}
			}
			if c.want == nil && on.Bodies[c.index] != "" {
				t.Errorf("created with %s", on.Bodies[c.index])
			}
			// It is read once, so that the files may go.
			if err := os.Remove(filepath.Join(dir, creation.ExportedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			if _, again, err := e.Make(t.Context(), c.index, objects.Mark{}); c.fails == nil && (again != c.known || err != nil) {
				t.Errorf("again: known %v, %v", again, err)
			}
		})
	}
}

// TestExported_Aliases: all aliases are known by the names of their indices, and the refusal of one does not keep others from being set.
func TestExported_Aliases(t *testing.T) {
	written, err := creation.EncodeExported(t.Context(), &creation.Indices{}, exportedPlan())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, creation.ExportedName), written, 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := repo.NewDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	e := &creation.Exported{Files: files, Indices: &creation.Indices{Version: creationtest.OpenSearch2}}
	all, err := e.Aliases(t.Context())
	if err != nil || len(all) != 1 || string(all["books"]) != `{"all-books":{},"new-books":{"is_write_index":true}}` {
		t.Fatalf("%s, %v", all, err)
	}
	for _, c := range []struct {
		name    string
		refuses string // an alias
		with    error
		set     []string // requests
		refused int
		fails   error
	}{
		{"together", "", nil, []string{"all-books new-books"}, 0, nil},
		{"one is refused", "new-books", fault.ErrRejected, []string{"all-books new-books", "all-books", "new-books"}, 1, nil},
		{"no answer", "new-books", fault.ErrUnavailable, []string{"all-books new-books"}, 0, fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := &refusing{alias: c.refuses, with: c.with}
			refused, err := creation.SetEach(t.Context(), on, "books", all["books"])
			if !slices.Equal(on.set, c.set) || len(refused) != c.refused || !errors.Is(err, c.fails) || c.fails == nil && err != nil {
				t.Errorf("set %q, refused %+v, %v", on.set, refused, err)
			}
		})
	}
}

// refusing is a target that refuses an alias.
type refusing struct {
	alias string
	with  error
	set   []string
}

func (r *refusing) SetAliases(_ context.Context, _ string, aliases json.RawMessage) error {
	names := slices.Sorted(maps.Keys(creation.AliasNames(aliases)))
	r.set = append(r.set, strings.Join(names, " "))
	if r.alias != "" && slices.Contains(names, r.alias) {
		return r.with
	}
	return nil
}
