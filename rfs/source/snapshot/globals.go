package snapshot

// Repository returns the repository of the snapshot. A part of the cluster's state is in the documents of indices, which have to be read
// for it.
func (s *Snapshot) Repository() Repository { return s.catalog.repo }
