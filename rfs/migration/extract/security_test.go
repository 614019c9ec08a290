package extract

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

func writing(t *testing.T, users bool) *extractor {
	t.Helper()
	rule, err := metadata.ParseRenameRule("logs-*=old-$1")
	if err != nil {
		t.Fatal(err)
	}
	x := newExtractor(t.TempDir(), Options{Overrides: metadata.Overrides{Rename: []metadata.RenameRule{rule}}, Users: users})
	x.titles.indices = []string{"logs-1", "logs-2"}
	return x
}

func securityDocument(id, content string) *doc.Document {
	source, err := json.Marshal(map[string]string{id: base64.StdEncoding.EncodeToString([]byte(content))})
	if err != nil {
		panic(err)
	}
	return &doc.Document{ID: []byte(id), Source: source}
}

// TestAddSecurity_OnlyWhatUsersMade: entries of the plugin itself stay out, and password hashes without the option.
func TestAddSecurity_OnlyWhatUsersMade(t *testing.T) {
	const (
		roles = `{"_meta":{"type":"roles","config_version":2},"own":{"reserved":true},"hidden":{"hidden":true},"static":{"static":true},
 "readers":{"reserved":false,"hidden":false,"static":false,"cluster_permissions":["cluster_monitor"],"index_permissions":[{"index_patterns":["logs-*","other","logs-2025*"],"allowed_actions":["read"]}]}}`
		users = `{"_meta":{"type":"internalusers","config_version":2},"admin":{"reserved":true,"hash":"$2y$x"},"alice":{"hash":"$2y$12$y","backend_roles":["b"]}}`
	)
	for _, c := range []struct {
		name, id, content string
		users             bool
		file, want        string
	}{
		{"roles", "roles", roles, false, "roles.yml", `{"_meta":{"config_version":2,"type":"roles"},"readers":{"cluster_permissions":["cluster_monitor"],"index_permissions":[{"allowed_actions":["read"],"index_patterns":["old-*","other","old-2025*"]}]}}`},
		{"users without the option", "internalusers", users, false, "internal_users.yml", ""},
		{"users", "internalusers", users, true, "internal_users.yml", `{"_meta":{"config_version":2,"type":"internalusers"},"alice":{"backend_roles":["b"],"hash":"$2y$12$y"}}`},
		{"nothing of users", "tenants", `{"_meta":{"type":"tenants"},"admin_tenant":{"reserved":true}}`, false, "tenants.yml", ""},
		{"another document", "config", `{}`, false, "config.yml", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := writing(t, c.users)
			if err := x.addSecurity(securityDocument(c.id, c.content)); err != nil {
				t.Fatal(err)
			}
			for _, d := range x.drafts {
				if err := d.Commit(); err != nil {
					t.Fatal(err)
				}
			}
			b, err := os.ReadFile(filepath.Join(x.dir, c.file))
			if (err == nil) != (c.want != "") {
				t.Fatalf("%s, %v", b, err)
			}
			if c.want == "" {
				if len(x.left) == 0 {
					t.Error("nothing is listed")
				}
				return
			}
			var got any
			if err := yaml.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			if j, err := json.Marshal(got); err != nil || string(j) != c.want {
				t.Errorf("%s, %v", j, err)
			}
		})
	}
}

// TestAddSecurity_Damage: documents of that index are input.
func TestAddSecurity_Damage(t *testing.T) {
	for _, source := range []string{``, `[]`, `{"roles":1}`, `{"roles":"!"}`, `{"roles":"W10="}`, `{}`} {
		if err := writing(t, true).addSecurity(&doc.Document{ID: []byte("roles"), Source: []byte(source)}); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", source, err)
		}
	}
	for _, content := range []string{`{"a":null}`, `{"a":{"index_permissions":[1,{"index_patterns":[1]}]}}`} {
		x := writing(t, true)
		if err := x.addSecurity(securityDocument("roles", content)); err != nil && !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", content, err)
		}
		for _, d := range x.drafts {
			if err := d.Drop(); err != nil {
				t.Error(err)
			}
		}
	}
}
