package snapshot

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// A catalog lists every snapshot with every index, and every index with every snapshot. It is parsed value by value, so that it takes the
// memory of its text and a few bytes per entry, whose sum is bounded.

// maxCatalogMemory bounds the memory of the entries of a catalog, in bytes, as counted here.
const maxCatalogMemory = 160 << 20

var errCatalogMemory = errors.New("its entries take too much memory")

// nameOrObject is a value that is a string in one version and an object in another.
type nameOrObject struct {
	Name         string      `json:"name"`
	UUID         string      `json:"uuid"`
	State        *int        `json:"state"`
	Version      string      `json:"version"`
	IndexVersion json.Number `json:"index_version"`
	// IndexMetadata is only read by the catalog, key by key.
	IndexMetadata json.RawMessage `json:"index_metadata_lookup"`
}

// UnmarshalJSON uses a plain string as both name and uuid.
func (n *nameOrObject) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		if err := json.Unmarshal(b, &n.Name); err != nil {
			return err
		}
		n.UUID = n.Name
		return nil
	}
	type plain nameOrObject
	if err := json.Unmarshal(b, (*plain)(n)); err != nil {
		return err
	}
	n.UUID = cmp.Or(n.UUID, n.Name)
	return nil
}

// texts numbers distinct strings.
type texts struct {
	numbers map[string]int32
	all     []string
}

func (t *texts) number(s string) int32 {
	n, ok := t.numbers[s]
	if !ok {
		if t.numbers == nil {
			t.numbers = map[string]int32{}
		}
		n = int32(len(t.all))
		t.numbers[s] = n
		t.all = append(t.all, s)
	}
	return n
}

// holds reports whether an index belongs to the snapshot with a UUID.
func (c *Catalog) holds(x catalogIndex, uuid string) bool {
	place, ok := c.places[uuid]
	if !ok {
		return false
	}
	_, ok = slices.BinarySearch(x.snapshots, place)
	return ok
}

// identifier returns the identifier of the metadata of an index in a snapshot, "" before 7.9.
func (c *Catalog) identifier(r Ref, indexID string) string {
	id, ok := c.texts.numbers[indexID]
	if !ok {
		return ""
	}
	i, ok := slices.BinarySearchFunc(r.lookup, id, func(l link, id int32) int { return cmp.Compare(l.from, id) })
	if !ok {
		return ""
	}
	return c.texts.all[r.lookup[i].to]
}

// catalogReader fills a Catalog.
type catalogReader struct {
	ctx  context.Context // of the read: a catalog may have millions of entries
	c    *Catalog
	dec  *json.Decoder
	used int // bytes that entries take, about
	read int // entries of any kind
}

func (r *catalogReader) take(n int) error {
	if r.used += n; r.used > maxCatalogMemory {
		return errCatalogMemory
	}
	return nil
}

// parse reads the catalog. The snapshots usually precede the indices that refer to them; if they do not, the text is read twice.
func (c *Catalog) parse(ctx context.Context, b []byte) error {
	c.places, c.newest = map[string]int32{}, map[string]int32{}
	r := &catalogReader{ctx: ctx, c: c}
	late, err := r.pass(b, false)
	if err == nil && late {
		_, err = r.pass(b, true)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		return fault.Corrupt(c.blob, "", -1, "unexpected content: %w", err)
	}
	return nil
}

// pass reads the members of the catalog. late reports that indices came before snapshots; with again it reads only the indices.
func (r *catalogReader) pass(b []byte, again bool) (late bool, err error) {
	r.dec = json.NewDecoder(bytes.NewReader(b))
	indices := false
	err = r.object(func(key string) error {
		switch {
		case key == "snapshots" && !again:
			late = late || indices
			return r.array(r.snapshot)
		case key == "indices":
			indices = true
			if again {
				clear(r.c.indices)
			}
			return r.object(r.index)
		case key == "index_metadata_identifiers" && !again:
			return r.object(r.metadata)
		}
		return r.skip()
	})
	return late, err
}

// object calls member with each key of an object; member reads the value. null is an empty object.
func (r *catalogReader) object(member func(key string) error) error {
	return r.list('{', func() error {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		key, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v where a name is expected", t)
		}
		return member(key)
	})
}

func (r *catalogReader) array(element func() error) error { return r.list('[', element) }

func (r *catalogReader) list(open json.Delim, element func() error) error {
	t, err := r.dec.Token()
	if err != nil || t == nil {
		return err
	}
	if t != open {
		return fmt.Errorf("%v where %v is expected", t, open)
	}
	for r.dec.More() {
		if r.read++; r.read%1024 == 0 && r.ctx.Err() != nil {
			return r.ctx.Err()
		}
		if err := element(); err != nil {
			return err
		}
	}
	_, err = r.dec.Token()
	return err
}

// skip moves past a value.
func (r *catalogReader) skip() error {
	for depth := 0; ; {
		t, err := r.dec.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			depth--
		}
		if depth == 0 {
			return nil
		}
	}
}

func (r *catalogReader) snapshot() error {
	var s nameOrObject
	if err := r.dec.Decode(&s); err != nil {
		return err
	}
	const entry = 300
	if err := r.take(entry + 2*(len(s.Name)+len(s.UUID)+len(s.Version))); err != nil {
		return err
	}
	ref := Ref{Name: s.Name, UUID: s.UUID, Version: s.Version}
	if s.State != nil && *s.State >= 0 && *s.State < len(stateNumbers) {
		ref.State = stateNumbers[*s.State]
	}
	if v := s.IndexVersion.String(); v != "" {
		ref.Version = strings.TrimSpace(s.Version + " (index version " + v + ")")
	}
	if len(s.IndexMetadata) > 0 {
		links, err := r.links(s.IndexMetadata)
		if err != nil {
			return err
		}
		ref.lookup = links
	}
	if _, twice := r.c.places[ref.UUID]; twice {
		return nil // the same snapshot again
	}
	r.c.places[ref.UUID] = int32(len(r.c.Snapshots))
	r.c.newest[ref.Name] = int32(len(r.c.Snapshots))
	r.c.Snapshots = append(r.c.Snapshots, ref)
	return nil
}

// links reads the lookup of one snapshot, {"index id":"identifier"}.
func (r *catalogReader) links(b []byte) ([]link, error) {
	inner := &catalogReader{ctx: r.ctx, c: r.c, dec: json.NewDecoder(bytes.NewReader(b))}
	var all []link
	err := inner.object(func(id string) error {
		var identifier string
		if err := inner.dec.Decode(&identifier); err != nil {
			return err
		}
		before := len(r.c.texts.all)
		l := link{r.c.texts.number(id), r.c.texts.number(identifier)}
		const entry, text = 16, 100
		all = append(all, l)
		return r.take(entry + (len(r.c.texts.all)-before)*(text+len(id)+len(identifier)))
	})
	slices.SortFunc(all, func(a, b link) int { return cmp.Compare(a.from, b.from) })
	return slices.Clip(all), err
}

func (r *catalogReader) index(name string) error {
	entry := catalogIndex{id: name}
	err := r.object(func(key string) error {
		switch key {
		case "id":
			var id string
			if err := r.dec.Decode(&id); err != nil {
				return err
			}
			entry.id = cmp.Or(id, name)
			return nil
		case "snapshots":
			return r.array(func() error {
				var s nameOrObject
				if err := r.dec.Decode(&s); err != nil {
					return err
				}
				if place, ok := r.c.places[s.UUID]; ok {
					entry.snapshots = append(entry.snapshots, place)
				}
				return r.take(8)
			})
		case "shard_generations":
			return r.array(func() error {
				var g json.RawMessage
				if err := r.dec.Decode(&g); err != nil {
					return err
				}
				entry.generations = append(entry.generations, generation(g))
				return r.take(40 + len(g))
			})
		case "shard_path_type":
			return r.dec.Decode(&entry.pathType)
		}
		return r.skip()
	})
	if err != nil {
		return err
	}
	slices.Sort(entry.snapshots)
	entry.snapshots, entry.generations = slices.Clip(entry.snapshots), slices.Clip(entry.generations)
	r.c.indices[name] = entry
	const fixed = 250
	return r.take(fixed + 2*len(name) + len(entry.id))
}

func (r *catalogReader) metadata(identifier string) error {
	var x string
	if err := r.dec.Decode(&x); err != nil {
		return err
	}
	r.c.identifiers[identifier] = x
	const fixed = 100
	return r.take(fixed + len(identifier) + len(x))
}
