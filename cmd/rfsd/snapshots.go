package main

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/live"
)

// snapshots creates snapshots on the source cluster, which it asks for the first time when a snapshot is due.
type snapshots struct {
	o       options
	mu      sync.Mutex
	cluster *live.Cluster
}

func (s *snapshots) open(ctx context.Context) (*live.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != nil {
		return s.cluster, nil
	}
	client, err := target.New(ctx, s.o.origin.cluster)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	s.cluster, err = live.Open(ctx, client)
	return s.cluster, err
}

// Register makes the repository known to the source.
func (s *snapshots) Register(ctx context.Context) (registered bool, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	return c.RegisterRepository(ctx, live.Repository{Name: s.o.origin.name, Type: s.o.origin.kind, Settings: s.o.origin.settings})
}

// Create starts the snapshot, of the allowed indices when all of them are named.
func (s *snapshots) Create(ctx context.Context, name string) (created bool, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	r := live.Request{Repository: s.o.origin.name, Name: name, Global: s.o.origin.global, Partial: s.o.allowPartial}
	if s.o.indices.Exclude == nil && !slices.ContainsFunc(s.o.indices.Include, func(p pattern.Pattern) bool { return !p.Exact() }) {
		r.Indices = s.o.indices.Include.Strings()
	}
	return c.CreateSnapshot(ctx, r)
}

// State is the snapshot as the source sees it.
func (s *snapshots) State(ctx context.Context, name string) (live.State, error) {
	c, err := s.open(ctx)
	if err != nil {
		return live.State{}, err
	}
	return c.Snapshot(ctx, s.o.origin.name, name)
}
