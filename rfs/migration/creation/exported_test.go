package creation_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
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
	index := func(name, target string, settings map[string]string, mapping string) plan.Index {
		return plan.Index{Name: name, Entry: plan.Entry{Naming: plan.Naming{Index: target}}, Source: &snapshot.Index{
			Name: name, Settings: settings, Mappings: []snapshot.Mapping{{Type: "_doc", Body: json.RawMessage(mapping)}}}}
	}
	return &plan.Plan{Indices: []plan.Index{
		index("books", "books", map[string]string{"index.number_of_shards": "3", "index.uuid": "u",
			"index.analysis.analyzer.own.type": "custom", "index.analysis.analyzer.own.tokenizer": "standard", "index.analysis.analyzer.own.filter.0": "lowercase"},
			`{"properties":{"title":{"type":"text","analyzer":"own"},"parts":{"type":"nested"}}}`),
		index(".ds-logs-000001", "logs", map[string]string{"index.number_of_shards": "1"}, `{"properties":{"old":{"type":"keyword"}}}`),
		index(".ds-logs-000002", "logs", map[string]string{"index.number_of_shards": "2"}, `{"properties":{"new":{"type":"keyword"}}}`),
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
		{name: "with its analyzer", index: "books", want: []string{`"analyzer":"own"`, `"nested"`, `tokenizer":"standard"`, `lowercase`, `number_of_shards":"3"`, `"mark":"m"`}, created: true, known: true},
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
