package state

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Sessions returns the names of the sessions that are kept in a place. connect opens a cluster.
func Sessions(ctx context.Context, at config.Stored, connect func(c config.Cluster, role string) (*target.Client, error)) ([]string, error) {
	cluster, role := at.Which()
	switch {
	case at.State.File != "":
		return []string{""}, nil
	case at.State.Bucket.URI != "":
		objects, err := repo.OpenObjects(ctx, at.State.Bucket.URI, at.State.Bucket.Options())
		if err != nil {
			return nil, err
		}
		return s3cms.Sessions(ctx, objects)
	case cluster.Host == "":
		return nil, fmt.Errorf("the location of sessions is missing; give --target-host, --coordinator-host, --coordinator-bucket or --coordinator-file: %w", fault.ErrConfig)
	}
	client, err := connect(cluster, role)
	if err != nil {
		return nil, err
	}
	names, err := oscms.Sessions(ctx, client)
	return names, errors.Join(err, client.Close())
}
