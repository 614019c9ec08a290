package creation

import (
	"hash/maphash"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Reported is the set of changes that a process has already logged, by hash. The nil set is empty. It is safe for concurrent use.
type Reported struct {
	seed maphash.Seed
	mu   sync.Mutex
	seen map[uint64]bool
}

// NewReported returns an empty set.
func NewReported() *Reported {
	return &Reported{seed: maphash.MakeSeed(), seen: map[uint64]bool{}}
}

// Add adds a change of an object.
func (r *Reported) Add(object, rule, path, detail string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen[maphash.Comparable(r.seed, [4]string{object, rule, path, detail})] = true
}

// Has reports whether a change of an object was added.
func (r *Reported) Has(object, rule, path, detail string) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[maphash.Comparable(r.seed, [4]string{object, rule, path, detail})]
}

// New returns the changes that were not added before.
func (r *Reported) New(changes []metadata.Change) []metadata.Change {
	return slices.DeleteFunc(slices.Clone(changes), func(c metadata.Change) bool { return r.Has(c.Index, c.Rule, c.Path, c.Detail) })
}
