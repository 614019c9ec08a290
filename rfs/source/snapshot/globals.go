package snapshot

// Repository is where the snapshot was read from: a part of the cluster's state is kept in
// indices, whose documents have to be read for it.
func (s *Snapshot) Repository() Repository { return s.catalog.repo }
