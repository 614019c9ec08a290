package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
)

// absent is a target on which no index exists.
type absent struct{ creation.Cluster }

func (absent) IndexExists(context.Context, string) (bool, error) { return false, nil }

// Fields compares the mappings of target indices with the mappings of the snapshot after all conversions. Data streams of the target take
// their mappings from their own templates: a field of a stream is compared with all of the stream's backing indices on both sides. Fields
// writes nothing.
type Fields struct {
	Source  Comparison
	Indices *creation.Indices // with an objects.DryRunCluster as its Cluster
	Target  interface {
		GetIndex(ctx context.Context, name string) ([]target.Index, error)
	}
	// Failed reports whether a document is known not to have arrived; its fields are not expected. nil: all arrived.
	Failed func(index string, id []byte) bool
	// TypesOnly leaves out fields that a target index lacks, since finding them may require reading the snapshot.
	TypesOnly bool
}

// Fields returns, for each target index of a plan, the fields that have another type or that are missing although documents that arrived
// have values in them. It also returns warnings about indices that cannot be compared. It fails only if the target or the repository does
// not answer.
func (c *Fields) Fields(ctx context.Context, plan *plan.Plan) (all map[string][]verify.FieldDifference, warnings []string, err error) {
	all = map[string][]verify.FieldDifference{}
	inSnapshot := streamTypes{}
	for _, x := range plan.Indices {
		if x.Source == nil {
			continue // its metadata cannot be read
		}
		found, err := c.index(ctx, x, inSnapshot)
		switch {
		case err == nil:
		case errors.Is(err, fault.ErrUnavailable) || ctx.Err() != nil:
			return nil, nil, fmt.Errorf("mappings of index %s: %w", x.Name, err)
		default:
			warnings = append(warnings, fmt.Sprintf("the mappings of index %s were not compared: %s", x.Name, fault.Text(err)))
			continue
		}
		for name, fields := range found {
			all[name] = append(all[name], fields...)
		}
	}
	for name, types := range inSnapshot {
		seen := map[[2]string]bool{}
		all[name] = slices.DeleteFunc(all[name], func(d verify.FieldDifference) bool {
			key := [2]string{d.Field, d.Has}
			known := types[key] || seen[key]
			seen[key] = true
			return known
		})
	}
	return all, warnings, nil
}

// streamTypes maps each data stream of the target to the fields of its backing indices in the snapshot, as pairs of path and type.
type streamTypes map[string]map[[2]string]bool

// add adds the fields of a backing index, given the body that would create it.
func (s streamTypes) add(stream string, body []byte) error {
	types, err := objects.FieldTypes(body)
	if err != nil {
		return err
	}
	if s[stream] == nil {
		s[stream] = map[[2]string]bool{}
	}
	for field, is := range types {
		s[stream][[2]string{field, is}] = true
	}
	return nil
}

// index compares the target indices of one index of the snapshot. It adds the fields of backing indices to streams.
func (c *Fields) index(ctx context.Context, x plan.Index, streams streamTypes) (map[string][]verify.FieldDifference, error) {
	all, err := c.Indices.Wanted(ctx, x)
	if err != nil {
		return nil, err
	}
	found, missing := map[string][]verify.FieldDifference{}, map[string][]objects.FieldDifference{}
	for _, w := range all {
		indices, err := c.Target.GetIndex(ctx, w.Name)
		if fault.HasStatus(err, http.StatusNotFound) {
			continue // reported as missing documents
		}
		if err != nil {
			return nil, err
		}
		if len(indices) != 1 && !x.Entry.Create {
			continue
		}
		body, err := c.asked(ctx, w)
		if err != nil {
			return nil, err
		}
		if x.Entry.Create {
			if err := streams.add(w.Name, body); err != nil {
				return nil, err
			}
		}
		lacking := map[string]int{} // number of indices that lack a field
		for _, index := range indices {
			differ, err := objects.FieldDifferences(body, index.Mappings)
			if err != nil {
				return nil, err
			}
			for _, d := range differ {
				if d.Has != "" {
					found[w.Name] = append(found[w.Name], verify.FieldDifference{Field: d.Field, Want: d.Want, Has: d.Has})
				} else if lacking[d.Field]++; lacking[d.Field] == len(indices) {
					missing[w.Name] = append(missing[w.Name], d)
				}
			}
		}
	}
	if len(missing) > 0 && !c.TypesOnly {
		err = c.missed(ctx, x, missing, found)
	}
	return found, err
}

// asked returns the body with which the migration would create an index, without fields unknown to the target if it permits simulating
// templates.
func (c *Fields) asked(ctx context.Context, w metadata.Wanted) ([]byte, error) {
	created := creation.Recorded{Cluster: absent{c.Indices.Cluster}, Bodies: map[string][]byte{}}
	_, err := objects.Ensure(ctx, created, c.Indices.Version, []metadata.Wanted{w})
	switch {
	case err == nil:
		return created.Bodies[w.Name], nil
	case errors.Is(err, fault.ErrConfig) && !errors.Is(err, fault.ErrRejected): // simulating templates is not permitted
		done, err := metadata.ConvertIndex(c.Indices.Version, w)
		return done.Body, err
	}
	return nil, err
}

// errAllFound ends a reading early.
var errAllFound = errors.New("every missing field was found")

// missed adds the missing fields that have a value in a document that arrived. It reads documents until all such fields are found.
func (c *Fields) missed(ctx context.Context, x plan.Index, missing map[string][]objects.FieldDifference, found map[string][]verify.FieldDifference) error {
	for shard := range x.Entry.Shards {
		err := shards.Read(ctx, c.Source.Repo, x.Entry, shard, c.Source.Edit, shards.Documents{
			Memory: c.Source.Memory, MaxDocument: c.Source.MaxDocument,
			Send: func(d *doc.Document) error {
				name := string(d.Index)
				left := missing[name]
				if len(left) == 0 || c.Failed != nil && c.Failed(name, d.ID) {
					return nil
				}
				var source any
				if json.Unmarshal(d.Source, &source) != nil {
					return nil // the documents themselves are compared elsewhere
				}
				left = slices.DeleteFunc(left, func(f objects.FieldDifference) bool {
					if !hasValue(source, f.Path) {
						return false
					}
					found[name] = append(found[name], verify.FieldDifference{Field: f.Field, Want: f.Want})
					return true
				})
				if missing[name] = left; len(left) > 0 {
					return nil
				}
				if delete(missing, name); len(missing) == 0 {
					return errAllFound
				}
				return nil
			},
			Filter: func(*doc.Document) error { return nil },
			Fail:   func(*doc.Failure) error { return nil },
		})
		switch {
		case errors.Is(err, errAllFound):
			return nil
		case err == nil, errors.Is(unheld(err), fault.ErrCorrupt), errors.Is(err, fault.ErrUnsupported): // reported when the documents are compared
		default:
			return err
		}
	}
	return nil
}

// hasValue reports whether a document has a value at a path. Adjacent names of the path may be one key, joined by dots.
func hasValue(v any, path []string) bool {
	switch v := v.(type) {
	case nil:
		return false
	case []any:
		return slices.ContainsFunc(v, func(x any) bool { return hasValue(x, path) })
	case map[string]any:
		for n := 1; n <= len(path); n++ {
			if hasValue(v[strings.Join(path[:n], ".")], path[n:]) {
				return true
			}
		}
		return len(path) == 0 && len(v) > 0
	}
	return len(path) == 0
}
