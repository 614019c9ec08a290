package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/rfsd/rfsd/rfs/metadata"
)

// recorded remembers what each index was created with.
type recorded struct {
	metadata.Cluster
	bodies map[string][]byte
}

func (r recorded) CreateIndex(ctx context.Context, name string, body []byte) error {
	err := r.Cluster.CreateIndex(ctx, name, body)
	if err == nil {
		r.bodies[name] = body
	}
	return err
}

// readBack compares created indices with what was asked: the target's templates give new indices
// settings, fields and aliases of their own. It is a report only: an index that cannot be read
// now is none the worse for it.
func (t *TargetIndices) readBack(ctx context.Context, asked map[string][]byte) []metadata.Change {
	var all []metadata.Change
	for name, body := range asked {
		found, err := t.differences(ctx, name, body)
		if err != nil {
			t.Log.WarnContext(ctx, "a created index could not be read back", "index", name, "reason", err.Error())
		}
		all = append(all, found...)
	}
	logChanges(ctx, t.Log, all)
	return all
}

func (t *TargetIndices) differences(ctx context.Context, name string, body []byte) ([]metadata.Change, error) {
	if t.Requester == nil {
		return nil, nil
	}
	path := "/" + url.PathEscape(name)
	status, answer, err := t.Requester.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return nil, err
	}
	if status != http.StatusOK {
		return nil, fmt.Errorf("GET %s: status %d", path, status)
	}
	return metadata.Differences(body, answer)
}
