package preflight

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Rules of differences found by Evaluate, in addition to the rules of objects.Differences.
const (
	aliasShared = "alias-shared" // an alias also refers to another index
	aliasName   = "alias-name"   // the name of the index is an alias
	aliasWrite  = "alias-write"  // the target rejects an alias because another index is its write index
)

// blocks are settings of an index that block writes.
var blocks = []string{"index.blocks.write", "index.blocks.read_only", "index.blocks.read_only_allow_delete"}

// compareTargets adds to existing objects how they differ from the objects to be created, their documents, and what would block writes. To
// every alias that would be set it adds the other indices with the alias.
func (e *Evaluator) compareTargets(ctx context.Context, p *plan.Plan, r *Report) error {
	ours := map[string]bool{}
	for _, x := range p.Indices {
		for _, name := range x.Entry.Naming.Targets() {
			ours[name] = true
		}
	}
	held := map[string]int64{}
	var shards int64 // shards to be created
	for i, x := range p.Indices {
		if x.Entry.Create || x.Entry.Naming.Emit && e.Version.MappingTypes() {
			continue
		}
		all, err := e.Indices.Wanted(ctx, x)
		if err != nil {
			return err
		}
		for n, w := range all {
			object := &r.Indices[i].Targets[n]
			done, err := metadata.ConvertIndex(e.Version, w)
			if err != nil {
				continue // already rejected for that reason
			}
			if object.Action == WouldKeep {
				own, err := e.compareTarget(ctx, w.Name, done.Body, object, r)
				if err != nil {
					return err
				}
				if object.Documents > 0 && !own {
					held[w.Name] = object.Documents
				}
			}
			if object.Action == WouldCreate {
				if shards += shardsOf(done.Body); done.Late != nil {
					if err := e.writeIndices(ctx, w.Name, done.Late, object, r); err != nil {
						return err
					}
				}
			}
			if err := e.compareAliases(ctx, w.Name, done, ours, object, r); err != nil {
				return err
			}
		}
	}
	if len(held) > 0 && e.Existing == "" {
		r.Stops = append(r.Stops, fault.Text(engine.HeldError(held, engine.SnapshotHas)))
	}
	r.toCreate = shards
	return nil
}

// ask decodes the response into found. It returns false if the object does not exist or cannot be read, and reports the latter.
func (e *Evaluator) ask(ctx context.Context, what, path string, query url.Values, found any, r *Report) (bool, error) {
	status, answer, err := e.Target.Do(ctx, http.MethodGet, path, query, nil)
	switch {
	case err != nil && (errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil):
		return false, err
	case err == nil && status == http.StatusNotFound:
		return false, nil
	case err == nil && status != http.StatusOK:
		err = fmt.Errorf("status %d", status)
	case err == nil:
		err = json.Unmarshal(answer, found)
	}
	if err != nil {
		r.Warnings = append(r.Warnings, fmt.Sprintf("the target does not let %s be seen, so they are not compared: GET %s: %s", what, path, fault.Text(err)))
	}
	return err == nil, nil
}

// compareTarget compares one existing index, and reports whether the session has recorded it.
func (e *Evaluator) compareTarget(ctx context.Context, name string, body []byte, object *Object, r *Report) (own bool, err error) {
	path := "/" + url.PathEscape(name)
	var found map[string]json.RawMessage
	if seen, err := e.ask(ctx, "mappings and settings of index "+name, path, nil, &found, r); err != nil || !seen {
		return false, err
	}
	if _, itself := found[name]; !itself {
		behind := strings.Join(slices.Sorted(maps.Keys(found)), ", ")
		object.Changes = append(object.Changes, Differs{Rule: aliasName, Path: name, Detail: "the name is an alias of " + behind + ": documents would go there", Loses: true})
	}
	if len(found) == 1 {
		answer, err := json.Marshal(found)
		if err != nil {
			return false, fmt.Errorf("compare index %s: %w", name, err)
		}
		changes, err := objects.Differences(body, answer)
		if err != nil {
			return false, fmt.Errorf("compare index %s: %w", name, err)
		}
		object.Changes = append(object.Changes, differs(changes)...)
	}
	var settings map[string]struct{ Settings map[string]any }
	if _, err := e.ask(ctx, "blocks of index "+name, path+"/_settings", url.Values{"flat_settings": {"true"}}, &settings, r); err != nil {
		return false, err
	}
	for _, index := range slices.Sorted(maps.Keys(settings)) {
		for _, block := range blocks {
			if settings[index].Settings[block] == "true" {
				r.Stops = append(r.Stops, fmt.Sprintf("index %s has the block %s: it would refuse every document", index, block))
			}
		}
	}
	var count struct{ Count int64 }
	if _, err := e.ask(ctx, "documents of index "+name, path+"/_count", nil, &count, r); err != nil {
		return false, err
	}
	object.Documents = count.Count
	uuid := settings[name].Settings["index.uuid"]
	return uuid != nil && uuid == e.Own[name], nil
}

// aliasesApart is the maximum number of aliases of an index that are requested individually. For more, all aliases of the target are
// requested.
const aliasesApart = 50

// compareAliases finds aliases that other indices have: a search through such an alias would find documents of both.
func (e *Evaluator) compareAliases(ctx context.Context, name string, done metadata.Converted, ours map[string]bool, object *Object, r *Report) error {
	var body struct{ Aliases map[string]json.RawMessage }
	if err := json.Unmarshal(done.Body, &body); err != nil {
		return fmt.Errorf("aliases of index %s: %w: %w", name, err, fault.ErrCorrupt)
	}
	aliases := slices.Sorted(maps.Keys(body.Aliases))
	var late map[string]json.RawMessage
	if done.Late != nil {
		if err := json.Unmarshal(done.Late, &late); err != nil {
			return fmt.Errorf("aliases of index %s: %w: %w", name, err, fault.ErrCorrupt)
		}
	}
	aliases = slices.AppendSeq(aliases, maps.Keys(late))
	slices.Sort(aliases)
	aliases = slices.Compact(aliases)
	owned := map[string][]string{}
	if len(aliases) > aliasesApart {
		var all map[string]struct{ Aliases map[string]struct{} }
		if seen, err := e.ask(ctx, "aliases of all indices", "/_alias", nil, &all, r); err != nil || !seen {
			return err
		}
		for owner, x := range all {
			for alias := range x.Aliases {
				owned[alias] = append(owned[alias], owner)
			}
		}
	}
	for _, alias := range aliases {
		owners := owned[alias]
		if len(aliases) <= aliasesApart {
			var answer map[string]json.RawMessage
			if seen, err := e.ask(ctx, "indices of alias "+alias, "/_alias/"+url.PathEscape(alias), nil, &answer, r); err != nil {
				return err
			} else if !seen {
				continue
			}
			owners = slices.Collect(maps.Keys(answer))
		}
		slices.Sort(owners)
		others := slices.DeleteFunc(owners, func(owner string) bool { return ours[owner] })
		if len(others) > 0 {
			object.Changes = append(object.Changes, Differs{Rule: aliasShared, Path: "aliases." + alias,
				Detail: fmt.Sprintf("the alias leads to %s already: readers would get the documents of %s, too", strings.Join(others, ", "), name), Loses: true})
		}
	}
	return nil
}

// writeIndices finds aliases that the target would reject because another index is their write index.
func (e *Evaluator) writeIndices(ctx context.Context, name string, late json.RawMessage, object *Object, r *Report) error {
	type alias struct {
		Write bool `json:"is_write_index"`
	}
	var wanted map[string]alias
	if err := json.Unmarshal(late, &wanted); err != nil {
		return fmt.Errorf("aliases of index %s: %w: %w", name, err, fault.ErrCorrupt)
	}
	for _, a := range slices.Sorted(maps.Keys(wanted)) {
		var owners map[string]struct{ Aliases map[string]alias }
		if !wanted[a].Write {
			continue
		} else if seen, err := e.ask(ctx, "indices of alias "+a, "/_alias/"+url.PathEscape(a), nil, &owners, r); err != nil {
			return err
		} else if !seen {
			continue
		}
		for _, owner := range slices.Sorted(maps.Keys(owners)) {
			if owner == name || !owners[owner].Aliases[a].Write {
				continue
			}
			r.Stops = append(r.Stops, fmt.Sprintf("the target would refuse the alias %s of index %s: %s is its write index there; change that with POST /_aliases {\"actions\":[{\"add\":{\"index\":%q,\"alias\":%q,\"is_write_index\":false}}]}, or remove the alias from it", a, name, owner, owner, a))
			object.Changes = append(object.Changes, Differs{Rule: aliasWrite, Path: "aliases." + a, Detail: "refused: " + owner + " is the write index of the alias", Loses: true})
		}
	}
	return nil
}

// shardsOf returns the number of shards of an index created with that body, including replicas.
func shardsOf(body []byte) int64 {
	var b struct{ Settings map[string]any }
	if json.Unmarshal(body, &b) != nil {
		return 1
	}
	inner, _ := b.Settings["index"].(map[string]any)
	number := func(name string, otherwise int64) int64 {
		v, ok := b.Settings["index."+name]
		if !ok {
			v = inner[name]
		}
		var n int64
		if _, err := fmt.Sscan(fmt.Sprint(v), &n); err != nil {
			return otherwise
		}
		return max(n, 0)
	}
	return number("number_of_shards", 1) * (1 + number("number_of_replicas", 1))
}
