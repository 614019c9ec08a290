package repo

import (
	"context"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Federation is a repository and the remote stores that shallow snapshots in it refer to.
type Federation struct {
	Repository
	remotes map[string]Repository // by name; "" matches every other name
}

// OpenFederation opens a repository and remote stores, each "URI" or "NAME=URI". Without any
// it is Open. Errors: fault.ErrConfig.
func OpenFederation(ctx context.Context, uri string, remotes []string, o Options) (Repository, error) {
	r, err := Open(ctx, uri, o)
	if err != nil || len(remotes) == 0 {
		return r, err
	}
	f := &Federation{Repository: r, remotes: map[string]Repository{}}
	for _, one := range remotes {
		name, at, named := strings.Cut(one, "=")
		if !named || strings.ContainsAny(name, ":/") { // the equals sign is part of the URI
			name, at = "", one
		}
		if _, twice := f.remotes[name]; twice {
			return nil, fmt.Errorf("remote store %q is given twice: %w", name, fault.ErrConfig)
		}
		if f.remotes[name], err = Open(ctx, at, o); err != nil {
			return nil, fmt.Errorf("remote store %s: %w", one, err)
		}
	}
	return f, nil
}

// Remote returns the remote store that a cluster registers under this name.
func (f *Federation) Remote(name string) (Repository, bool) {
	r, ok := f.remotes[name]
	if !ok {
		r, ok = f.remotes[""]
	}
	return r, ok
}

// Store returns the whole store of the repository.
func (f *Federation) Store() (Repository, bool) { return storeOf(f.Repository) }

// Remote returns a remote store with the same counts and log.
func (c *Counting) Remote(name string) (Repository, bool) {
	f, ok := c.Repository.(*Federation)
	if !ok {
		return nil, false
	}
	r, ok := f.Remote(name)
	return &Counting{Repository: r, tally: c.tally}, ok
}
