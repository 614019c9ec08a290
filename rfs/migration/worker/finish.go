package worker

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/migration/engine"
)

// finishDestination ends a destination that has an end, after the last item. It may be repeated: a process may die
// between the end of the documents and the end of the destination.
func (s *Session) finishDestination(ctx context.Context) error {
	if s.Runner == nil {
		return nil
	}
	f, ok := s.Runner.Destination.(engine.Finisher)
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
