package state

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/overtime"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Place is the location of the state of a session that processes share: a bucket if one is named, otherwise a cluster.
type Place struct {
	Session string
	Bucket  config.StateBucket
	Cluster target.Config
	Apart   bool // items of one shard may be worked on apart
	Join    bool // the session exists
}

// Create opens the state of a session, which it creates if it does not exist. With Join it returns cms.ErrStoreGone then, because the
// session was deleted. closeStore closes it.
func (p Place) Create(ctx context.Context) (store cms.Store, closeStore func() error, err error) {
	if p.Bucket.URI != "" {
		objects, err := repo.OpenObjects(ctx, p.Bucket.URI, p.Bucket.Options())
		if err != nil {
			return nil, nil, err
		}
		open := s3cms.Open
		if p.Join {
			open = s3cms.Join
		}
		store, err := open(ctx, s3cms.Config{Bucket: objects, Session: p.Session})
		switch {
		case p.Join && (errors.Is(err, s3cms.ErrNoSession) || errors.Is(err, fault.ErrNoBucket)):
			return nil, nil, fmt.Errorf("%s: %w", p.Bucket.URI, cms.ErrStoreGone)
		case err != nil:
			return nil, nil, fmt.Errorf("the state of the work cannot be kept in %s (--coordinator-bucket): %w", p.Bucket.URI, err)
		}
		return store, func() error { return nil }, nil
	}
	p.Cluster.Purpose = "store"
	client, err := target.New(ctx, p.Cluster)
	if err != nil {
		return nil, nil, fmt.Errorf("coordinator: %w", err)
	}
	if client.Serverless() {
		return nil, nil, errors.Join(target.ErrServerless, client.Close())
	}
	kept, err := oscms.Open(ctx, oscms.Config{Client: client, Session: p.Session, Apart: p.Apart, Join: p.Join})
	switch {
	case errors.Is(err, cms.ErrStoreGone):
		return nil, nil, errors.Join(fmt.Errorf("coordination in %s: %w", client.Name(), err), client.Close())
	case err != nil:
		err = fmt.Errorf("the state of the work cannot be kept in %s (--coordinator-file keeps it in a file): %w", client.Name(), err)
		return nil, nil, errors.Join(err, client.Close())
	}
	return kept, client.Close, nil
}

// removeTimeout limits how long Check removes its session after it was canceled.
const removeTimeout = 5 * time.Second

// Check verifies that a bucket can keep the state of a session, by a session of another name that it creates and removes. It returns the
// time of the bucket and its uncertainty.
func (p Place) Check(ctx context.Context) (now time.Time, unsure time.Duration, err error) {
	p.Session, p.Join = "plan-"+strings.ToLower(rand.Text()), false
	store, closeStore, err := p.Create(ctx)
	if err != nil {
		return now, unsure, err
	}
	now, unsure, err = store.Now(ctx)
	longer, done := overtime.Context(ctx, removeTimeout)
	defer done()
	return now, unsure, errors.Join(err, closeStore(), p.Remove(longer))
}

// CheckFile verifies that a file can keep the state of a session. It returns an error if another process has opened it, or if the file
// does not exist and cannot be created.
func CheckFile(path string) error {
	file, err := OpenFile(path)
	if err == nil {
		return file.Close()
	}
	if !errors.Is(err, ErrNone) {
		return err
	}
	dir := filepath.Dir(path)
	for _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir); _, err = os.Stat(dir) {
		dir = filepath.Dir(dir) // CreateFile creates missing directories
	}
	created, err := os.CreateTemp(dir, ".rfsd-plan-")
	if err != nil {
		return fmt.Errorf("coordinator file %s cannot be created: %w", path, err)
	}
	return errors.Join(created.Close(), os.Remove(created.Name()))
}

// Remove removes the state of a session.
func (p Place) Remove(ctx context.Context) error {
	if p.Bucket.URI != "" {
		objects, err := repo.OpenObjects(ctx, p.Bucket.URI, p.Bucket.Options())
		if err != nil {
			return err
		}
		_, _, err = s3cms.Drop(ctx, objects, p.Session)
		return err
	}
	client, err := target.New(ctx, p.Cluster)
	if err != nil {
		return fmt.Errorf("coordinator: %w", err)
	}
	_, err = oscms.Drop(ctx, client, p.Session)
	return errors.Join(err, client.Close())
}

// CreateFile opens the state in a file, which it creates if it does not exist. Without a path it is a temporary file, which closing
// removes, as for a dry run.
func CreateFile(path string) (cms.Store, func() error, error) {
	temporary, open := "", boltcms.Open
	if path == "" {
		dir, err := os.MkdirTemp("", "rfsd-discard-")
		if err != nil {
			return nil, nil, fmt.Errorf("state of the dry run: %w", err)
		}
		temporary, path, open = dir, filepath.Join(dir, "coordinator.db"), boltcms.OpenTemporary
	}
	store, err := open(path, time.Now)
	if err != nil {
		return nil, nil, err // it names the file
	}
	return store, func() error {
		err := store.Close()
		if temporary != "" {
			err = errors.Join(err, os.RemoveAll(temporary))
		}
		return err
	}, nil
}
