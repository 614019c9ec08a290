package worker

import (
	"context"
	"fmt"
)

// finisher is a Destination that is told when no item is open any more, such as an export directory.
type finisher interface {
	// Finish ends the destination. missing is why it is not complete; empty when it is.
	Finish(missing string) error
}

// Finish writes the manifest of the export.
func (f files) Finish(missing string) error { return f.dir.Finish(missing) }

// Finish ends the destination behind the limit.
func (l limited) Finish(missing string) error {
	if f, ok := l.Destination.(finisher); ok {
		return f.Finish(missing)
	}
	return nil
}

// finishDestination ends a destination that has an end, after the last item. It may be repeated: a process may die
// between the end of the documents and the end of the destination.
func (s *Session) finishDestination(ctx context.Context) error {
	if s.Runner == nil {
		return nil
	}
	f, ok := s.Runner.Destination.(finisher)
	if !ok {
		return nil
	}
	failed := 0
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return fmt.Errorf("list items: %w", err)
		}
		if item.FailedItem() {
			failed++
		}
	}
	missing := ""
	if failed > 0 {
		missing = fmt.Sprintf("%d items failed; the same command tries them again", failed)
	}
	return f.Finish(missing)
}
