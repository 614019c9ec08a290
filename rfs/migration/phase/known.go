package phase

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// known caches what the leases of a process have found out about indices. The zero value is empty.
type known struct {
	mu      sync.Mutex
	entries map[string]knownEntry    // by index of the snapshot
	claims  map[string]string        // by target index: its recorded UUID, which never changes
	checked map[string]time.Duration // by target index: when its UUID was last verified; monotonic clock
	derived map[string]string        // by index: the decisions of its entry that were verified with its metadata
	// generation is the position of the snapshot in its chain; nil before it is read.
	generation *plan.Generation
	streams    map[string]string // data streams of the snapshot by backing index; nil before they are read
}

type knownEntry struct {
	entry plan.Entry
	at    time.Duration // monotonic clock
}

// errNoIndex means that the index of an item could not be created.
var errNoIndex = errors.New("the index is not on the target")

// entry returns the entry of an index, read at most maxAge ago.
func (s *Session) entry(ctx context.Context, index string, maxAge time.Duration) (plan.Entry, error) {
	now := s.Runner.Clock.Read().Mono
	s.known.mu.Lock()
	was, found := s.known.entries[index]
	s.known.mu.Unlock()
	if found && now-was.at < maxAge {
		return was.entry, nil
	}
	e, err := session.EntriesOf(s.Coordinator).Read(ctx, index)
	if err != nil {
		return plan.Entry{}, err
	}
	if e.State == session.PhaseFailed {
		return plan.Entry{}, fmt.Errorf("%s: %w", e.Error, errNoIndex)
	}
	entry, err := s.readEntry(ctx, e)
	if err != nil {
		return plan.Entry{}, err
	}
	entry.Ends = e.Ends
	s.keepEntry(index, entry)
	return entry, nil
}

// KnownEntry returns the entry of an index as it was last read, regardless of its age; false if it was never read.
func (s *Session) KnownEntry(index string) (plan.Entry, bool) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	e, found := s.known.entries[index]
	return e.entry, found
}

// keepEntry caches an entry that was just read.
func (s *Session) keepEntry(index string, entry plan.Entry) {
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.entries == nil {
		s.known.entries = map[string]knownEntry{}
	}
	s.known.entries[index] = knownEntry{entry, s.Runner.Clock.Read().Mono}
}

// checkTargets compares the UUIDs of an entry's target indices with the recorded ones, and records them if none are recorded. It does not
// repeat a check that is at most maxAge old. It returns an engine.ErrTargetReplaced if a target index is missing or has another UUID.
func (s *Session) checkTargets(ctx context.Context, e plan.Entry, maxAge time.Duration) error {
	if s.Targets == nil {
		return nil
	}
	for _, name := range e.Naming.Targets() {
		now := s.Runner.Clock.Read().Mono
		s.known.mu.Lock()
		at, checked := s.known.checked[name]
		s.known.mu.Unlock()
		if checked && now-at < maxAge {
			continue
		}
		if err := s.checkTarget(ctx, e, name); err != nil {
			return err
		}
		s.known.mu.Lock()
		if s.known.checked == nil {
			s.known.checked = map[string]time.Duration{}
		}
		s.known.checked[name] = now
		s.known.mu.Unlock()
	}
	return nil
}

// checkTarget is checkTargets for one target index, without the cache.
func (s *Session) checkTarget(ctx context.Context, e plan.Entry, name string) error {
	is, err := s.targetUUID(ctx, e, name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("target index %s does not exist: %w", name, engine.ErrTargetReplaced)
	}
	if err != nil {
		return fmt.Errorf("target index %s: %w", name, err)
	}
	s.known.mu.Lock()
	was, claimed := s.known.claims[name]
	s.known.mu.Unlock()
	if !claimed {
		if was, err = session.EntriesOf(cmp.Or(s.Root, s.Coordinator)).ClaimTarget(ctx, name, is); err != nil {
			return err
		}
		s.known.mu.Lock()
		if s.known.claims == nil {
			s.known.claims = map[string]string{}
		}
		s.known.claims[name] = was
		s.known.mu.Unlock()
	}
	if was != is {
		return fmt.Errorf("target index %s has the UUID %s, this session started with %s: it was deleted and created again; start a new session (--session-name) to send everything to it: %w",
			name, is, was, engine.ErrTargetReplaced)
	}
	return nil
}

// targetUUID returns the UUID of a target index or data stream of an entry.
func (s *Session) targetUUID(ctx context.Context, e plan.Entry, name string) (string, error) {
	if e.Create && s.Streams != nil {
		return s.Streams(ctx, name)
	}
	return s.Targets.IndexUUID(ctx, name)
}
