package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// coordination is the opened state of one migration.
type coordination struct {
	*cms.Coordinator
	store   cms.Store
	session string
	place   string         // where it is kept, for messages
	client  *target.Client // of the cluster that keeps it, nil for others
	bucket  *repo.Objects  // that keeps it, nil for others
	close   func() error
}

// openCoordination opens the state of an existing session. It never creates one.
func openCoordination(ctx context.Context, call *config.Call, at config.Stored) (*coordination, error) {
	file := at.State.File
	cluster, role := at.Which()
	var s *coordination
	var err error
	switch {
	case file != "":
		s, err = openFile(file)
	case at.State.Bucket.URI != "":
		s, err = openBucket(ctx, at.State.Bucket, at.State.Session.Name)
	case cluster.Host != "":
		s, err = openCluster(ctx, call, cluster, role, at.State.Session.Name)
	default:
		err = fmt.Errorf("the location of the state is missing; give --target-host, --coordinator-host, --coordinator-bucket or --coordinator-file: %w", fault.ErrConfig)
	}
	if err != nil {
		return nil, err
	}
	s.Coordinator = cms.New(cms.Config{Store: s.store, Creator: "rfsctl"})
	s.session = at.State.Session.Name
	return s, nil
}

// origin is the source of the state that a command shows.
type origin struct {
	node  bool // a running process; otherwise the store
	asked config.Asked
	store config.Stored
	err   error // why none is
}

// originOf returns where the settings name the session.
func originOf(e config.Either) origin {
	asked, node, err := throughNode(e)
	return origin{node: node, asked: asked, store: e.Stored(), err: err}
}

// look asks a node for path, or reads the same in the store.
func look[T any](ctx context.Context, call *config.Call, from origin, path string, query url.Values, read func(*coordination) (T, error)) (v T, err error) {
	if from.err != nil {
		return v, from.err
	}
	if from.node {
		err = ask(ctx, from.asked, path, query, &v)
		return v, err
	}
	s, err := openCoordination(ctx, call, from.store)
	if err != nil {
		return v, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return read(s)
}

// read reads the session, with its items in order.
func (s *coordination) read(ctx context.Context) (*progress.Migration, []status.Item, error) {
	m, items, err := status.ReadAny(ctx, s.Coordinator)
	if err != nil {
		return nil, nil, fmt.Errorf("state of the work in %s: %w", s.place, err)
	}
	m.Session = s.session
	return m, items, nil
}

// failures reads what failed in the session.
func (s *coordination) failures(ctx context.Context, m *progress.Migration) (*status.Failures, error) {
	f, err := status.ReadRefused(ctx, s.Coordinator)
	if err != nil {
		return nil, fmt.Errorf("state of the work in %s: %w", s.place, err)
	}
	return f.With(m), nil
}

func openFile(path string) (*coordination, error) {
	store, err := state.OpenFile(path)
	if err != nil {
		return nil, err
	}
	return &coordination{store: store, place: path, close: store.Close}, nil
}

func openBucket(ctx context.Context, b config.StateBucket, session string) (*coordination, error) {
	store, objects, err := state.OpenBucket(ctx, b, session)
	if err != nil {
		return nil, err
	}
	return &coordination{store: store, place: objects.URI(), bucket: objects, close: func() error { return nil }}, nil
}

// connect returns a client of a cluster, without sending a request.
func connect(ctx context.Context, call *config.Call, c config.Cluster, role string) (*target.Client, error) {
	conf := c.Config(role, "rfsctl/"+version, 0)
	conf.Memory = call.Memory
	for _, risk := range conf.Risks() {
		fmt.Fprintln(call.Err, "rfsctl: warning:", risk)
	}
	return target.New(ctx, conf)
}

func openCluster(ctx context.Context, call *config.Call, c config.Cluster, role, session string) (*coordination, error) {
	client, err := connect(ctx, call, c, role)
	if err != nil {
		return nil, err
	}
	store, err := state.OpenCluster(ctx, client, session)
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	return &coordination{store: store, place: client.Name(), client: client, close: client.Close}, nil
}
