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
	// CreateIndex creates an index. target.IsExists reports whether an error means that the index already exists.
	CreateIndex(ctx context.Context, name string, body []byte) error
}

// Result is the result of Ensure.
type Result struct {
	Created []string          // in the order of wanted
	Existed []string          // unchanged
	Changes []metadata.Change // of created indices only
	// Late are the aliases to set when the documents are complete, by index. They include aliases of existing indices, since a worker
	// may have been killed after it created an index. Set them only on indices that the migration itself created.
	Late map[string]json.RawMessage
}

// Ensure creates the indices that the target lacks and never changes existing ones. v is the version of the
// target. With an error the result lists the actions before it. Errors contain the target's
// message (fault.ErrRejected and others, see rfs/destination/target). Ensure returns fault.ErrConfig if a
// wanted mapping type does not exist, and fault.ErrCorrupt if metadata of the snapshot is not JSON.
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

// maxTries limits the requests for one object. Each rejection before the last names further unsupported features.
const maxTries = 100

// create creates an index, and repeats the request without the features that the target reports as unsupported. It returns
// the last request, also with an error.
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

// remedy returns the remedy for an index that the target does not create.
func remedy(err error) string {
	if strings.Contains(err.Error(), "maximum shards open") {
		return "raise cluster.max_shards_per_node, add nodes, or reduce shards with --shards and --replicas"
	}
	return "create it by hand to continue without its mapping"
}
