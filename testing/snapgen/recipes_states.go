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

func largeNode() []cluster.Option {
	return []cluster.Option{cluster.Heap("3g"), cluster.Setting("http.max_content_length", "500mb")}
}

func stateRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"6.8.23", "7.10.2", "os2.19.4"} {
		all = append(all, recipe{
			name:  v + "-partial",
			holds: "a PARTIAL snapshot that lacks one shard of an index and all of another, and one that holds nothing (FAILED on 6.8)",
			make: func(ctx context.Context, l *lab) error {
				return l.partial(ctx, v)
			},
		})
	}
	return all
}

// partial removes the data of one shard, then takes two snapshots: one that may be partial, and one that may not.
func (l *lab) partial(ctx context.Context, version string) error {
	if err := l.boot(ctx, version); err != nil {
		return err
	}
	if err := l.create(ctx, "wounded", `"number_of_shards":3`, plain); err != nil {
		return err
	}
	if err := l.create(ctx, "whole", `"number_of_shards":1`, plain); err != nil {
		return err
	}
	for _, index := range []string{"wounded", "whole"} {
		var x body
		for i := range 60 {
			x.index(strconv.Itoa(i), note(i))
		}
		if err := l.load(ctx, index, &x); err != nil {
			return err
		}
	}
	if err := l.park(ctx); err != nil {
		return err
	}
	lost, err := filepath.Glob(filepath.Join(l.data, "nodes", "0", "indices", "*", "1"))
	if err != nil || len(lost) != 1 {
		return fmt.Errorf("want one directory of shard 1, found %v: %w", lost, err)
	}
	if err := os.RemoveAll(lost[0]); err != nil {
		return err
	}
	const left = 3 // two shards of the index wounded, one of whole
	if err := l.bootWounded(ctx, version, left); err != nil {
		return err
	}
	// No node matches, so its shards never start.
	nowhere := `{"settings":{"number_of_shards":2,"number_of_replicas":0,"routing.allocation.require._name":"nobody"}}`
	if err := l.put(ctx, http.MethodPut, "/absent?wait_for_active_shards=0&timeout=1s", nowhere); err != nil {
		return err
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	docs, err := l.dump(ctx, "wounded,whole")
	if err != nil {
		return err
	}
	l.truths["partial"] = docs
	if err := l.snapshot(ctx, "partial", "", "PARTIAL", true); err != nil {
		return err
	}
	// Up to 6, a snapshot that may not be partial is recorded as FAILED; later versions refuse to start it.
	if l.typed() {
		l.truths["failed"] = nil
		return l.snapshot(ctx, "failed", "", "FAILED", false)
	}
	l.truths["nothing"] = nil
	return l.snapshot(ctx, "nothing", "absent", "PARTIAL", true)
}
