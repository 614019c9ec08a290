package main

import (
	"context"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rfsd/rfsd/testing/cluster"
)

func remoteRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"os2.19.4", "os3.8.0"} {
		all = append(all, recipe{
			name: v + "-shallow", holds: "shallow snapshots of indices in a remote store that shares the repository",
			make: func(ctx context.Context, l *lab) error {
				return l.shallow(ctx, v, cluster.Setting("cluster.remote_store.index.path.type", "fixed"))
			},
		}, recipe{
			name: v + "-shallow-hashed", holds: "shallow snapshots of indices in a remote store with hashed paths",
			make: func(ctx context.Context, l *lab) error {
				return l.shallow(ctx, v, cluster.Setting("cluster.remote_store.index.path.type", "hashed_prefix"))
			},
		})
	}
	return all
}

// shallow boots a node that keeps its segments in the folder of the repository, and takes snapshots that only
// refer to them: two, with deletions and merges in between, so that commits have to be told apart.
func (l *lab) shallow(ctx context.Context, version string, opts ...cluster.Option) error {
	translog := filepath.Join(l.dir, "translog")
	if err := os.Mkdir(translog, 0o755); err != nil {
		return err
	}
	if os.Geteuid() == 0 {
		if err := os.Chown(translog, unprivileged, unprivileged); err != nil {
			return err
		}
	}
	const attr = "node.attr.remote_store."
	opts = append(opts,
		cluster.Setting(attr+"segment.repository", "segments"), cluster.Setting(attr+"translog.repository", "translog"),
		cluster.Setting(attr+"state.repository", "translog"),
		cluster.Setting(attr+"repository.segments.type", "fs"), cluster.Setting(attr+"repository.segments.settings.location", l.repo()),
		cluster.Setting(attr+"repository.translog.type", "fs"), cluster.Setting(attr+"repository.translog.settings.location", translog),
	)
	if err := l.boot(ctx, version, opts...); err != nil {
		return err
	}
	if err := l.register(ctx, map[string]any{"remote_store_index_shallow_copy": true}); err != nil {
		return err
	}
	if err := l.create(ctx, "remote", `"number_of_shards":2`, plain); err != nil {
		return err
	}
	for round, name := range []string{"snap-1", "snap-2"} {
		for part := range 3 {
			var x body
			for i := range 20 {
				n := round*60 + part*20 + i
				x.index(strconv.Itoa(n), note(n))
			}
			x.remove(strconv.Itoa(round*60+part*20+3)).index(strconv.Itoa(part), note(1000+round))
			if err := l.load(ctx, "remote", &x); err != nil {
				return err
			}
		}
		if err := l.take(ctx, name, "remote"); err != nil {
			return err
		}
	}
	return nil
}
