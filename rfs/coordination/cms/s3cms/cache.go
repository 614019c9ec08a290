package s3cms

import (
	"sync"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	maxCached      = 100_000  // objects whose versions are kept
	maxCachedBytes = 64 << 20 // of objects whose content is kept, in bytes of JSON
)

// cached is the last content of an object that this process read or wrote. It is valid while the object has the same version.
type cached struct {
	version string
	size    int
	item    cms.Item // if it is an item
	rev     int64    // if it is a record
}

// cache keeps contents of objects by their names. When it is full, it drops arbitrary ones.
type cache struct {
	mu      sync.Mutex
	objects map[string]cached
	bytes   int
}

func newCache() *cache { return &cache{objects: map[string]cached{}} }

func (c *cache) get(name string) (cached, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	o, ok := c.objects[name]
	return o, ok
}

func (c *cache) put(name string, o cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes += o.size - c.objects[name].size
	c.objects[name] = o
	for other, x := range c.objects {
		if len(c.objects) <= maxCached && c.bytes <= maxCachedBytes {
			break
		}
		c.bytes -= x.size
		delete(c.objects, other)
	}
}

func (c *cache) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bytes -= c.objects[name].size
	delete(c.objects, name)
}
