// Package metadata creates the indices of a target from what a snapshot says about them:
// settings, mappings and aliases of Elasticsearch 1.x–9.x and OpenSearch 1–3, converted by
// small named rules to what the target takes. Whatever is changed or left out is reported.
package metadata

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/rules"
	"github.com/rfsd/rfsd/rfs/target"
)

// Cluster is what Ensure needs of the target.
type Cluster interface {
	IndexExists(ctx context.Context, name string) (bool, error)
	// CreateIndex creates an index; an error for which target.IsExists holds says that it is there already.
	CreateIndex(ctx context.Context, name string, body []byte) error
}

// Index is the description of one index as a snapshot holds it.
type Index struct {
	Name     string
	Settings map[string]string // flat, every key begins with "index."; elements of lists end in ".0", ".1", …
	Mappings []Mapping
	Aliases  json.RawMessage // object by alias name; nil for none
}

// Mapping is the mapping of one type; Body is what stands below the type's name.
type Mapping struct {
	Type string
	Body json.RawMessage
}

// Wanted is an index that the target has to have.
type Wanted struct {
	Name  string // on the target
	Index Index
	// Type takes the mapping of one type only; "" takes the union of all.
	Type string
	// Rules are the user's own changes, which come last; nil: none.
	Rules *rules.Set
}

// Change is one difference between the index in the snapshot and the one that is created.
type Change struct {
	Index  string // on the target
	Rule   string // stable name of the rule, such as string-to-text
	Path   string // where: a field (a.b), a setting (index.codec) or an alias
	Detail string // what was done
}

// losing are the rules after which a search may find less, or something else, than before.
var losing = []string{
	"elastic-type", "root-field", "runtime-fields", "sub-field", "alias-field", "alias-filter", "alias-of-own-name", "type-union",
	"legacy-similarity", "unknown-option",
}

// Loses says that searches may find less, or something else, than at the source.
func (c Change) Loses() bool { return slices.Contains(losing, c.Rule) }

// Result says what Ensure did.
type Result struct {
	Created []string // in the order wanted
	Existed []string // left as they are
	Changes []Change // of created indices only
}

// Ensure creates the indices that the target does not have; those that are there are never
// touched. v is the version of the target. On an error the result tells what was done
// before. Errors carry the target's own words (fault.ErrRejected and others, see
// rfs/target); fault.ErrConfig when a wanted type does not exist; fault.ErrCorrupt when
// metadata of the snapshot is no JSON.
func Ensure(ctx context.Context, c Cluster, v target.Version, wanted []Wanted) (Result, error) {
	var r Result
	for _, w := range wanted {
		there, err := c.IndexExists(ctx, w.Name)
		if err != nil {
			return r, fmt.Errorf("index %s: %w", w.Name, err)
		}
		if there {
			r.Existed = append(r.Existed, w.Name)
			continue
		}
		switch changes, err := create(ctx, c, v, w); {
		case err == nil:
			r.Created = append(r.Created, w.Name)
			r.Changes = append(r.Changes, changes...)
		case target.IsExists(err): // another worker was faster
			r.Existed = append(r.Existed, w.Name)
		default:
			return r, fmt.Errorf("create index %s (create it by hand to go on without its mapping): %w", w.Name, err)
		}
	}
	return r, nil
}

// mostTries bounds how often one index is offered; each refusal but the last teaches something.
const mostTries = 100

// create offers an index, and again without what the target says it does not know.
func create(ctx context.Context, c Cluster, v target.Version, w Wanted) ([]Change, error) {
	var (
		lacks   = newLacks()
		refused error
	)
	for range mostTries {
		body, changes, err := convert(v, w, lacks)
		if err != nil {
			return nil, err
		}
		if refused = c.CreateIndex(ctx, w.Name, body); refused == nil {
			return changes, nil
		}
		if !lacks.learn(refused) {
			break
		}
	}
	return nil, refused
}

// Convert gives the body of the request that creates the index, and what it changes. It asks nobody:
// types of plugins stay, which Ensure replaces when the target refuses them.
func Convert(v target.Version, w Wanted) (body []byte, changes []Change, err error) {
	return convert(v, w, newLacks())
}

func convert(v target.Version, w Wanted, lacks *lacks) (body []byte, changes []Change, err error) {
	e := &edit{version: v, index: w.Name, lacks: lacks, created: createdMajor(w.Index.Settings["index.version.created"])}
	out := map[string]any{"settings": e.settings(w.Index.Settings)}
	mapping, err := e.mapping(w)
	if err != nil {
		return nil, nil, err
	}
	if len(mapping) > 0 {
		out["mappings"] = mapping
	}
	aliases, err := e.aliases(w.Index.Aliases)
	if err != nil {
		return nil, nil, err
	}
	if len(aliases) > 0 {
		out["aliases"] = aliases
	}
	for _, done := range w.Rules.EditIndex(w.Index.Name, out) {
		e.note("user-rule", done.Path, "%s", done.Detail)
	}
	if body, err = json.Marshal(out); err != nil {
		return nil, nil, fmt.Errorf("encode: %w", err)
	}
	return body, e.changes, nil
}

// edit collects the changes to one index.
type edit struct {
	version target.Version
	index   string
	lacks   *lacks
	created int // major version of Elasticsearch that made the index
	changes []Change
}

// createdMajor reads index.version.created: 2040699 is 2.4.6. OpenSearch, which began as 7, sets bit 27.
func createdMajor(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1_000_000 || n&(1<<27) != 0 {
		return 7
	}
	return n / 1_000_000
}

func (e *edit) note(rule, path, format string, args ...any) {
	e.changes = append(e.changes, Change{Index: e.index, Rule: rule, Path: path, Detail: fmt.Sprintf(format, args...)})
}

// since says whether the target is an OpenSearch of at least that version.
func (e *edit) since(major, minor int) bool {
	v := e.version
	return v.Distribution == "opensearch" && (v.Major > major || v.Major == major && v.Minor >= minor)
}

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
			if !aliasKeys[k] {
				e.note("alias-option", name, "dropped %s", k)
				delete(a, k)
			}
		}
	}
	return all, nil
}

// decode reads a JSON object and keeps numbers exact.
func decode(raw json.RawMessage) (map[string]any, error) {
	dec := json.NewDecoder(newReader(raw))
	dec.UseNumber()
	var m map[string]any
	if err := dec.Decode(&m); err != nil {
		return nil, fault.Corrupt("", "", -1, "not a JSON object: %w", err)
	}
	return m, nil
}
