package progress

import (
	"context"
	"maps"
	"slices"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Redrives are the failed documents of a session that rfsd redrive has delivered.
type Redrives struct{ by map[string]*redrive }

// redrive holds the counts of a target index.
type redrive struct {
	delivered int64
	left      int64 // in all files
	listed    int64 // in the store's list
}

// ReadRedrives reads the re-driven documents of a session.
func ReadRedrives(ctx context.Context, c *cms.Coordinator) (*Redrives, error) {
	all, err := session.RedrivesOf(c).All(ctx)
	if err != nil {
		return nil, err
	}
	return redrivesOf(all), nil
}

func redrivesOf(all []session.Redriven) *Redrives {
	r := &Redrives{by: map[string]*redrive{}}
	for _, place := range all {
		for _, x := range place.Indices {
			is := r.by[x.Index]
			if is == nil {
				is = &redrive{}
				r.by[x.Index] = is
			}
			is.delivered += x.Delivered
			if place.All {
				is.listed += x.Left
			} else {
				is.left += x.Left
			}
		}
	}
	for _, is := range r.by { // the list also has the documents of the files
		is.left = max(is.left, is.listed)
	}
	return r
}

// Take returns the number of failed documents of an index of the snapshot that were delivered, and removes them. Indices with the same
// targets share the documents delivered there; each document is taken once. Documents that remain in a file were not delivered, even if a
// killed re-drive has sent them.
func (r *Redrives) Take(targets []string, failed int64) int64 {
	if failed <= 0 || len(r.by) == 0 {
		return 0
	}
	var of []*redrive
	delivered, left := int64(0), int64(0)
	for _, name := range append([]string{""}, targets...) { // "": indices without a count of their own
		if is := r.by[name]; is != nil {
			of = append(of, is)
			delivered, left = delivered+is.delivered, left+is.left
		}
	}
	n := max(min(delivered, failed-left), 0)
	rest, stay := n, failed-n
	for _, is := range slices.Backward(of) {
		d, l := min(rest, is.delivered), min(stay, is.left)
		is.delivered, rest = is.delivered-d, rest-d
		is.left, stay = is.left-l, stay-l
	}
	return n
}

// TakeAll is Take for all targets.
func (r *Redrives) TakeAll(failed int64) int64 {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(r.by)), func(name string) bool { return name == "" })
	return r.Take(names, failed)
}

// Redrives returns the failed documents that were delivered later. Undecodable records are ignored.
func (r *Reading) Redrives() *Redrives {
	var all []session.Redriven
	for _, rec := range r.Redriven {
		var x session.Redriven
		if rec.Decode(&x) == nil {
			all = append(all, x)
		}
	}
	return redrivesOf(all)
}

// Redrive moves n documents that were delivered later from Failed to Indexed.
func (c *Counts) Redrive(n int64) {
	c.Failed, c.Indexed, c.Redriven = c.Failed-n, c.Indexed+n, c.Redriven+n
}
