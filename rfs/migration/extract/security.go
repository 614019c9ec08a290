package extract

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// securityIndex is the index with the configuration of the security plugin: one document for each file of securityadmin.sh.
const securityIndex = ".opendistro_security"

// securityFiles maps document ids to the file names of the security plugin.
var securityFiles = map[string]string{
	"roles": "roles.yml", "rolesmapping": "roles_mapping.yml", "tenants": "tenants.yml", "actiongroups": "action_groups.yml", usersDocument: "internal_users.yml",
}

// usersDocument is the document with the password hashes.
const usersDocument = "internalusers"

// security writes the configuration of the security plugin, without the plugin's own entries.
func (x *extractor) security(ctx context.Context) error {
	if !slices.ContainsFunc(x.snap.Indices, func(i snapshot.IndexRef) bool { return i.Name == securityIndex }) {
		return nil
	}
	index, err := x.snap.Index(ctx, securityIndex)
	if err == nil {
		err = creation.ReadIndex(ctx, x.snap, index, x.addSecurity)
	}
	if err != nil {
		return fmt.Errorf("index %s: %w", securityIndex, err)
	}
	return nil
}

// addSecurity writes the file of a document, whose only field holds base64-encoded JSON.
func (x *extractor) addSecurity(d *doc.Document) error {
	id := string(d.ID)
	name, known := securityFiles[id]
	if !known {
		x.leave(fmt.Sprintf("security configuration %.100s", id), "it belongs to the cluster: set it up on the target")
		return nil
	}
	var source map[string]string
	var entries map[string]map[string]any
	err := json.Unmarshal(d.Source, &source)
	if err == nil {
		var text []byte
		if text, err = base64.StdEncoding.DecodeString(source[id]); err == nil {
			err = json.Unmarshal(text, &entries)
		}
	}
	if err != nil {
		return fmt.Errorf("security configuration %s: %w: %w", id, err, fault.ErrCorrupt)
	}
	meta := entries["_meta"]
	delete(entries, "_meta")
	maps.DeleteFunc(entries, func(_ string, e map[string]any) bool {
		own := e["reserved"] == true || e["hidden"] == true || e["static"] == true
		if own {
			x.leave(id, "the plugin's own entries")
		}
		for _, k := range []string{"reserved", "hidden", "static"} {
			delete(e, k)
		}
		return own
	})
	if id == usersDocument && !x.users {
		for range entries {
			x.leave(id, "password hashes are written only with --with-users")
		}
		return nil
	}
	if len(entries) == 0 {
		return nil
	}
	if id == "roles" {
		for role, e := range entries {
			x.renameIn(role, e)
		}
	}
	entries["_meta"] = meta
	text, err := yaml.Marshal(entries)
	if err != nil {
		return fmt.Errorf("security configuration %s: %w", id, err)
	}
	w, err := x.file(name)
	if err != nil {
		return err
	}
	x.objects[name] = len(entries) - 1
	_, err = w.Write(text)
	return err
}

// renameIn renames the index patterns of a role as indices are renamed.
func (x *extractor) renameIn(role string, e map[string]any) {
	permissions, _ := e["index_permissions"].([]any)
	for _, p := range permissions {
		p, ok := p.(map[string]any)
		if !ok {
			continue
		}
		patterns, _ := p["index_patterns"].([]any)
		var out []any
		for _, name := range patterns {
			text, ok := name.(string)
			if !ok {
				continue
			}
			is, ok := x.titles.part(text)
			if !ok {
				x.leave(fmt.Sprintf("index pattern %.100s of the role %.100s", text, role), notRenamed)
			}
			for one := range strings.SplitSeq(is, ",") {
				out = append(out, one)
			}
		}
		p["index_patterns"] = out
	}
}
