package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// HeldCounts reads the number of documents of a target index.
type HeldCounts interface {
	Refresh(ctx context.Context, index string) error
	Count(ctx context.Context, index string) (int64, error)
}

// CountHeld returns the number of documents that the target has under a name. there is false if no such index exists or the target does
// not permit counting it.
func CountHeld(ctx context.Context, counts HeldCounts, name string, log *slog.Logger) (n int64, there bool, err error) {
	n, err = counts.Count(ctx, name)
	if err == nil && n == 0 { // documents may exist that are not searchable yet
		if err = counts.Refresh(ctx, name); err == nil {
			n, err = counts.Count(ctx, name)
		}
	}
	switch {
	case err == nil:
		return n, true, nil
	case errors.Is(err, fs.ErrNotExist), fault.HasStatus(err, http.StatusNotFound):
		return 0, false, nil
	case errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
		return 0, false, fmt.Errorf("count documents of %s: %w", name, err)
	}
	log.WarnContext(ctx, "the target does not let see whether an index has documents", "index", name, "reason", fault.Text(err))
	return 0, false, nil
}

// mostHeld is the maximum number of indices that a message names.
const mostHeld = 20

// Holder is the clause of a message that names the source of the ids.
type Holder string

// The holders.
const (
	SnapshotHas Holder = "the snapshot has"
	FilesHave   Holder = "the files have" // without versions
)

// HeldError returns a fault.ErrConfig that names the indices with documents and the choices of --existing-documents.
func HeldError(held map[string]int64, of Holder) error {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(held)) {
		if len(names) == mostHeld {
			names = append(names, fmt.Sprintf("and %d more", len(held)-mostHeld))
			break
		}
		names = append(names, fmt.Sprintf("%s (%d)", name, held[name]))
	}
	choices := "--existing-documents overwrite replaces them, keep leaves them as they are"
	if of == SnapshotHas {
		choices += ", newer replaces them unless their version is higher"
	}
	return fmt.Errorf("the target has documents already in the indices %s; choose for those whose ids %s, too: %s: %w", strings.Join(names, ", "), of, choices, fault.ErrConfig)
}
