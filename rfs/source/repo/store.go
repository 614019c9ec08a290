package repo

import (
	"path/filepath"
)

// storer is a repository below the root of a larger store.
type storer interface {
	// Store returns the whole store, read as the repository is; false when it has none.
	Store() (Repository, bool)
}

func storeOf(r Repository) (Repository, bool) {
	if s, ok := r.(storer); ok {
		return s.Store()
	}
	return nil, false
}

// Store returns the whole bucket: OpenSearch may put the hash of a shard's path before the base path of the repository, so that the shard's
// files are outside it.
func (r *S3) Store() (Repository, bool) {
	at, ok := r.whole()
	whole := *r
	whole.place = at
	return &whole, ok
}

// Store returns the whole store with the same retries.
func (r *Retrying) Store() (Repository, bool) {
	whole, ok := storeOf(r.Repository)
	return &Retrying{Repository: whole, policy: r.policy}, ok
}

// Store returns the whole store with read-ahead of the same budget.
func (a *ReadAhead) Store() (Repository, bool) {
	whole, ok := storeOf(a.Repository)
	wider := NewReadAhead(whole, ReadAheadOptions{Chunk: a.chunk, Depth: a.depth, Pace: a.pace})
	wider.budget, wider.load = a.budget, a.load
	return wider, ok
}

// Store returns the whole store with the same counts and log.
func (c *Counting) Store() (Repository, bool) {
	whole, ok := storeOf(c.Repository)
	return &Counting{Repository: whole, tally: c.tally}, ok
}

// aboveOf returns the repository one level above r.
func aboveOf(r Repository) (Repository, bool) {
	if a, ok := r.(interface{ Above() (Repository, bool) }); ok {
		return a.Above()
	}
	return nil, false
}

// Above returns the parent directory; false if it cannot be read.
func (d *Dir) Above() (Repository, bool) {
	above, err := NewDir(filepath.Dir(d.path))
	return above, err == nil && above.path != d.path
}

// Above returns the bucket with the prefix shortened by one level; false without a prefix.
func (r *S3) Above() (Repository, bool) {
	at, ok := r.above()
	above := *r
	above.place = at
	return &above, ok
}

// Above returns the repository one level above, with the same retries.
func (r *Retrying) Above() (Repository, bool) {
	above, ok := aboveOf(r.Repository)
	return &Retrying{Repository: above, policy: r.policy}, ok
}

// Above returns the repository one level above, without read-ahead.
func (a *ReadAhead) Above() (Repository, bool) { return aboveOf(a.Repository) }

// Above returns the repository one level above, with the same counts and log.
func (c *Counting) Above() (Repository, bool) {
	above, ok := aboveOf(c.Repository)
	return &Counting{Repository: above, tally: c.tally}, ok
}
