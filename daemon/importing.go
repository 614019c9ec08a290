package daemon

import (
	"context"
	"strings"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/importer"
	"github.com/rfsd/rfsd/rfs/progress"
)

// Import returns the task of importing files of documents. Its items are windows of files.
func Import() Task { return importing{} }

type importing struct{}

func (importing) Read(ctx context.Context, store *cms.Coordinator) (*progress.Migration, []status.Item, error) {
	return status.ReadImport(ctx, store)
}

func (importing) Over(ctx context.Context, store *cms.Coordinator, l Lease) (string, error) {
	return importer.Over(ctx, store.Store(), l.Item, l.Holder)
}

// Free releases all windows of the process, including those it had not reported yet.
func (importing) Free(ctx context.Context, store *cms.Coordinator, holder string, l *Lease, cause cms.Cause) error {
	if holder == "" {
		holder = l.Holder[:max(strings.LastIndexByte(l.Holder, '.'), 0)]
	}
	if holder == "" {
		return nil
	}
	return importer.Free(ctx, store.Store(), holder, cause == cms.CauseNone)
}
