package importer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// maxState bounds the state of an export that is looked at.
const maxState = 1 << 30

// openState returns why the state of an export, made by an rfsd that wrote no manifest, is not that of a finished one;
// empty when it is finished. It reads a copy: the export may be running.
func (m *Import) openState(ctx context.Context, name string) (why string, err error) {
	dir, err := os.MkdirTemp("", "rfsd-import-")
	if err != nil {
		return "", fmt.Errorf("copy of %s: %w", name, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "coordinator.db")
	if err := m.copyTo(ctx, name, path); err != nil {
		return "", fmt.Errorf("copy of %s: %w", name, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 || info.Size() > maxState {
		return "whether the export is complete cannot be read", err
	}
	store, err := boltcms.Open(path, time.Now)
	if err != nil {
		return "whether the export is complete cannot be read: " + err.Error(), nil
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	c, err := cms.New(cms.Config{Store: store, Creator: "import"})
	if err != nil {
		return "", err
	}
	p, err := session.Of(c).Phase(ctx, session.DocsPhase)
	if err != nil {
		return "whether the export is complete cannot be read: " + err.Error(), nil
	}
	var end struct {
		Failed int `json:"failedItems"`
	}
	switch {
	case p.State != session.PhaseCompleted:
		return "the export is not complete", nil
	case json.Unmarshal(p.Body, &end) == nil && end.Failed > 0:
		return fmt.Sprintf("%d items of the export failed", end.Failed), nil
	}
	return "", nil
}

func (m *Import) copyTo(ctx context.Context, name, path string) error {
	r, err := m.Source.Open(ctx, name, 0, -1)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return errors.Join(err, r.Close())
	}
	_, err = io.Copy(f, io.LimitReader(r, maxState+1))
	return errors.Join(err, f.Close(), r.Close())
}
