package main

import (
	"context"
	"net/http"
	"strconv"
)

func historyRecipes() []recipe {
	var all []recipe
	for _, v := range []string{"2.4.6", "7.10.2", "8.19.21", "os2.19.4"} {
		all = append(all, recipe{
			name:  v + "-history",
			holds: "snapshots of the same index in different states, one of them deleted; an index made again under its name",
			make: func(ctx context.Context, l *lab) error {
				if err := l.boot(ctx, v); err != nil {
					return err
				}
				return l.history(ctx)
			},
		})
	}
	return all
}

// history takes three snapshots, changes documents and whole indices in between, and deletes the second snapshot.
func (l *lab) history(ctx context.Context) error {
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	write := func(index string, first, n int) error {
		var x body
		for i := range n {
			x.index(strconv.Itoa(i), note(first+i))
		}
		return l.load(ctx, index, &x)
	}
	create := func(index string) error { return l.create(ctx, index, `"number_of_shards":1`, plain) }
	for round, name := range []string{"snap-1", "snap-2", "snap-3"} {
		switch round {
		case 0:
			for _, index := range []string{"grows", "again", "leaves"} {
				if err := create(index); err != nil {
					return err
				}
				if err := write(index, 0, 40); err != nil {
					return err
				}
			}
		case 1:
			var x body
			for i := range 10 {
				x.remove(strconv.Itoa(i*4)).index(strconv.Itoa(i*4+1), note(100+i))
			}
			if err := l.load(ctx, "grows", &x); err != nil {
				return err
			}
			// The same name, another index: the repository must not mix their files.
			if err := l.remake(ctx, "again"); err != nil {
				return err
			}
			if err := write("again", 200, 7); err != nil {
				return err
			}
		default:
			if err := l.steps(ctx, step{"DELETE /leaves", ""}, step{"POST /grows/_forcemerge?max_num_segments=1", ""}); err != nil {
				return err
			}
			if err := write("grows", 300, 3); err != nil {
				return err
			}
		}
		if err := l.take(ctx, name, ""); err != nil {
			return err
		}
	}
	if err := l.put(ctx, http.MethodDelete, "/_snapshot/fixture/snap-2", nil); err != nil {
		return err
	}
	delete(l.truths, "snap-2")
	return nil
}

func (l *lab) remake(ctx context.Context, index string) error {
	if err := l.put(ctx, http.MethodDelete, "/"+index, nil); err != nil {
		return err
	}
	return l.create(ctx, index, `"number_of_shards":1`, plain)
}

// upgradeSteps is a chain of versions, each of which can open the data of the one before.
type upgradeSteps struct {
	name     string
	versions []string
	join     bool // all of them have join fields
}

func upgradeRecipes() []recipe {
	var all []recipe
	for _, u := range []upgradeSteps{
		{"in-place-2-5", []string{"2.4.6", "5.6.16"}, false},
		{"in-place-5-6", []string{"5.6.16", "6.8.23"}, true},
		{"in-place-6-7", []string{"6.8.23", "7.10.2"}, true},
		{"in-place-7-8", []string{"7.17.29", "8.19.21"}, false},
		{"in-place-8-9", []string{"8.19.21", "9.5.3"}, false},
		{"in-place-os1-os2", []string{"os1.3.14", "os2.19.4"}, true},
		{"in-place-os2-os3", []string{"os2.19.4", "os3.8.0"}, true},
	} {
		all = append(all, recipe{
			name:  u.name,
			holds: "indices made on one version and written to on the next, with nested objects, routing, parents and children: segments of two Lucene generations in one shard",
			make:  func(ctx context.Context, l *lab) error { return l.inPlace(ctx, u) },
		})
	}
	return append(all,
		recipe{
			name:  "moved-5-6-7-8",
			holds: "one repository written by five versions in turn, each with an index and a snapshot of its own",
			make: func(ctx context.Context, l *lab) error {
				return l.moved(ctx, "5.6.16", "6.8.23", "7.10.2", "7.17.29", "8.19.21")
			},
		},
		recipe{
			name:  "moved-7-os1-os2-os3",
			holds: "one repository written by Elasticsearch 7.10 and three versions of OpenSearch in turn",
			make: func(ctx context.Context, l *lab) error {
				return l.moved(ctx, "7.10.2", "os1.3.14", "os2.19.4", "os3.8.0")
			},
		})
}

// moved takes a snapshot with each version, of an index of its own, all in one repository.
func (l *lab) moved(ctx context.Context, chain ...string) error {
	for i, v := range chain {
		if err := l.boot(ctx, v); err != nil {
			return err
		}
		if err := l.register(ctx, nil); err != nil {
			return err
		}
		index := "by-" + strconv.Itoa(i)
		if err := l.create(ctx, index, `"number_of_shards":1`, plain); err != nil {
			return err
		}
		var x, y body
		for n := range 30 {
			x.index(strconv.Itoa(n), note(i*1000+n))
		}
		for n := range 5 {
			y.remove(strconv.Itoa(n*3)).index(strconv.Itoa(n*3+1), note(i*1000+500+n))
		}
		for _, b := range []*body{&x, &y} {
			if err := l.load(ctx, index, b); err != nil {
				return err
			}
		}
		if err := l.take(ctx, "snap-"+strconv.Itoa(i), index); err != nil {
			return err
		}
	}
	return nil
}
