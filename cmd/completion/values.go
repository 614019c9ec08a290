package completion

import (
	"context"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon/api"
	"github.com/rfsd/rfsd/daemon/api/client"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/source/repo"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// values returns the values of an option, sorted, after the words before it. It returns none without an answer in time.
func values(ctx context.Context, settings []config.Setting, s config.Setting, before []string) []string {
	if choices := s.Choices(); choices != nil {
		return choices
	}
	var find func(context.Context, config.Values) ([]string, error)
	switch s.Name {
	case "snapshot-name", "since":
		find = snapshots
	case "index-allowlist", "index-exclude", "index", "stop-following", "indices":
		find = indices
	case "session-name":
		find = sessions
	default:
		return nil
	}
	type answer struct {
		names []string
		err   error
	}
	ended := make(chan answer, 1) // the process ends soon, also while something does not heed ctx
	go func() {
		names, err := find(ctx, given(settings, before))
		ended <- answer{names, err}
	}()
	select {
	case <-ctx.Done():
		return nil
	case a := <-ended:
		if a.err != nil {
			return nil
		}
		names := slices.DeleteFunc(a.names, func(name string) bool { // of others: a shell reads them
			return name == "" || strings.ContainsFunc(name, func(r rune) bool {
				return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune("`$\"'\\;|&<>(){}", r)
			})
		})
		slices.Sort(names)
		return slices.Compact(names)
	}
}

func catalog(ctx context.Context, values config.Values) (*snapshot.Catalog, error) {
	var at struct{ Repository config.Repository }
	if err := config.Decode(values, &at); err != nil {
		return nil, err
	}
	if at.Repository.URI == "" {
		return nil, config.Usage("--repo-uri is missing")
	}
	r, err := repo.OpenFederation(ctx, at.Repository.URI, at.Repository.Remotes, at.Repository.Stores.Options())
	if err != nil {
		return nil, err
	}
	return snapshot.OpenCatalog(ctx, repo.NewCounting(r))
}

// snapshots returns the names of the snapshots of a repository.
func snapshots(ctx context.Context, values config.Values) (names []string, err error) {
	c, err := catalog(ctx, values)
	if err != nil {
		return nil, err
	}
	for _, ref := range c.Snapshots {
		names = append(names, ref.Name)
	}
	return names, nil
}

// indices returns the names of the indices of the snapshot of the line, or of the last one.
func indices(ctx context.Context, values config.Values) (names []string, err error) {
	c, err := catalog(ctx, values)
	if err != nil {
		return nil, err
	}
	name := values.Text("snapshot-name")
	if n := len(c.Snapshots); name == "" && n > 0 {
		name = c.Snapshots[n-1].Name
	}
	s, err := c.Snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	for _, x := range s.Indices {
		names = append(names, x.Name)
	}
	return names, nil
}

// sessions returns the names of the sessions of the store of the line, and of what runs on this machine.
func sessions(ctx context.Context, values config.Values) (names []string, err error) {
	for _, socket := range api.OwnSockets(os.Getenv) {
		if name, err := client.Session(ctx, socket); err == nil {
			names = append(names, name)
		}
	}
	var at config.Stored
	if config.Decode(values, &at) != nil || !at.Named() {
		return names, nil
	}
	stored, err := state.Sessions(ctx, at, func(c config.Cluster, role string) (*target.Client, error) {
		return target.New(ctx, c.Config(role, "completion", 0))
	})
	if err != nil && len(names) == 0 {
		return nil, err
	}
	return append(names, stored...), nil
}
