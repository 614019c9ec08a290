package metadata

import (
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

// aliasKeys is what an alias keeps.
var aliasKeys = map[string]bool{
	"filter": true, "routing": true, "index_routing": true, "search_routing": true, "is_write_index": true, "is_hidden": true,
}

func (e *edit) aliases(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	all, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("aliases: %w", err)
	}
	for _, name := range keys(all) {
		a, ok := all[name].(map[string]any)
		if !ok {
			all[name] = map[string]any{}
			continue
		}
		if name == e.index {
			e.note("alias-of-own-name", name, "dropped: an alias cannot bear the name of its index")
			delete(all, name)
			continue
		}
		if _, ok := a["filter"].(map[string]any); !ok && a["filter"] != nil {
			e.note("alias-filter", name, "dropped the alias: its filter is unreadable, and without it more would be seen")
			delete(all, name)
			continue
		}
		for _, k := range keys(a) {
			if a[k] == nil {
				delete(a, k)
				continue
			}
			if !aliasKeys[k] && e.on("alias-option") {
				e.note("alias-option", name, "dropped %s", k)
				delete(a, k)
			}
		}
	}
	return all, nil
}

// splitAliases parts the aliases that are set with the index from those that wait for its documents. An index that
// is named not to be written to has part in an alias for writing, and waits as the others of it do.
func splitAliases(all map[string]any, when AliasTime) (early, late map[string]any) {
	early, late = map[string]any{}, map[string]any{}
	for name, v := range all {
		a, ok := v.(map[string]any)
		waits := when == AliasesLate || when == AliasesAuto && ok && (a["is_write_index"] != nil || a["filter"] != nil)
		if waits {
			late[name] = v
		} else {
			early[name] = v
		}
	}
	return early, late
}

// AliasActions makes the body of POST /_aliases that gives an index the aliases that waited:
//
//	done, err := metadata.Ensure(ctx, cluster, version, wanted)   // or metadata.ConvertIndex
//	…                                                             // documents
//	for index, aliases := range done.Late {
//		body, err := metadata.AliasActions(index, aliases)
//		cluster.Do(ctx, "POST", "/_aliases", nil, body)
//	}
//
// aliases is an object by alias name, as it stands below "aliases" of an index; the target takes
// all of them or none. Sent again it changes nothing. nil for no aliases; fault.ErrCorrupt when
// aliases is no JSON object.
func AliasActions(index string, aliases json.RawMessage) ([]byte, error) {
	if len(aliases) == 0 {
		return nil, nil
	}
	all, err := decode(aliases)
	if err != nil {
		return nil, fmt.Errorf("aliases of %s: %w", index, err)
	}
	var actions []any
	for _, name := range keys(all) {
		a, ok := all[name].(map[string]any)
		if !ok {
			return nil, fault.Corrupt("", "", -1, "alias %s of %s is no object", name, index)
		}
		add := map[string]any{}
		for k, v := range a {
			add[k] = v
		}
		add["index"], add["alias"] = index, name
		actions = append(actions, map[string]any{"add": add})
	}
	if len(actions) == 0 {
		return nil, nil
	}
	return json.Marshal(map[string]any{"actions": actions})
}
