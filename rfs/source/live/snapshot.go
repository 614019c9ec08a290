package live

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Repository is a repository as it is registered at the source.
type Repository struct {
	Name     string
	Type     string            // fs, s3
	Settings map[string]string // location, bucket, base_path, …
}

// identifying are the settings that locate a repository.
var identifying = []string{"location", "bucket", "base_path"}

// RegisterRepository registers the repository at the source. An existing registration of that name is kept if it has the same location and
// all settings of r, regardless of other settings; with another location or another value it is a fault.ErrConfig. The source verifies that
// every node can write to it, and its message is in the error. registered is false if the registration existed.
func (c *Cluster) RegisterRepository(ctx context.Context, r Repository) (registered bool, err error) {
	path := "/_snapshot/" + url.PathEscape(r.Name)
	var there map[string]struct {
		Type     string
		Settings map[string]any
	}
	err = c.get(ctx, path, &there)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = unusable(r, c.call(ctx, http.MethodPut, path, nil, map[string]any{"type": r.Type, "settings": r.Settings}, nil))
		return err == nil, err
	case err != nil:
		return false, err
	}
	was := there[r.Name]
	if was.Type != r.Type {
		return false, fmt.Errorf("the source knows a repository %s of the type %s, not %s; choose another --snapshot-repo-name: %w", r.Name, was.Type, r.Type, fault.ErrConfig)
	}
	if key, is := differs(was.Settings, r.Settings); key != "" {
		return false, fmt.Errorf("the source knows a repository %s whose %s is %q, not %q; choose another --snapshot-repo-name, or --source-repo-location or --source-repo-setting as it is: %w",
			r.Name, key, is, r.Settings[key], fault.ErrConfig)
	}
	// A source may keep a repository after finding that no node can write to it.
	return false, unusable(r, c.call(ctx, http.MethodPost, path+"/_verify", nil, nil, nil))
}

// differs returns the first setting in which a registered repository differs from the wanted one, and its value. Sources do not return
// secrets, and a repository without a region takes it from the source's own configuration.
func differs(has map[string]any, wanted map[string]string) (key, is string) {
	for _, key := range slices.Concat(identifying, slices.Sorted(maps.Keys(wanted))) {
		value, there := has[key]
		if strings.Contains(key, "secret") || strings.Contains(key, "token") || strings.HasSuffix(key, "_key") || key == "region" && !there {
			continue
		}
		is := ""
		if there {
			is = fmt.Sprint(value)
		}
		if strings.Trim(is, "/") != strings.Trim(wanted[key], "/") {
			return key, is
		}
	}
	return "", ""
}

// unusable returns the error for a repository that must be repaired before the source can use it.
func unusable(r Repository, err error) error {
	if errors.Is(err, fault.ErrRejected) {
		return fmt.Errorf("the source cannot use the repository %s (%s): %w: %w", r.Name, r.Type, err, fault.ErrConfig)
	}
	return err
}

// Request describes a snapshot to create.
type Request struct {
	Repository string
	Name       string
	Indices    []string // names; empty: all
	Without    []string // names that are excluded; they need not exist
	Vanishing  bool     // Indices need not exist
	Global     bool     // the cluster's state: templates and the like
	Partial    bool     // also when shards are missing
}

// CreateSnapshot starts a snapshot and does not wait for its end. created is false if a snapshot of that name exists. It returns ErrBusy if
// another snapshot must end first.
func (c *Cluster) CreateSnapshot(ctx context.Context, r Request) (created bool, err error) {
	body := map[string]any{"include_global_state": r.Global, "partial": r.Partial}
	if c.snapshotsClosed() {
		body["expand_wildcards"] = "all" // before Elasticsearch 7.11 and in OpenSearch the default leaves closed indices out
	}
	if names := r.names(); len(names) > 0 {
		body["indices"] = strings.Join(names, ",")
		if len(r.Indices) == 0 || r.Vanishing {
			body["ignore_unavailable"] = true // otherwise an excluded name that does not exist is refused
		}
	}
	err = c.call(ctx, http.MethodPut, snapshotPath(r.Repository, r.Name), url.Values{"wait_for_completion": {"false"}}, body, nil)
	if err == nil {
		return true, nil
	}
	if _, serr := c.Snapshot(ctx, r.Repository, r.Name); serr == nil {
		return false, nil // regardless of the type of the error
	}
	return false, err
}

// names returns the indices of the snapshot in the form that the source expects; none means all. A backing index of a data stream belongs
// to the snapshot of its stream, and is not excluded.
func (r Request) names() (names []string) {
	if len(r.Indices) > 0 {
		if names = slices.DeleteFunc(slices.Clone(r.Indices), func(name string) bool { return slices.Contains(r.Without, name) }); len(names) == 0 {
			return none
		}
		return names
	}
	for _, name := range r.Without {
		if !strings.HasPrefix(name, backingPrefix) {
			names = append(names, "-"+name)
		}
	}
	if len(names) > 0 {
		names = append([]string{"*"}, names...)
	}
	return names
}

// snapshotsClosed reports whether a snapshot can contain closed indices: since Elasticsearch 7.2 they keep their shards.
func (c *Cluster) snapshotsClosed() bool { return c.atLeast(7, 2) }

// maxShownNames is the number of indices that a message names.
const maxShownNames = 5

// refuseClosed returns a fault.ErrConfig that names closed indices, which a snapshot of this source cannot contain.
func (c *Cluster) refuseClosed(ctx context.Context, selects func(name string) bool) error {
	if c.snapshotsClosed() {
		return nil
	}
	closed, err := c.indices(ctx, "closed", selects)
	if err != nil || len(closed) == 0 {
		return err
	}
	names := make([]string, len(closed))
	for i, x := range closed {
		names[i] = x.Name
	}
	return fmt.Errorf("indices of the source are closed (%d, such as %s), and Elasticsearch before 7.2 has no closed indices in a snapshot: open them (POST /%s/_open), or leave them out with --index-exclude: %w",
		len(closed), fault.Names(names, maxShownNames), names[0], fault.ErrConfig)
}

// none selects no index: a snapshot without a list has all.
var none = []string{"*", "-*"}

// DeleteSnapshot deletes exactly one snapshot. A missing snapshot is not an error. Errors: ErrBusy while the source creates or deletes a
// snapshot.
func (c *Cluster) DeleteSnapshot(ctx context.Context, repository, name string) error {
	if strings.ContainsAny(name, "*,") {
		return fmt.Errorf("%q is not the name of one snapshot: %w", name, fault.ErrConfig)
	}
	err := c.call(ctx, http.MethodDelete, snapshotPath(repository, name), nil, nil, nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func snapshotPath(repository, name string) string {
	return "/_snapshot/" + url.PathEscape(repository) + "/" + url.PathEscape(name)
}

// State is a snapshot as the source sees it.
type State struct {
	UUID         string // "" before Elasticsearch 5
	State        string // IN_PROGRESS, SUCCESS, PARTIAL, FAILED, INCOMPATIBLE
	Started      int64  // epoch ms
	ShardsTotal  int64
	ShardsDone   int64
	ShardsFailed int64
	BytesTotal   int64 // of the files to write; 0 after the end, or if unknown
	BytesDone    int64
	Failures     []string // index[shard]: reason
}

type snapshotInfo struct {
	Snapshot string
	UUID     string
	State    string
	Started  int64 `json:"start_time_in_millis"`
	Reason   string
	Failures []struct {
		Index  string
		Shard  json.RawMessage `json:"shard_id"`
		Reason string
	}
	Shards struct{ Total, Failed, Successful int64 }
}

// Snapshot returns the state of a snapshot, or fs.ErrNotExist.
func (c *Cluster) Snapshot(ctx context.Context, repository, name string) (State, error) {
	var a struct {
		Snapshots []snapshotInfo
		Responses []struct { // some minors since Elasticsearch 7.6 list by repository
			Snapshots []snapshotInfo
			Error     json.RawMessage
		}
	}
	path := snapshotPath(repository, name)
	if err := c.get(ctx, path, &a); err != nil {
		return State{}, err
	}
	found := a.Snapshots
	for _, r := range a.Responses {
		found = append(found, r.Snapshots...)
		if len(r.Error) > 0 {
			why := reasons(r.Error)
			if strings.Contains(why, "snapshot_missing") {
				return State{}, fmt.Errorf("%s: %s: %w", path, why, fs.ErrNotExist)
			}
			return State{}, fmt.Errorf("%s: %s: %w", path, why, fault.ErrRejected)
		}
	}
	for _, s := range found {
		if s.Snapshot != name {
			continue
		}
		st := State{
			UUID: s.UUID, State: s.State, Started: s.Started, ShardsTotal: s.Shards.Total, ShardsDone: s.Shards.Successful, ShardsFailed: s.Shards.Failed,
		}
		if s.Reason != "" {
			st.Failures = append(st.Failures, s.Reason)
		}
		for _, f := range s.Failures {
			st.Failures = append(st.Failures, fmt.Sprintf("%s[%s]: %s", f.Index, f.Shard, f.Reason))
		}
		if s.State == "IN_PROGRESS" {
			return c.progress(ctx, path, st)
		}
		return st, nil
	}
	return State{}, fmt.Errorf("%s: %w", path, fs.ErrNotExist)
}

// progress adds shards and bytes of a running snapshot. If the source does not return them, they are omitted.
func (c *Cluster) progress(ctx context.Context, path string, st State) (State, error) {
	type size struct {
		Bytes int64 `json:"size_in_bytes"`
	}
	var a struct {
		Snapshots []struct {
			Shards struct{ Done, Failed, Total int64 } `json:"shards_stats"`
			Stats  struct {
				Incremental, Total, Processed size
				OldTotal                      int64 `json:"total_size_in_bytes"` // before Elasticsearch 6.4
				OldDone                       int64 `json:"processed_size_in_bytes"`
			}
		}
	}
	err := c.get(ctx, path+"/_status", &a)
	if errors.Is(err, fault.ErrUnavailable) {
		return st, err
	}
	if err != nil || len(a.Snapshots) == 0 {
		return st, nil
	}
	s := a.Snapshots[0]
	st.ShardsTotal, st.ShardsDone, st.ShardsFailed = s.Shards.Total, s.Shards.Done, s.Shards.Failed
	st.BytesTotal, st.BytesDone = max(s.Stats.Incremental.Bytes, s.Stats.OldTotal), max(s.Stats.Processed.Bytes, s.Stats.OldDone)
	return st, nil
}
