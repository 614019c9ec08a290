package snapshot

// Repository is the repository from which the snapshot was read: a part of the cluster's state is kept in
// indices, whose documents have to be read for it.
func (s *Snapshot) Repository() Repository { return s.catalog.repo }
