// Package rollback keeps the list of what a session created on its target, and removes exactly that.
package rollback

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Kinds of objects beside those of metadata.
const (
	Index      = "index"
	DataStream = string(metadata.DataStream)
	Alias      = "alias"
	Setting    = "setting"
	Repository = "repository" // on the source
	Snapshot   = "snapshot"   // on the source
)

// API sends requests to a cluster; an error means that there was no response.
type API interface {
	Do(ctx context.Context, method, path string, query url.Values, body []byte) (status int, answer []byte, err error)
}

// Records stores the list: *cms.Coordinator.
type Records interface {
	Creation(ctx context.Context, kind, name string) (cms.Creation, error)
	ChangeCreation(ctx context.Context, kind, name string, f func(cms.Creation, time.Time) (cms.Creation, bool)) (changed bool, err error)
	Creations(ctx context.Context) iter.Seq2[cms.Creation, error]
	ForgetCreation(ctx context.Context, kind, name string) error
	CheckUndone(ctx context.Context) error
	Mark(ctx context.Context) (token string, err error)
	Phase(ctx context.Context, name string) (cms.Phase, error)
}

// object is what is recorded of an object.
type object struct {
	UUID string `json:"uuid,omitempty"` // of an index; of the oldest backing index of a data stream
	// Digest is that of the object as the target answered with it after its creation.
	Digest string `json:"digest,omitempty"`
	// Settings and Aliases are those of an index after its creation: digests of values by key. An alias that is going to be
	// set has the digest "".
	Settings map[string]string `json:"settings,omitempty"`
	Aliases  map[string]string `json:"aliases,omitempty"`
	// Sequence is the highest sequence number of each shard ("index/shard") at the end of the migration; absent before.
	Sequence map[string]int64 `json:"sequence,omitempty"`
	// Policies are the state management policies of an index, or of backing indices, at the end of the migration.
	Policies map[string]string `json:"policies,omitempty"`
	// Touched states that the index was written to after the migration ended and before it was continued. Its Sequence stays
	// that of the first end.
	Touched bool `json:"touched,omitempty"`
	// Foreign is how many operations the index, together with others that the same documents went to, had at the end of the
	// migration beyond those that the documents account for.
	Foreign int64 `json:"foreign,omitempty"`
	// Beside is how many operations Around has seen: documents of the session that were sent beside its phases.
	Beside int64 `json:"beside,omitempty"`
	// Scratch states that the index holds copies only, which were written to measure.
	Scratch bool `json:"scratch,omitempty"`
}

func decodeObject(c cms.Creation) (object, error) {
	var o object
	if len(c.Body) == 0 {
		return o, nil
	}
	if err := json.Unmarshal(c.Body, &o); err != nil {
		return o, fmt.Errorf("record of created %s %s: %w: %w", c.Kind, c.Name, err, fault.ErrCorrupt)
	}
	return o, nil
}

func (o object) encode() json.RawMessage {
	b, err := json.Marshal(o)
	if err != nil { // strings and numbers only
		return nil
	}
	return b
}

// digest returns a short digest of a JSON value or text.
func digest(b []byte) string {
	var v any
	if json.Unmarshal(b, &v) == nil {
		if sorted, err := json.Marshal(v); err == nil {
			b = sorted
		}
	}
	sum := sha256.Sum256(b)
	return fmt.Sprintf("%x", sum[:8])
}

// present is an index or data stream as the target has it.
type present struct {
	uuid     string
	meta     json.RawMessage // {"mappings":{"_meta":…}}
	settings map[string]string
	aliases  map[string]string
	indices  []string // backing indices of a data stream
}

// object returns what is recorded of p.
func (p present) object() object {
	return object{UUID: p.uuid, Settings: p.settings, Aliases: p.aliases}
}

var errAbsent = errors.New("not on the target")

// get sends a GET request and decodes its response into out; errAbsent when the target has nothing there.
func get(ctx context.Context, api API, path string, query url.Values, out any) ([]byte, error) {
	status, b, err := api.Do(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return nil, err
	}
	if status == http.StatusNotFound {
		return nil, errAbsent
	}
	if out == nil {
		return b, fault.CheckStatus("GET "+path, status, b)
	}
	return b, fault.Decode("GET "+path, status, b, out)
}

// errOther means that another thing has the name, such as an alias.
var errOther = errors.New("something else has the name")

func presentIndex(ctx context.Context, api API, name string) (present, error) {
	var answer map[string]struct {
		Settings map[string]json.RawMessage `json:"settings"`
		Aliases  map[string]json.RawMessage `json:"aliases"`
		Mappings struct {
			Meta json.RawMessage `json:"_meta"`
		} `json:"mappings"`
	}
	if _, err := get(ctx, api, "/"+url.PathEscape(name), url.Values{"flat_settings": {"true"}}, &answer); err != nil {
		return present{}, err
	}
	x, ok := answer[name]
	if !ok || len(answer) != 1 {
		return present{}, errOther
	}
	p := present{settings: map[string]string{}, aliases: map[string]string{}}
	for alias, raw := range x.Aliases {
		p.aliases[alias] = digest(raw)
	}
	text := func(key string) string {
		var s string
		if json.Unmarshal(x.Settings[key], &s) != nil {
			return ""
		}
		return s
	}
	p.uuid = text("index.uuid")
	if len(x.Mappings.Meta) > 0 {
		p.meta = slices.Concat(json.RawMessage(`{"mappings":{"_meta":`), x.Mappings.Meta, json.RawMessage(`}}`))
	}
	expands := text("index.auto_expand_replicas")
	for key, raw := range x.Settings {
		if !slices.Contains(targetsOwn, key) && (key != "index.number_of_replicas" || expands == "" || expands == "false") {
			p.settings[key] = digest(raw)
		}
	}
	return p, nil
}

// targetsOwn are settings that a target changes by itself.
var targetsOwn = []string{"index.blocks.read_only_allow_delete"}

func presentStream(ctx context.Context, api API, name string) (present, error) {
	var answer struct {
		Streams []struct {
			Name    string `json:"name"`
			Indices []struct {
				Name string `json:"index_name"`
			} `json:"indices"`
		} `json:"data_streams"`
	}
	if _, err := get(ctx, api, "/_data_stream/"+url.PathEscape(name), nil, &answer); err != nil {
		return present{}, err
	}
	if len(answer.Streams) != 1 || answer.Streams[0].Name != name || len(answer.Streams[0].Indices) == 0 {
		return present{}, errAbsent
	}
	p, err := presentIndex(ctx, api, answer.Streams[0].Indices[0].Name)
	for _, x := range answer.Streams[0].Indices {
		p.indices = append(p.indices, x.Name)
	}
	return p, err
}

// look returns an index or data stream as the target has it.
func look(ctx context.Context, api API, kind, name string) (present, error) {
	if err := metadata.CheckName(kind, name); err != nil {
		return present{}, err
	}
	if kind == DataStream {
		return presentStream(ctx, api, name)
	}
	return presentIndex(ctx, api, name)
}

// Sequence returns the highest sequence numbers of the primary shards of an index or data stream, by "index/shard".
func Sequence(ctx context.Context, api API, name string) (map[string]int64, error) {
	var answer struct {
		Shards  struct{ Failed int } `json:"_shards"`
		Indices map[string]struct {
			Shards map[string][]struct {
				Routing struct{ Primary bool } `json:"routing"`
				Seq     *struct {
					Max int64 `json:"max_seq_no"`
				} `json:"seq_no"`
			} `json:"shards"`
		} `json:"indices"`
	}
	query := url.Values{"level": {"shards"}, "filter_path": {"_shards,indices.*.shards.*.routing.primary,indices.*.shards.*.seq_no"}}
	if _, err := get(ctx, api, "/"+url.PathEscape(name)+"/_stats/docs", query, &answer); err != nil {
		return nil, err
	}
	if answer.Shards.Failed > 0 {
		return nil, fmt.Errorf("sequence numbers of %s: %d shards did not answer: %w", name, answer.Shards.Failed, fault.ErrUnavailable)
	}
	all := map[string]int64{}
	for index, x := range answer.Indices {
		for shard, copies := range x.Shards {
			for _, c := range copies {
				if c.Routing.Primary && c.Seq != nil {
					all[index+"/"+shard] = c.Seq.Max
				}
			}
			if _, ok := all[index+"/"+shard]; !ok {
				return nil, fmt.Errorf("the target reports no sequence number of shard %s of %s: %w", shard, index, fault.ErrRejected)
			}
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("the target reports no sequence numbers of %s: %w", name, fault.ErrRejected)
	}
	return all, nil
}

// policies returns the state management policies of an index or data stream, by index. They are none where the user may not read
// them.
func policies(ctx context.Context, api API, name string) (map[string]string, error) {
	all, err := metadata.AttachedPolicies(ctx, api, name)
	if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
		return nil, nil
	}
	return all, err
}

// since returns why sequence numbers are not those that were recorded, "" when they are.
func since(was, is map[string]int64) string {
	for _, shard := range slices.Sorted(maps.Keys(is)) {
		switch n, ok := was[shard]; {
		case !ok:
			return fmt.Sprintf("it has a shard %s that it did not have at the end of the migration", shard)
		case is[shard] > n:
			return fmt.Sprintf("it was written to after the migration: %d operations in shard %s", is[shard]-n, shard)
		}
	}
	for _, shard := range slices.Sorted(maps.Keys(was)) {
		if _, ok := is[shard]; !ok {
			return fmt.Sprintf("shard %s does not answer", shard)
		}
	}
	return ""
}

// changed lists the keys by which two sets of values differ.
func changed(was, is map[string]string) []string {
	all := maps.Clone(was)
	if all == nil {
		all = map[string]string{}
	}
	maps.Copy(all, is)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(k string) bool {
		a, had := was[k]
		b, has := is[k]
		return had == has && a == b
	})
}

func list(names []string) string {
	const most = 5
	if len(names) > most {
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}
