package metadata

import (
	"encoding/json"
	"fmt"
)

// aliasKeys lists the properties of an alias that are kept.
var aliasKeys = map[string]bool{
	"filter": true, "routing": true, "index_routing": true, "search_routing": true, "is_write_index": true, "is_hidden": true,
}

func (e *edit) aliases(raw json.RawMessage) (map[string]any, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	all, err := DecodeObject(raw)
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

// splitAliases separates the aliases that are set when the index is created from the aliases that are set when its documents are
// complete. is_write_index: false also marks a write alias, whose members all wait.
func splitAliases(all map[string]any, when AliasTime) (early, late map[string]any) {
	early, late = map[string]any{}, map[string]any{}
	if when == AliasesNone {
		return early, late
	}
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
