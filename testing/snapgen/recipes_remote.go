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
		}, recipe{
			name: v + "-pinned", holds: "snapshots that pin a moment of a remote store which shares the repository, with its translog",
			make: func(ctx context.Context, l *lab) error { return l.pinned(ctx, v) },
		})
	}
	return all
}

// shallow boots a node that keeps its segments in the folder of the repository, and takes snapshots that only
// refer to them: two, with deletions and merges in between, so that commits have to be told apart.
func (l *lab) shallow(ctx context.Context, version string, opts ...cluster.Option) error {
	beside, err := l.beside()
	if err != nil {
		return err
	}
	if err := l.boot(ctx, version, append(opts, remoteStore(l.repo(), beside, beside)...)...); err != nil {
		return err
	}
	if err := l.register(ctx, map[string]any{"remote_store_index_shallow_copy": true}); err != nil {
		return err
	}
	return l.twoSnapshots(ctx, l.take)
}

// pinned is shallow with snapshots of the second kind, which list nothing of their shards. The translog shares the repository, too.
func (l *lab) pinned(ctx context.Context, version string) error {
	beside, err := l.beside()
	if err != nil {
		return err
	}
	opts := append(remoteStore(l.repo(), l.repo(), beside), cluster.Setting("cluster.remote_store.pinned_timestamps.enabled", "true"))
	if err := l.boot(ctx, version, opts...); err != nil {
		return err
	}
	if err := l.register(ctx, map[string]any{"remote_store_index_shallow_copy": true, "shallow_snapshot_v2": true}); err != nil {
		return err
	}
	return l.twoSnapshots(ctx, l.takeAll)
}

// beside makes a folder for a repository that is not kept.
func (l *lab) beside() (string, error) {
	dir := filepath.Join(l.dir, "beside")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		return dir, os.Chown(dir, unprivileged, unprivileged)
	}
	return dir, nil
}

// remoteStore makes a node keep segments, translog and cluster state in folders.
func remoteStore(segments, translog, state string) (opts []cluster.Option) {
	const attr = "node.attr.remote_store."
	for name, dir := range map[string]string{"segment": segments, "translog": translog, "state": state} {
		opts = append(opts, cluster.Setting(attr+name+".repository", name),
			cluster.Setting(attr+"repository."+name+".type", "fs"), cluster.Setting(attr+"repository."+name+".settings.location", dir))
	}
	return opts
}

// twoSnapshots indexes and deletes documents before each of two snapshots.
func (l *lab) twoSnapshots(ctx context.Context, take func(ctx context.Context, name, indices string) error) error {
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
		if err := take(ctx, name, "remote"); err != nil {
			return err
		}
	}
	return nil
}
