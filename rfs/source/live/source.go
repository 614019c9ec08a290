package live

import (
	"context"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// Source creates snapshots on a source cluster, which it first contacts when a snapshot is due. It is safe for concurrent use.
type Source struct {
	Connect    func(ctx context.Context) (rest.API, error)
	Repository Repository
	Indices    []string // of the snapshot; empty: all
	Without    []string // are excluded; they need not exist
	Vanishing  bool     // Indices need not exist
	// Selects reports whether an index is migrated. Create refuses closed indices that are, if the snapshot cannot contain them. Required.
	Selects func(name string) bool
	Named   bool // the snapshot names the indices for which Selects is true when it is created, instead of Indices and Without
	Global  bool // include the state of the cluster
	Partial bool // even if shards are missing

	mu      sync.Mutex
	cluster *Cluster
}

// Open returns the source cluster. The first call reads its version.
func (s *Source) Open(ctx context.Context) (*Cluster, error) {
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

// Register registers the repository at the source.
func (s *Source) Register(ctx context.Context) (registered bool, err error) {
	c, err := s.Open(ctx)
	if err != nil {
		return false, err
	}
	return c.RegisterRepository(ctx, s.Repository)
}

// Create starts a snapshot.
func (s *Source) Create(ctx context.Context, name string) (created bool, err error) {
	c, err := s.Open(ctx)
	if err != nil {
		return false, err
	}
	if err := c.refuseClosed(ctx, s.Selects); err != nil {
		return false, err
	}
	r := Request{Repository: s.Repository.Name, Name: name, Indices: s.Indices, Without: s.Without, Vanishing: s.Vanishing, Global: s.Global, Partial: s.Partial}
	if s.Named {
		r.Without, r.Vanishing = nil, true
		if r.Indices, err = c.expressions(ctx, s.Selects); err != nil {
			return false, err
		}
	}
	return c.CreateSnapshot(ctx, r)
}

// State returns the state of the snapshot at the source.
func (s *Source) State(ctx context.Context, name string) (State, error) {
	c, err := s.Open(ctx)
	if err != nil {
		return State{}, err
	}
	return c.Snapshot(ctx, s.Repository.Name, name)
}

// Delete deletes a snapshot that the session created. A missing snapshot is not an error.
func (s *Source) Delete(ctx context.Context, name string) error {
	c, err := s.Open(ctx)
	if err != nil {
		return err
	}
	return c.DeleteSnapshot(ctx, s.Repository.Name, name)
}

// RepositorySettings returns the type of a repository and its settings in the form that the source cluster expects. Without a kind, uri,
// the address of the repository for this process, determines it; location is its location for the source, "" if that is the same. It
// returns fault.ErrConfig if the two do not define a repository.
func RepositorySettings(kind, uri, location, region string) (string, map[string]string, error) {
	usage := func(format string, args ...any) (string, map[string]string, error) {
		return "", nil, fmt.Errorf(format+": %w", append(args, fault.ErrConfig)...)
	}
	scheme, rest, ok := strings.Cut(uri, "://")
	if !ok {
		scheme, rest = "file", uri
	}
	if kind == "" {
		kind = map[string]string{"file": "fs", "s3": "s3", "gs": "gcs", "azblob": "azure"}[scheme]
	}
	if location == "" {
		location = rest
	}
	switch kind {
	case "fs":
		if location == rest && scheme == "file" {
			abs, err := filepath.Abs(location)
			if err != nil {
				return usage("--repo-uri: %w", err)
			}
			location = abs
		}
		if !filepath.IsAbs(location) {
			return usage("--source-repo-location %q: the path of a repository on the source is absolute", location)
		}
		return kind, map[string]string{"location": location}, nil
	case "s3", "gcs", "azure":
		if _, rest, ok := strings.Cut(location, "://"); ok {
			location = rest
		}
		u, err := url.Parse(kind + "://" + location)
		if err != nil || u.Host == "" {
			return usage("--source-repo-location %q is not bucket/prefix", location)
		}
		settings := map[string]string{"bucket": u.Host}
		if kind == "azure" {
			settings = map[string]string{"container": u.Host}
		}
		if prefix := strings.Trim(u.Path, "/"); prefix != "" {
			settings["base_path"] = prefix
		}
		if region != "" && kind == "s3" {
			settings["region"] = region
		}
		return kind, settings, nil
	}
	if scheme == "http" || scheme == "https" {
		return usage("%s is read from a web server, to which no cluster writes snapshots: name the repository as the source writes it, or an existing snapshot with --snapshot-name", uri)
	}
	return usage("--source-repo-type is missing: is the repository %s of the type fs, s3, gcs or azure?", uri)
}
