package repo

// storer is a repository that lies below the root of a larger store.
type storer interface {
	// Store returns the whole store, read as the repository is; false when there is none.
	Store() (Repository, bool)
}

func storeOf(r Repository) (Repository, bool) {
	if s, ok := r.(storer); ok {
		return s.Store()
	}
	return nil, false
}

// Store returns the whole bucket: OpenSearch may put the hash of a shard's path before the
// base path of the repository, so that its files lie outside of it.
func (r *S3) Store() (Repository, bool) {
	whole := *r
	whole.prefix = ""
	return &whole, r.prefix != ""
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
	wider.budget = a.budget
	return wider, ok
}

// Store returns the whole store with the same counts and log.
func (c *Counting) Store() (Repository, bool) {
	whole, ok := storeOf(c.Repository)
	return &Counting{Repository: whole, tally: c.tally}, ok
}
