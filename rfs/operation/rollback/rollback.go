package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// Kinds of objects in addition to the kinds of metadata.
const (
	Index      = "index"
	DataStream = string(metadata.DataStream)
	Alias      = "alias"
	Setting    = "setting"
	Repository = "repository" // on the source
	Snapshot   = "snapshot"   // on the source
)

// Records stores the list of objects; session.Created is one.
type Records interface {
	Read(ctx context.Context, kind, name string) (session.Creation, error)
	Change(ctx context.Context, kind, name string, f func(session.Creation, time.Time) (session.Creation, bool)) (changed bool, err error)
	All(ctx context.Context) iter.Seq2[session.Creation, error]
	Forget(ctx context.Context, kind, name string) error
}

// Identity is the part of a session's identity that its objects depend on; session.Identity is one.
type Identity interface {
	// Mark returns the token in the marks of the session's objects.
	Mark(ctx context.Context) (token string, err error)
	// CheckUndone returns session.ErrUndone once the session is being undone.
	CheckUndone(ctx context.Context) error
}

// Phases reads the records of phases; session.Phases is one.
type Phases interface {
	Read(ctx context.Context, name string) (session.Phase, error)
}

// object is the record of an object.
type object struct {
	UUID string `json:"uuid,omitempty"` // of an index; of the oldest backing index of a data stream
	// Aliases are the names of the aliases that an index had after its creation, and of aliases that the session sets later.
	Aliases []string `json:"aliases,omitempty"`
	// Sequence is the highest sequence number of each shard ("index/shard") at the end of the migration; absent before.
	Sequence map[string]int64 `json:"sequence,omitempty"`
	// Touched states that the index was written to after the migration ended and before it was continued. Its Sequence stays
	// the value of the first end.
	Touched bool `json:"touched,omitempty"`
	// Foreign is the number of operations of other clients at the end of the migration, in this index together with the other indices
	// of the same documents (Own.Targets).
	Foreign int64 `json:"foreign,omitempty"`
	// Beside is the number of operations of documents that were sent outside the phases, within Around.
	Beside int64 `json:"beside,omitempty"`
	// Scratch states that the index contains only copies for a measurement.
	Scratch bool `json:"scratch,omitempty"`

	unfilled bool // an unconfirmed scratch index, to which no documents were sent
}

func decodeObject(c session.Creation) (object, error) {
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

// present is an index or data stream on the target.
type present struct {
	uuid    string
	meta    json.RawMessage // {"mappings":{"_meta":…}}
	aliases []string        // in order
	indices []string        // backing indices of a data stream
}

var errAbsent = errors.New("not on the target")

// get is rest.Get, but returns errAbsent for the status 404.
func get(ctx context.Context, api rest.API, path string, query url.Values, out any) error {
	err := rest.Get(ctx, api, path, query, out)
	if fault.HasStatus(err, http.StatusNotFound) {
		return errAbsent
	}
	return err
}

// errOther means that an object of another kind has the name, such as an alias.
var errOther = errors.New("something else has the name")

func presentIndex(ctx context.Context, api rest.API, name string) (present, error) {
	var answer map[string]struct {
		Settings struct {
			UUID string `json:"index.uuid"`
		} `json:"settings"`
		Aliases  map[string]json.RawMessage `json:"aliases"`
		Mappings struct {
			Meta json.RawMessage `json:"_meta"`
		} `json:"mappings"`
	}
	if err := get(ctx, api, "/"+url.PathEscape(name), url.Values{"flat_settings": {"true"}}, &answer); err != nil {
		return present{}, err
	}
	x, ok := answer[name]
	if !ok || len(answer) != 1 {
		return present{}, errOther
	}
	p := present{uuid: x.Settings.UUID, aliases: slices.Sorted(maps.Keys(x.Aliases))}
	if len(x.Mappings.Meta) > 0 {
		p.meta = slices.Concat(json.RawMessage(`{"mappings":{"_meta":`), x.Mappings.Meta, json.RawMessage(`}}`))
	}
	return p, nil
}

func presentStream(ctx context.Context, api rest.API, name string) (present, error) {
	stream, err := objects.FindStream(ctx, api, name)
	if err != nil {
		return present{}, err
	}
	if stream == nil {
		return present{}, errAbsent
	}
	p, err := presentIndex(ctx, api, stream.Indices[0])
	p.indices = stream.Indices
	return p, err
}

// look returns an index or data stream on the target.
func look(ctx context.Context, api rest.API, kind, name string) (present, error) {
	if err := objects.CheckName(kind, name); err != nil {
		return present{}, err
	}
	if kind == DataStream {
		return presentStream(ctx, api, name)
	}
	return presentIndex(ctx, api, name)
}

// Sequence returns the highest sequence numbers of the primary shards of an index or data stream, by "index/shard".
func Sequence(ctx context.Context, api rest.API, name string) (map[string]int64, error) {
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
	if err := get(ctx, api, "/"+url.PathEscape(name)+"/_stats/docs", query, &answer); err != nil {
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

// since describes the first difference between recorded and current sequence numbers; "" if they are equal.
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
