package objects

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Cluster is the part of the target that Ensure needs.
type Cluster interface {
	IndexExists(ctx context.Context, name string) (bool, error)
	// CreateIndex creates an index. target.IsExists reports whether an error means that the index exists already.
	CreateIndex(ctx context.Context, name string, body []byte) error
}

// Result is the result of Ensure.
type Result struct {
	Created []string          // in the order wanted
	Existed []string          // left as they are
	Changes []metadata.Change // of created indices only
	// Late are the aliases, by index, that wait for the documents, of existing indices
	// as well: a worker that was killed after it created one has to find them again. Only indices
	// that the migration itself created may get them.
	Late map[string]json.RawMessage
}

// Ensure creates the indices that the target lacks and never changes existing ones. v is the version of the
// target. If an error is returned, the result lists the actions before it. Errors carry the target's own
// message (fault.ErrRejected and others, see rfs/destination/target). The error is fault.ErrConfig if a
// wanted type does not exist, and fault.ErrCorrupt if metadata of the snapshot is not JSON.
func Ensure(ctx context.Context, c Cluster, v target.Version, wanted []metadata.Wanted) (Result, error) {
	r := Result{Late: map[string]json.RawMessage{}}
	for _, w := range wanted {
		there, err := c.IndexExists(ctx, w.Name)
		if err != nil {
			return r, fmt.Errorf("index %s: %w", w.Name, err)
		}
		var done metadata.Converted
		if there {
			done, err = metadata.ConvertIndex(v, w)
		} else {
			done, err = create(ctx, c, v, w)
		}
		switch {
		case there && err == nil || target.IsExists(err): // another worker was faster
			r.Existed = append(r.Existed, w.Name)
		case err == nil:
			r.Created = append(r.Created, w.Name)
			r.Changes = append(r.Changes, done.Changes...)
		default:
			return r, fmt.Errorf("create index %s (%s): %w", w.Name, remedy(err), err)
		}
		if len(done.Late) > 0 {
			r.Late[w.Name] = done.Late
		}
	}
	return r, nil
}

// maxTries bounds how often one index is offered; each refusal but the last teaches something.
const maxTries = 100

// create offers an index, and again without the features that the target reports as unsupported. It returns
// the last offer, also with an error.
func create(ctx context.Context, c Cluster, v target.Version, w metadata.Wanted) (done metadata.Converted, refused error) {
	unsupported := metadata.NewUnsupported()
	for range maxTries {
		var err error
		if done, err = metadata.ConvertFor(v, w, unsupported); err != nil {
			return done, err
		}
		if refused = c.CreateIndex(ctx, w.Name, done.Body); refused == nil {
			return done, nil
		}
		if !unsupported.Record(refused) {
			break
		}
	}
	return done, refused
}

// remedy returns what to do about an index that the target does not create.
func remedy(err error) string {
	if strings.Contains(err.Error(), "maximum shards open") {
		return "raise cluster.max_shards_per_node, add nodes, or reduce shards with --shards and --replicas"
	}
	return "create it by hand to continue without its mapping"
}
