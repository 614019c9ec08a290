package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strconv"

	"github.com/rfsd/rfsd/testing/cluster"
)

func remoteRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"os2.19.4", "os3.8.0", "os3.9.0"} { // the last writes another form of deletions
		all = append(all, recipe{
			name: v + "-translog", holds: "snapshots that pin a moment of a remote store while the last operations are in its translog alone",
			make: func(ctx context.Context, l *lab) error { return l.unrefreshed(ctx, v) },
		})
	}
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

// shallow boots a node with its remote store in the directory of the repository, and takes two shallow snapshots. Deletions and
// merges in between make their commits differ.
func (l *lab) shallow(ctx context.Context, version string, opts ...cluster.Option) error {
	scratch, err := l.scratchRepo()
	if err != nil {
		return err
	}
	if err := l.boot(ctx, version, append(opts, remoteStore(l.repo(), scratch, scratch)...)...); err != nil {
		return err
	}
	if err := l.register(ctx, map[string]any{"remote_store_index_shallow_copy": true}); err != nil {
		return err
	}
	return l.twoSnapshots(ctx, l.take)
}

// pinned is like shallow, with snapshots that pin a timestamp and list no shards (shallow v2). The translog is in the repository, too.
func (l *lab) pinned(ctx context.Context, version string) error {
	if err := l.bootPinning(ctx, version); err != nil {
		return err
	}
	return l.twoSnapshots(ctx, l.takeAll)
}

// bootPinning boots a node whose snapshots pin a timestamp of a remote store in the repository.
func (l *lab) bootPinning(ctx context.Context, version string) error {
	scratch, err := l.scratchRepo()
	if err != nil {
		return err
	}
	opts := append(remoteStore(l.repo(), l.repo(), scratch), cluster.Setting("cluster.remote_store.pinned_timestamps.enabled", "true"))
	if err := l.boot(ctx, version, opts...); err != nil {
		return err
	}
	return l.register(ctx, map[string]any{"remote_store_index_shallow_copy": true, "shallow_snapshot_v2": true})
}

// unrefreshed takes two snapshots of indices that nothing refreshes: each is followed by what a refresh makes searchable then. The index
// "living" has inserts, updates, deletions and routed and nested documents after its segments, "fresh" has no segments before the first
// snapshot.
func (l *lab) unrefreshed(ctx context.Context, version string) error {
	if err := l.bootPinning(ctx, version); err != nil {
		return err
	}
	const unrefreshed = `"number_of_shards":2,"refresh_interval":"-1"`
	if err := l.create(ctx, "living", unrefreshed, plain+`,"parts":{"type":"nested","properties":{"who":{"type":"keyword"}}}`); err != nil {
		return err
	}
	if err := l.create(ctx, "fresh", unrefreshed, plain); err != nil {
		return err
	}
	for round, name := range []string{"snap-1", "snap-2"} {
		var settled, living, fresh body
		for i := range 60 {
			n := round*100 + i
			settled.index(strconv.Itoa(n), parted(n))
		}
		if err := l.load(ctx, "living", &settled); err != nil {
			return err
		}
		for i := range 20 {
			n := round*100 + 60 + i
			living.index(strconv.Itoa(n), parted(n)).index(strconv.Itoa(n-40), parted(n+1000)).remove(strconv.Itoa(n - 60))
			living.index("r"+strconv.Itoa(n), parted(n), `"routing":"to-`+strconv.Itoa(i%3)+`"`).index("Ünïcode-😀-"+strconv.Itoa(n), note(n))
			living.auto(note(n + 5000))
			fresh.index(strconv.Itoa(n), note(n)).index("again", note(n))
		}
		living.remove(strconv.Itoa(round*45)).index("0", parted(round)).remove("r"+strconv.Itoa(round+60), fmt.Sprintf(`"routing":"to-%d"`, round))
		fresh.remove(strconv.Itoa(round + 70))
		for index, x := range map[string]*body{"living": &living, "fresh": &fresh} {
			if err := l.Bulk(ctx, "/"+index+"/_bulk", x.b.Bytes()); err != nil {
				return err
			}
		}
		if err := l.snapshot(ctx, name, "", "SUCCESS", false); err != nil {
			return err
		}
		if err := l.put(ctx, http.MethodPost, "/_refresh", nil); err != nil {
			return err
		}
		docs, err := l.dump(ctx, "living,fresh")
		if err != nil {
			return err
		}
		l.truths[name] = docs
	}
	return nil
}

// parted returns a document with up to two nested ones.
func parted(n int) string {
	parts := []string{`[]`, `[{"who":"a"}]`, `[{"who":"b"},{"who":"c"}]`}[n%3]
	return fmt.Sprintf(`{"n":%d,"parts":%s}`, n, parts)
}

// scratchRepo creates a directory for a repository that is not kept.
func (l *lab) scratchRepo() (string, error) {
	dir := filepath.Join(l.dir, "scratch")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if os.Geteuid() == 0 {
		return dir, os.Chown(dir, unprivileged, unprivileged)
	}
	return dir, nil
}

// remoteStore returns options for a node whose segments, translog and cluster state are in directories.
func remoteStore(segments, translog, state string) (opts []cluster.Option) {
	const attr = "node.attr.remote_store."
	for name, dir := range map[string]string{"segment": segments, "translog": translog, "state": state} {
		opts = append(opts, cluster.Setting(attr+name+".repository", name),
			cluster.Setting(attr+"repository."+name+".type", "fs"), cluster.Setting(attr+"repository."+name+".settings.location", dir))
	}
	return opts
}

// twoSnapshots takes two snapshots, and indexes and deletes documents before each.
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
