package engine

import "sync"

// Solo lets the leases of one process run concurrently, except for leases that are worked on alone, so that a crash of the process is due
// to the only item in progress. The nil Solo is for a process with one lease at a time.
type Solo struct {
	mu      sync.Mutex
	running int
	alone   bool
}

// Enter reports whether a lease may start now. If it returns true, the caller must call Leave afterwards.
func (s *Solo) Enter(alone bool) bool {
	if s == nil {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.alone || alone && s.running > 0 {
		return false
	}
	s.running++
	s.alone = alone
	return true
}

// Leave ends the work on a lease.
func (s *Solo) Leave() {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running--
	s.alone = false
}
