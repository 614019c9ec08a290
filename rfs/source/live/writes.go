package live

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Index is an index of the source.
type Index struct {
	Name    string
	UUID    string
	Blocked bool // it has a write block
	Closed  bool
}

// Shard describes the primary of a shard.
type Shard struct {
	MaxSeqNo int64 // -1: none, also before Elasticsearch 6
	Numbered bool  // MaxSeqNo is known
	Live     int64 // Lucene documents that are not deleted, as of the last refresh
}

// atOnce is the number of indices of one request, whose path names them.
const atOnce = 20

// Indices returns the indices for which selects is true, in order of names.
func (c *Cluster) Indices(ctx context.Context, selects func(name string) bool) ([]Index, error) {
	all, err := c.indices(ctx, "open,closed", selects)
	if err != nil {
		return nil, err
	}
	open, err := c.indices(ctx, "open", selects)
	for i, x := range all {
		_, is := slices.BinarySearchFunc(open, x.Name, func(o Index, name string) int { return strings.Compare(o.Name, name) })
		all[i].Closed = !is
	}
	return all, err
}

// indices returns the indices in a state for which selects is true, in order of names.
func (c *Cluster) indices(ctx context.Context, state string, selects func(name string) bool) ([]Index, error) {
	var answer map[string]struct {
		Settings struct {
			Index struct {
				UUID   string
				Blocks map[string]any
			}
		}
	}
	query := url.Values{"expand_wildcards": {state}} // 5.x refuses flat_settings here
	if c.atLeast(7, 7) {
		query.Set("expand_wildcards", state+",hidden")
	}
	if err := c.call(ctx, http.MethodGet, "/_all/_settings/index.uuid,index.blocks.*", query, nil, &answer); err != nil {
		return nil, err
	}
	var all []Index
	for name, x := range answer {
		if !selects(name) {
			continue
		}
		is := Index{Name: name, UUID: x.Settings.Index.UUID}
		for _, key := range []string{"write", "read_only", "read_only_allow_delete"} {
			on, _ := strconv.ParseBool(fmt.Sprint(x.Settings.Index.Blocks[key]))
			is.Blocked = is.Blocked || on
		}
		all = append(all, is)
	}
	slices.SortFunc(all, func(a, b Index) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// expressions returns the names that select the chosen indices for a snapshot: including closed indices where it can contain them, and for
// backing indices their data streams, which a snapshot contains as a whole.
func (c *Cluster) expressions(ctx context.Context, selects func(name string) bool) (names []string, err error) {
	states := "open"
	if c.snapshotsClosed() {
		states = "open,closed"
	}
	all, err := c.indices(ctx, states, selects)
	if err != nil {
		return nil, err
	}
	chosen, backing := map[string]bool{}, false
	for _, x := range all {
		chosen[x.Name] = true
		backing = backing || strings.HasPrefix(x.Name, backingPrefix)
	}
	if backing {
		if err := c.nameStreams(ctx, chosen); err != nil {
			return nil, err
		}
	}
	if len(chosen) == 0 {
		return none, nil
	}
	return slices.Sorted(maps.Keys(chosen)), nil
}

// nameStreams replaces backing indices by their data streams.
func (c *Cluster) nameStreams(ctx context.Context, chosen map[string]bool) error {
	streams, err := c.streams(ctx)
	for stream, backing := range streams {
		for _, name := range backing {
			if chosen[name] {
				delete(chosen, name)
				chosen[stream] = true
			}
		}
	}
	return err
}

// streams returns the backing indices of all data streams, the oldest first.
func (c *Cluster) streams(ctx context.Context) (map[string][]string, error) {
	var answer struct {
		Streams []struct {
			Name    string
			Indices []struct {
				Name string `json:"index_name"`
			}
		} `json:"data_streams"`
	}
	query := url.Values{}
	if c.version.Distribution == "elasticsearch" && c.version.Major >= 8 {
		query.Set("expand_wildcards", "all") // including hidden ones, which older versions always list
	}
	if err := c.call(ctx, http.MethodGet, "/_data_stream", query, nil, &answer); err != nil {
		return nil, err
	}
	all := map[string][]string{}
	for _, s := range answer.Streams {
		for _, x := range s.Indices {
			all[s.Name] = append(all[s.Name], x.Name)
		}
	}
	return all, nil
}

// writeIndices returns the indices to which data streams write.
func (c *Cluster) writeIndices(ctx context.Context, names []string) (map[string]bool, error) {
	writes := map[string]bool{}
	if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(name, backingPrefix) }) {
		return writes, nil
	}
	streams, err := c.streams(ctx)
	for _, backing := range streams {
		writes[backing[len(backing)-1]] = true
	}
	return writes, err
}

// backingPrefix is the prefix of the names of the backing indices of data streams.
const backingPrefix = ".ds-"

// atLeast reports whether the source is OpenSearch, or at least this version of Elasticsearch.
func (c *Cluster) atLeast(major, minor int) bool {
	v := c.version
	return v.Distribution == "opensearch" || v.Major > major || v.Major == major && v.Minor >= minor
}

// Block sets write blocks on indices. Since Elasticsearch 7.9 it returns when no write is in progress on any shard; before, and on indices
// to which data streams write, accepted writes may still complete afterwards.
func (c *Cluster) Block(ctx context.Context, names []string) error {
	if !c.atLeast(7, 9) {
		return c.blockBySetting(ctx, names)
	}
	writes, err := c.writeIndices(ctx, names)
	if err != nil {
		return err
	}
	var some, others []string // the API refuses indices to which data streams write
	for _, name := range names {
		if writes[name] {
			some = append(some, name)
		} else {
			others = append(others, name)
		}
	}
	if err := c.blockBySetting(ctx, some); err != nil {
		return err
	}
	return each(others, func(path string) error {
		var answer struct {
			All     bool `json:"shards_acknowledged"`
			Indices []struct {
				Name    string
				Blocked bool
			}
		}
		if err := c.call(ctx, http.MethodPut, path+"/_block/write", nil, nil, &answer); err != nil {
			return err
		}
		for _, x := range answer.Indices {
			if !x.Blocked {
				return fmt.Errorf("the source did not block writes to %s: %w", x.Name, fault.ErrUnavailable)
			}
		}
		if !answer.All {
			return fmt.Errorf("not every shard of the source has confirmed the write block: %w", fault.ErrUnavailable)
		}
		return nil
	})
}

// blockBySetting sets write blocks without waiting for writes in progress.
func (c *Cluster) blockBySetting(ctx context.Context, names []string) error {
	return each(names, func(path string) error {
		return c.call(ctx, http.MethodPut, path+"/_settings", nil, map[string]any{"index.blocks.write": true}, nil)
	})
}

// Unblock removes write blocks. It ignores indices that no longer exist.
func (c *Cluster) Unblock(ctx context.Context, names []string) error {
	var errs []error
	for _, name := range names {
		var value any // null restores the default
		if !c.atLeast(5, 0) {
			value = false
		}
		err := each([]string{name}, func(path string) error {
			return c.call(ctx, http.MethodPut, path+"/_settings", nil, map[string]any{"index.blocks.write": value}, nil)
		})
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Shards returns the sequence numbers and document counts of the primaries of indices, by index and shard number. It returns
// fault.ErrUnavailable if a primary does not answer.
func (c *Cluster) Shards(ctx context.Context, names []string) (map[string]map[int]Shard, error) {
	all := map[string]map[int]Shard{}
	err := each(names, func(path string) error {
		if err := c.call(ctx, http.MethodPost, path+"/_refresh", nil, nil, nil); err != nil {
			return err
		}
		var answer struct {
			Failed struct{ Failed int } `json:"_shards"`
			By     map[string]struct {
				Shards map[string][]struct {
					Routing struct{ Primary bool }
					Docs    struct{ Count int64 }
					Seq     *struct {
						Max int64 `json:"max_seq_no"`
					} `json:"seq_no"`
				}
			} `json:"indices"`
		}
		if err := c.call(ctx, http.MethodGet, path+"/_stats/docs", url.Values{"level": {"shards"}}, nil, &answer); err != nil {
			return err
		}
		if answer.Failed.Failed > 0 {
			return fmt.Errorf("%d shards of the source do not report what they hold: %w", answer.Failed.Failed, fault.ErrUnavailable)
		}
		for name, x := range answer.By {
			all[name] = map[int]Shard{}
			for number, copies := range x.Shards {
				n, err := strconv.Atoi(number)
				if err != nil {
					return fmt.Errorf("the source reports the shard %q of %s: %w", number, name, fault.ErrUnavailable)
				}
				for _, p := range copies {
					if !p.Routing.Primary {
						continue
					}
					is := Shard{MaxSeqNo: -1, Live: p.Docs.Count, Numbered: p.Seq != nil}
					if is.Numbered {
						is.MaxSeqNo = p.Seq.Max
					}
					all[name][n] = is
				}
			}
		}
		return nil
	})
	return all, err
}

// each calls f with a path that names up to atOnce indices. Names with a wildcard or a comma are rejected.
func each(names []string, f func(path string) error) error {
	for some := range slices.Chunk(names, atOnce) {
		escaped := make([]string, len(some))
		for i, name := range some {
			if name == "" || name[0] == '-' || name[0] == '_' || strings.ContainsAny(name, "*?,<>|") {
				return fmt.Errorf("%q is not the name of one index: %w", name, fault.ErrConfig)
			}
			escaped[i] = url.PathEscape(name)
		}
		if err := f("/" + strings.Join(escaped, ",")); err != nil {
			return err
		}
	}
	return nil
}
