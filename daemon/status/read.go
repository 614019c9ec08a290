package status

import (
	"context"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Read reads a session from its store, with its items of the coordinator's kind, sorted by index, shard and cursor.
func Read(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	r, err := ReadStore(ctx, store)
	if err != nil {
		return nil, nil, err
	}
	return Sum(r)
}

// ReadStore reads the contents of the store for the items of the coordinator's kind.
func ReadStore(ctx context.Context, store *cms.Coordinator) (*progress.Reading, error) {
	switch store.Kind() {
	case importer.Kind:
		return ReadImportStore(ctx, store)
	case consume.Kind:
		return ReadStreamStore(ctx, store)
	}
	return progress.ReadStore(ctx, store)
}

// Sum returns the state of a session from a reading of its store, with its items sorted by index, shard and cursor. It is a pure function.
// It returns fault.ErrCorrupt or fault.ErrConfig for an import or a stream that this version cannot read.
func Sum(r *progress.Reading) (*progress.Migration, []Item, error) {
	switch r.Kind {
	case importer.Kind:
		return sumImport(r)
	case consume.Kind:
		return sumStream(r)
	}
	m, items := r.Sum()
	out := make([]Item, 0, len(items))
	for _, it := range items {
		if x, ok := itemOf(it, m.ReadAt); ok {
			out = append(out, x)
		}
	}
	inOrder(out)
	return m, out, nil
}

// ReadAny reads a session of any kind.
func ReadAny(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []Item, error) {
	m, items, err := Read(ctx, store)
	if err != nil || m.Totals.Items > 0 || m.Snapshot != "" {
		return m, items, err
	}
	files, windows, err := ReadImport(ctx, store)
	if err != nil {
		return m, items, err
	}
	if files.Totals.Items > 0 || files.Complete {
		return files, windows, nil
	}
	stream, partitions, err := ReadStream(ctx, store)
	if err != nil || stream.Stream == nil {
		return m, items, err
	}
	return stream, partitions, nil
}
