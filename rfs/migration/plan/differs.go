package plan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Difference is a decision of an entry that differs from the derived one. The zero value means that they agree.
type Difference struct {
	Field string // name of the decision, for messages
	Is    any    // value in the entry
	Want  any    // value derived from snapshot and settings
}

// Err returns a difference in the entry of an index as an error, and nil for the zero value.
func (d Difference) Err(index string) error {
	if d.Field == "" {
		return nil
	}
	return fmt.Errorf("the entry of the index %.255q in the coordination store has another %s, %.255q, than follows from the snapshot and the settings of this process, %.255q: nothing is sent; "+
		"find the process that writes to the control index, and start a new session (--session-name): %w", index, d.Field, fmt.Sprint(d.Is), fmt.Sprint(d.Want), fault.ErrConfig)
}

// Differs compares an entry with the decisions that depend on the settings alone. An error means that the settings cannot be applied.
func (r Request) Differs(index string, e Entry) (Difference, error) {
	create := r.DataStreams == StreamsCreate && r.Trial == nil && e.Stream != nil
	naming := newNaming("", e.Naming.Types, r.MultiType, r.EmitType, e.Naming.Join)
	join := ""
	if e.Naming.Join != nil {
		join = e.Naming.Join.Field
	}
	switch {
	case !r.Selects(index):
		return Difference{"selection", "selected", "not selected"}, nil
	case e.Locator.IndexName != index:
		return Difference{"index of the snapshot", e.Locator.IndexName, index}, nil
	case e.Unread:
		return Difference{"state of its metadata", "damaged", "readable"}, nil
	case len(e.Naming.Types) > 1 && e.Locator.Type != "":
		return Difference{"only mapping type", e.Locator.Type, "several"}, nil
	case e.Create != create:
		return Difference{"creation of documents in a data stream", e.Create, create}, nil
	case !reflect.DeepEqual(e.Trial, r.Trial):
		return Difference{"trial run", e.Trial.describe(), r.Trial.describe()}, nil
	case r.Trial != nil && e.Stream != nil:
		return Difference{"data stream", e.Stream.Stream, "none, in a trial run"}, nil
	case join != "" && join != r.ParentJoin, e.Naming.Join != nil && join == "":
		return Difference{"join field", join, r.ParentJoin}, nil
	case e.Naming.Multi != naming.Multi:
		return Difference{"way of several mapping types", e.Naming.Multi, naming.Multi}, nil
	case e.Naming.Emit != naming.Emit:
		return Difference{"mapping type in requests", e.Naming.Emit, naming.Emit}, nil
	case r.Follow == nil && (e.Version != 0 || e.Since != nil):
		return Difference{"place in a chain of snapshots", e.Version, "none"}, nil
	case e.KeepLast != (r.DuplicateKeys == KeepLastDuplicate):
		return Difference{"way of duplicate keys", e.KeepLast, !e.KeepLast}, nil
	case e.Rebuild.UsesFields() && r.rebuild() == "", e.Rebuild == RebuildTerms && r.rebuild() != RebuildTerms:
		return Difference{"way of rebuilding sources", e.Rebuild, r.rebuild()}, nil
	}
	if targets := e.Naming.Targets(); !subset(e.Ours, targets) || !subset(e.Empty, targets) {
		return Difference{"list of created or empty target indices", append(slices.Clone(e.Ours), e.Empty...), targets}, nil
	}
	return r.differsInName(index, e)
}

// differsInName compares the target index of an entry, and the alias that replaces a data stream, with the settings. Backing indices that
// become ordinary ones may keep or lose their leading dot, and the alias may be absent, because both depended on the target.
func (r Request) differsInName(index string, e Entry) (Difference, error) {
	want := r.targetName(index)
	if e.Stream != nil {
		stream, err := r.streamName(e.Stream.Stream)
		switch {
		case err != nil:
			return Difference{}, err
		case e.Create && e.Stream.Alias != "", e.Stream.Alias != "" && e.Stream.Alias != stream:
			return Difference{"alias of its data stream", e.Stream.Alias, stream}, nil
		case e.Create:
			want = stream
		case e.Naming.Index == metadata.BackingName(want, true):
			return Difference{}, nil
		}
	}
	if e.Naming.Index != want {
		return Difference{"target name", e.Naming.Index, want}, nil
	}
	return Difference{}, nil
}

// DiffersFromPlan compares an entry with the entry that this process has planned; nil: it has planned none. It does not compare what
// depends on the target or on other snapshots of the repository, and estimates.
func DiffersFromPlan(x *Index, e Entry) Difference {
	if x == nil {
		return Difference{"place in the snapshot", e.Locator.IndexName, "not planned"}
	}
	if x.Source == nil { // the metadata could be read before, and cannot now
		return Difference{}
	}
	want := x.Entry
	is, planned := e.Locator, want.Locator
	for _, l := range []*snapshot.Locator{&is, &planned} { // the checksums are only used to reject blobs
		l.Generations, l.MetaSum, l.ShardSums = nil, "", nil
	}
	stream := func(e Entry) string {
		if e.Stream == nil {
			return "none"
		}
		return e.Stream.Stream
	}
	if d := differsSince(e, want.Version, want.Since); d.Field != "" {
		return d
	}
	if d := differsInMetadata(e, want, append(x.Source.Types(), want.Naming.Types...)); d.Field != "" {
		return d
	}
	switch {
	case !e.Locator.Finds(x.Source), !reflect.DeepEqual(is, planned):
		return Difference{"place in the repository", JSON(is), JSON(planned)}
	case e.Naming.Multi != want.Naming.Multi:
		return Difference{"way of several mapping types", e.Naming.Multi, want.Naming.Multi}
	case e.Lacking != want.Lacking:
		return Difference{"stored forms of sources", JSON(e.Lacking), JSON(want.Lacking)}
	case e.Stream != nil && stream(e) != stream(want):
		return Difference{"data stream", stream(e), stream(want)}
	case e.Stream != nil && e.Stream.Alias != "" && want.Stream.Alias != "" && e.Stream.Writes != want.Stream.Writes:
		return Difference{"use of the alias for writing", e.Stream.Writes, want.Stream.Writes}
	}
	return Difference{}
}

// subset reports whether all strings are in of.
func subset(all, of []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !slices.Contains(of, s) })
}

// DiffersFromSource compares an entry with the decisions that follow from the metadata of its index.
func (r Request) DiffersFromSource(x *snapshot.Index, e Entry) (Difference, error) {
	if d := DiffersInPlace(x, e); d.Field != "" {
		return d, nil
	}
	join, err := joinOf(x, r)
	if err != nil {
		return Difference{}, err
	}
	want := Entry{Shards: x.NumShards, Rebuild: rebuilds(x, r.rebuild())}
	want.Naming.Join = join
	return differsInMetadata(e, want, x.Types()), nil
}

// differsInMetadata compares shards, join field and Rebuild with the derived ones, and checks that the mapping types are among the types
// that the index may have.
func differsInMetadata(e, want Entry, types []string) Difference {
	switch {
	case e.Shards != want.Shards:
		return Difference{"number of shards", e.Shards, want.Shards}
	case !subset(e.Naming.Types, types):
		return Difference{"list of mapping types", e.Naming.Types, types}
	case JSON(e.Naming.Join) != JSON(want.Naming.Join):
		return Difference{"join field", JSON(e.Naming.Join), JSON(want.Naming.Join)}
	case e.Rebuild != want.Rebuild:
		return Difference{"way of rebuilding sources", e.Rebuild, want.Rebuild}
	}
	return Difference{}
}

// DiffersInPlace compares the location of an entry's files, and its number of shards, with the metadata of its index.
func DiffersInPlace(x *snapshot.Index, e Entry) Difference {
	switch {
	case !e.Locator.Finds(x):
		return Difference{"place in the repository", JSON(e.Locator), "the files of " + x.Name}
	case e.Shards != x.NumShards:
		return Difference{"number of shards", e.Shards, x.NumShards}
	}
	return Difference{}
}

// JSON returns a value as it is encoded in the coordination store.
func JSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// SameJSON reports whether two texts are the same JSON value; numbers must have the same spelling.
func SameJSON(a, b json.RawMessage) bool {
	var x, y any
	for _, v := range []struct {
		text json.RawMessage
		into *any
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(bytes.NewReader(v.text))
		d.UseNumber()
		if d.Decode(v.into) != nil {
			return false
		}
	}
	return reflect.DeepEqual(x, y)
}
