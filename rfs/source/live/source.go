package live

import (
	"context"
	"fmt"
	"sync"
)

// Source creates snapshots on a source cluster, which it asks for the first time when a snapshot is due. It is safe for concurrent use.
type Source struct {
	Connect    func(ctx context.Context) (API, error)
	Repository Repository
	Indices    []string // of the snapshot; none: all
	Global     bool     // with the state of the cluster
	Partial    bool     // also without shards that are missing

	mu      sync.Mutex
	cluster *Cluster
}

func (s *Source) open(ctx context.Context) (*Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cluster != nil {
		return s.cluster, nil
	}
	api, err := s.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("source: %w", err)
	}
	s.cluster, err = Open(ctx, api)
	return s.cluster, err
}

// Register makes the repository known to the source.
func (s *Source) Register(ctx context.Context) (registered bool, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	return c.RegisterRepository(ctx, s.Repository)
}

// Create starts a snapshot.
func (s *Source) Create(ctx context.Context, name string) (created bool, err error) {
	c, err := s.open(ctx)
	if err != nil {
		return false, err
	}
	return c.CreateSnapshot(ctx, Request{Repository: s.Repository.Name, Name: name, Indices: s.Indices, Global: s.Global, Partial: s.Partial})
}

// State is the snapshot as the source sees it.
func (s *Source) State(ctx context.Context, name string) (State, error) {
	c, err := s.open(ctx)
	if err != nil {
		return State{}, err
	}
	return c.Snapshot(ctx, s.Repository.Name, name)
}
