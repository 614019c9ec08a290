package compare_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// TestExportedFields: the types of fields are compared with the mappings that an export has beside its files.
func TestExportedFields(t *testing.T) {
	dir := t.TempDir()
	snapshots, err := repo.NewDir(filepath.Join("..", "..", "..", "testing", "fixtures", "7.10.2-demo"))
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.New(t.Context(), snapshots, plan.Request{SnapshotName: "snap1"})
	if err != nil {
		t.Fatal(err)
	}
	body, err := creation.EncodeExported(t.Context(), &creation.Indices{}, p)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, creation.ExportedName), body, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, mapping string
		file          string // replaces the mappings of the export; "none": it has none
		want          string // the fields that differ
		warns         bool
	}{
		{"a field of another type", `{"properties":{"price":{"type":"keyword"}}}`, "", "price", false},
		{"only further fields", `{"properties":{"added":{"type":"long"}}}`, "", "", false},
		{"files without mappings", `{"properties":{"price":{"type":"keyword"}}}`, "none", "", false},
		{"mappings that are damaged", `{"properties":{"price":{"type":"keyword"}}}`, `{"rfsd`, "", true},
		{"mappings of a later version", `{"properties":{"price":{"type":"keyword"}}}`, `{"rfsd_mappings":2}`, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				switch {
				case r.URL.Path == "/catalogue":
					fmt.Fprintf(w, `{"catalogue":{"aliases":{},"mappings":%s,"settings":{}}}`, c.mapping)
				case strings.HasPrefix(r.URL.Path, "/_"):
					fmt.Fprint(w, `{}`)
				default:
					http.Error(w, `{"status":404}`, http.StatusNotFound)
				}
			}))
			defer on.Close()
			client, err := target.New(t.Context(), target.Config{URL: on.URL})
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			from := t.TempDir()
			b, err := os.ReadFile(filepath.Join(dir, creation.ExportedName))
			if err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				b = []byte(c.file)
			}
			if c.file != "none" {
				if err := os.WriteFile(filepath.Join(from, creation.ExportedName), b, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			blobs, err := repo.NewDir(from)
			if err != nil {
				t.Fatal(err)
			}
			r := &verify.Report{Indices: []*verify.Index{{Target: "catalogue"}}}
			if err := compare.ExportedFields(t.Context(), blobs, client, target.Version{Distribution: "opensearch", Number: "2.19.4", Major: 2, Minor: 19}, r, slog.New(slog.DiscardHandler)); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, f := range r.Indices[0].Fields {
				got = append(got, f.Field)
			}
			if is := strings.Join(got, " "); is != c.want || (len(r.Warnings) > 0) != c.warns {
				t.Errorf("%v, want %q; warnings %q; mappings %.300s", r.Indices[0].Fields, c.want, r.Warnings, b)
			}
		})
	}
}
