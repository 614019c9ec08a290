package fakecluster

import (
	"cmp"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
)

// Key names a document.
type Key struct{ Index, ID, Routing string }

// Documents returns the sources of all documents.
func (c *Cluster) Documents() map[Key]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[Key]string{}
	for name, x := range c.indices {
		for _, s := range x.shards {
			for _, d := range s.docs {
				all[Key{name, d.id, d.routing}] = string(d.source)
			}
		}
	}
	return all
}

// Indices returns the names of all indices, sorted.
func (c *Cluster) Indices() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.indices))
}

// Operations returns the number of sequence numbers used by the shards of an index; 0 if the index does not exist.
func (c *Cluster) Operations(name string) (n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if x := c.indices[name]; x != nil {
		for _, s := range x.shards {
			n += s.max + 1
		}
	}
	return n
}

// Put writes a document as an application does. The index must exist.
func (c *Cluster) Put(k Key, source string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.indices[k.Index].put(k.ID, k.Routing, []byte(source))
}

// Delete deletes a document as an application does. The index must exist.
func (c *Cluster) Delete(k Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.indices[k.Index].remove(k.ID, k.Routing)
}

// Latest returns the most recently written documents of an index, at most n of each shard.
func (c *Cluster) Latest(index string, n int) (all []Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.indices[index].shards {
		docs := slices.SortedFunc(maps.Values(s.docs), func(a, b *document) int { return cmp.Compare(b.seq, a.seq) })
		for _, d := range docs[:min(n, len(docs))] {
			all = append(all, Key{index, d.id, d.routing})
		}
	}
	return all
}

// Lose removes documents without an operation, and the sequence numbers after the last remaining document, like the restart of a node that
// had not persisted acknowledged writes.
func (c *Cluster) Lose(all ...Key) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range all {
		s := c.indices[k.Index].shardOf(k.ID, k.Routing)
		last := s.docs[k.ID] != nil && s.docs[k.ID].seq == s.max
		if delete(s.docs, k.ID); !last {
			continue
		}
		s.max = -1
		for _, d := range s.docs {
			s.max = max(s.max, d.seq)
		}
	}
}

// Do sends a request as an operator does and returns the status of the response.
func (c *Cluster) Do(method, path, body string) int {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, path, nil)
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.serve(r, []byte(body))
	w.WriteHeader(a.status)
	return w.Code
}

var _ http.Handler = (*Cluster)(nil)
