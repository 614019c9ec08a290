// Package state opens the state of sessions. The functions that open an existing session create neither files nor indices; the state
// of a new one is created by [Place.Create] and [CreateFile].
package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// ErrNone means that the session does not exist. Errors that wrap it name the sessions that do.
var ErrNone = fmt.Errorf("no session of this name was started there: check --session-name, and where its state is (--target-host, --coordinator-host, --coordinator-bucket or --coordinator-file): %w", fault.ErrConfig)

// OpenFile opens the state in a file. It returns ErrNone if the file does not exist.
func OpenFile(path string) (*boltcms.Store, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("coordinator file %s does not exist: %w", path, ErrNone)
	}
	return boltcms.Open(path, time.Now)
}

// OpenBucket opens a session in a bucket. It returns ErrNone if the session does not exist.
func OpenBucket(ctx context.Context, b config.StateBucket, session string) (*s3cms.Store, *repo.Objects, error) {
	objects, err := repo.OpenObjects(ctx, b.URI, b.Options())
	if err != nil {
		return nil, nil, err
	}
	store, err := s3cms.Join(ctx, s3cms.Config{Bucket: objects, Session: session})
	if errors.Is(err, s3cms.ErrNoSession) {
		names, _ := s3cms.Sessions(ctx, objects) // they only help
		return nil, nil, fmt.Errorf("%s holds no session %s%s: %w", objects.URI(), shown(session), others(names), ErrNone)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("session %q in %s: %w", session, objects.URI(), err)
	}
	return store, objects, nil
}

// OpenCluster opens a session in a cluster. It returns ErrNone if the session does not exist.
func OpenCluster(ctx context.Context, client *target.Client, session string) (*oscms.Store, error) {
	if client.Serverless() {
		return nil, target.ErrServerless
	}
	index := oscms.ControlIndex(session)
	exists, err := client.IndexExists(ctx, index)
	switch {
	case err != nil:
		return nil, fmt.Errorf("coordination in %s: %w", client.Name(), err)
	case !exists:
		names, _ := oscms.Sessions(ctx, client) // they only help
		return nil, fmt.Errorf("%s holds no session %s%s: %w", client.Name(), shown(session), others(names), ErrNone)
	}
	// Without the request that finds out whether the cluster runs scripts: it is a write, which is refused where disks are full.
	store, err := oscms.Open(ctx, oscms.Config{Client: client, Session: session, Mode: oscms.CAS})
	if err != nil {
		return nil, fmt.Errorf("coordination in %s: %w", client.Name(), err)
	}
	return store, nil
}

// maxNamed bounds the sessions that an error names.
const maxNamed = 20

// others returns the part of an error that names the sessions that exist.
func others(names []string) string {
	if len(names) == 0 {
		return ""
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		if quoted[i] = strconv.Quote(name); name == "" {
			quoted[i] = "the one without a name"
		}
	}
	return ", only " + fault.Names(quoted, maxNamed)
}

// shown returns the name of a session in an error.
func shown(session string) string {
	if session == "" {
		return "without a name"
	}
	return strconv.Quote(session)
}
