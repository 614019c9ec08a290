package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"reflect"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// The entries of indices are stored in the coordination store and are input. What they decide, such as which documents are read and
// where they go, is derived again from the snapshot and the settings of the process, by the functions that planned the entries.

// difference is a decision of an entry that is not the derived one. The zero difference is none.
type difference struct {
	field string // what is decided, for messages
	is    any    // by the entry
	want  any    // by snapshot and settings
}

// readEntry decodes the entry of an index and returns an error when it decides otherwise than the snapshot and the settings of this
// process do (fault.ErrConfig).
func (s *Session) readEntry(ctx context.Context, e cms.IndexEntry) (Entry, error) {
	entry, err := decodeEntry(e.Name, e.Body)
	if err != nil {
		return Entry{}, err
	}
	return entry, s.checkEntry(ctx, e.Name, entry)
}

// settledEntry is readEntry for what the settings alone decide, without a request to the repository.
func (s *Session) settledEntry(e cms.IndexEntry) (Entry, error) {
	entry, err := decodeEntry(e.Name, e.Body)
	if err != nil || s.Request == nil || entry.Unread {
		return entry, err
	}
	d, err := s.Request.differs(e.Name, entry)
	if err != nil {
		return entry, err
	}
	return entry, d.of(e.Name)
}

// checkEntry returns a fault.ErrConfig that names the first decision of an entry that is not the derived one. A process that has planned
// compares the entry with its plan. Another process compares what follows from the settings, what the metadata of the index decide,
// and its data stream, which it reads once.
func (s *Session) checkEntry(ctx context.Context, index string, e Entry) error {
	if s.Request == nil {
		return nil
	}
	d, err := s.Request.differs(index, e)
	if err == nil && d.field == "" {
		if plan := s.plannedIndices(); plan != nil {
			d = differsFromPlan(plan[index], e)
		} else if d, err = s.differsFromIndex(ctx, index, e); err == nil && d.field == "" && e.Stream != nil {
			d, err = s.differsFromStreams(ctx, index, e)
		}
	}
	if err != nil {
		return err
	}
	return d.of(index)
}

// of returns the error for a difference in the entry of an index, nil for none.
func (d difference) of(index string) error {
	if d.field == "" {
		return nil
	}
	return fmt.Errorf("the entry of the index %.255q in the coordination store has another %s, %.255q, than follows from the snapshot and the settings of this process, %.255q: nothing is sent; "+
		"find out what writes the control index, and begin a new session (--session-name): %w", index, d.field, fmt.Sprint(d.is), fmt.Sprint(d.want), fault.ErrConfig)
}

// differs compares an entry with what the settings alone decide. An error means that the settings cannot be applied.
func (r Request) differs(index string, e Entry) (difference, error) {
	selected := r.Indices.Match(index) && (!isSystem(index) || r.IncludeSystem || r.Indices.Include.Exact(index))
	create := r.DataStreams == StreamsCreate && r.Trial == nil && e.Stream != nil
	naming := newNaming("", e.Naming.Types, r.MultiType, r.EmitType, e.Naming.Join)
	join := ""
	if e.Naming.Join != nil {
		join = e.Naming.Join.Field
	}
	switch {
	case !selected:
		return difference{"selection", "selected", "not selected"}, nil
	case e.Locator.IndexName != index:
		return difference{"index of the snapshot", e.Locator.IndexName, index}, nil
	case e.Unread:
		return difference{"state of its metadata", "damaged", "readable"}, nil
	case len(e.Naming.Types) > 1 && e.Locator.Type != "":
		return difference{"only mapping type", e.Locator.Type, "several"}, nil
	case e.Create != create:
		return difference{"creation of documents in a data stream", e.Create, create}, nil
	case !reflect.DeepEqual(e.Trial, r.Trial):
		return difference{"trial run", e.Trial.describe(), r.Trial.describe()}, nil
	case r.Trial != nil && e.Stream != nil:
		return difference{"data stream", e.Stream.Stream, "none, in a trial run"}, nil
	case join != "" && join != r.ParentJoin, e.Naming.Join != nil && join == "":
		return difference{"join field", join, r.ParentJoin}, nil
	case e.Naming.Multi != naming.Multi:
		return difference{"way of several mapping types", e.Naming.Multi, naming.Multi}, nil
	case e.Naming.Emit != naming.Emit:
		return difference{"mapping type in requests", e.Naming.Emit, naming.Emit}, nil
	case e.KeepLast != (r.DuplicateKeys == KeepLastDuplicate):
		return difference{"way of duplicate keys", e.KeepLast, !e.KeepLast}, nil
	case e.Rebuild.fields() && r.rebuild() == "", e.Rebuild == RebuildTerms && r.rebuild() != RebuildTerms:
		return difference{"way of rebuilding sources", e.Rebuild, r.rebuild()}, nil
	}
	if targets := e.Naming.Targets(); !subset(e.Ours, targets) || !subset(e.Empty, targets) {
		return difference{"list of created or empty target indices", append(slices.Clone(e.Ours), e.Empty...), targets}, nil
	}
	return r.differsInName(index, e)
}

// describe returns the trial run for a message.
func (t *Trial) describe() string {
	if t == nil {
		return "none"
	}
	return fmt.Sprintf("%d documents, prefix %s", t.Documents, t.Prefix)
}

// differsInName compares the target index of an entry, and the alias that stands in for a data stream, with the settings. Backing
// indices that become ordinary ones keep their names or lose the dots, and the alias may be missing: the target decided about both.
func (r Request) differsInName(index string, e Entry) (difference, error) {
	want := r.targetName(index)
	if e.Stream != nil {
		stream, err := r.streamName(e.Stream.Stream)
		switch {
		case err != nil:
			return difference{}, err
		case e.Create && e.Stream.Alias != "", e.Stream.Alias != "" && e.Stream.Alias != stream:
			return difference{"alias of its data stream", e.Stream.Alias, stream}, nil
		case e.Create:
			want = stream
		case e.Naming.Index == metadata.BackingName(want, true):
			return difference{}, nil
		}
	}
	if e.Naming.Index != want {
		return difference{"target name", e.Naming.Index, want}, nil
	}
	return difference{}, nil
}

// plannedIndices returns the indices of the plan of this process by name; nil when it has not planned.
func (s *Session) plannedIndices() map[string]IndexPlan {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planned == nil {
		return nil
	}
	if s.byName == nil {
		s.byName = make(map[string]IndexPlan, len(s.planned.Indices))
		for _, x := range s.planned.Indices {
			s.byName[x.Name] = x
		}
		for _, x := range s.planned.Unread {
			s.byName[x.Name] = IndexPlan{Name: x.Name, Entry: x.Entry}
		}
	}
	return s.byName
}

// differsFromPlan compares an entry with the one that this process has planned, the zero IndexPlan when it has planned none. What the
// target decides, what other snapshots of the repository change, and estimates are not compared.
func differsFromPlan(x IndexPlan, e Entry) difference {
	want := x.Entry
	if x.Name == "" {
		return difference{"place in the snapshot", e.Locator.IndexName, "not planned"}
	}
	if x.Source == nil { // its metadata were read before, and cannot be now
		return difference{}
	}
	is, planned := e.Locator, want.Locator
	for _, l := range []*snapshot.Locator{&is, &planned} { // the sums only reject what is read
		l.Generations, l.MetaSum, l.ShardSums = nil, "", nil
	}
	stream := func(e Entry) string {
		if e.Stream == nil {
			return "none"
		}
		return e.Stream.Stream
	}
	if d := differsInMetadata(e, want, append(x.Source.Types(), want.Naming.Types...)); d.field != "" {
		return d
	}
	switch {
	case !e.Locator.Finds(x.Source), !reflect.DeepEqual(is, planned):
		return difference{"place in the repository", text(is), text(planned)}
	case e.Naming.Multi != want.Naming.Multi:
		return difference{"way of several mapping types", e.Naming.Multi, want.Naming.Multi}
	case e.Lacking != want.Lacking:
		return difference{"stored forms of sources", text(e.Lacking), text(want.Lacking)}
	case e.Stream != nil && stream(e) != stream(want):
		return difference{"data stream", stream(e), stream(want)}
	case e.Stream != nil && e.Stream.Alias != "" && want.Stream.Alias != "" && e.Stream.Writes != want.Stream.Writes:
		return difference{"use of the alias for writing", e.Stream.Writes, want.Stream.Writes}
	}
	return difference{}
}

// subset reports whether all strings are among others.
func subset(all, of []string) bool {
	return !slices.ContainsFunc(all, func(s string) bool { return !slices.Contains(of, s) })
}

// errUnproven means that the metadata of an index cannot be read, so that nothing proves where its documents are.
var errUnproven = errors.New("the entry of the index cannot be compared with the snapshot")

// differsFromIndex compares an entry with the snapshot of this session and the metadata of its index, which are read once per
// process. Errors: errUnproven.
func (s *Session) differsFromIndex(ctx context.Context, index string, e Entry) (difference, error) {
	of := text(e.Locator) + text(e.Naming) + text(e.Rebuild) + text(e.Shards)
	s.known.mu.Lock()
	known := s.known.derived[index] == of
	s.known.mu.Unlock()
	if known {
		return difference{}, nil
	}
	x, err := s.sourceIndex(ctx, e.Locator)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errUnproven, err)
	}
	if err != nil {
		return difference{}, err
	}
	d, err := s.Request.differsFromSource(x, e)
	if err == nil && d.field == "" && !x.Mounted() {
		d, err = s.differsInSnapshot(ctx, e)
	}
	if err != nil || d.field != "" {
		return d, err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.derived == nil {
		s.known.derived = map[string]string{}
	}
	s.known.derived[index] = of
	return difference{}, nil
}

// differsInSnapshot compares the snapshot of an entry with the one that this session reads. Of its name and its UUID the lists of
// shards prove that they belong together.
func (s *Session) differsInSnapshot(ctx context.Context, e Entry) (difference, error) {
	name, _, err := s.snapshotName(ctx)
	if err != nil {
		return difference{}, err
	}
	if e.Locator.SnapshotName != name {
		return difference{"snapshot", e.Locator.SnapshotName, name}, nil
	}
	return difference{}, nil
}

// differsInPlace compares the place of the files of an entry, and their number of shards, with the metadata of its index.
func differsInPlace(x *snapshot.Index, e Entry) difference {
	switch {
	case !e.Locator.Finds(x):
		return difference{"place in the repository", text(e.Locator), "the files of " + x.Name}
	case e.Shards != x.NumShards:
		return difference{"number of shards", e.Shards, x.NumShards}
	}
	return difference{}
}

// differsFromSource compares an entry with what the metadata of its index decide.
func (r Request) differsFromSource(x *snapshot.Index, e Entry) (difference, error) {
	if d := differsInPlace(x, e); d.field != "" {
		return d, nil
	}
	join, err := joinOf(x, r)
	if err != nil {
		return difference{}, err
	}
	want := Entry{Shards: x.NumShards, Rebuild: rebuilds(x, r.rebuild())}
	want.Naming.Join = join
	return differsInMetadata(e, want, x.Types()), nil
}

// differsInMetadata compares what the metadata of an index decide: shards, join field and the way of rebuilding sources with the
// wanted ones, and the mapping types with those that the index may have.
func differsInMetadata(e, want Entry, types []string) difference {
	switch {
	case e.Shards != want.Shards:
		return difference{"number of shards", e.Shards, want.Shards}
	case !subset(e.Naming.Types, types):
		return difference{"list of mapping types", e.Naming.Types, types}
	case text(e.Naming.Join) != text(want.Naming.Join):
		return difference{"join field", text(e.Naming.Join), text(want.Naming.Join)}
	case e.Rebuild != want.Rebuild:
		return difference{"way of rebuilding sources", e.Rebuild, want.Rebuild}
	}
	return difference{}
}

// text returns a value as the coordination store has it.
func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// differsFromStreams compares the data stream of an entry with the one to which the snapshot has the index belong, which is read once
// per process.
func (s *Session) differsFromStreams(ctx context.Context, index string, e Entry) (difference, error) {
	of, err := s.snapshotStreams(ctx)
	if err != nil {
		return difference{}, fmt.Errorf("data streams of the snapshot: %w", err)
	}
	if of[index] != e.Stream.Stream {
		return difference{"data stream", e.Stream.Stream, of[index]}, nil
	}
	return difference{}, nil
}

// snapshotStreams returns the data streams of the snapshot by their backing indices.
func (s *Session) snapshotStreams(ctx context.Context) (map[string]string, error) {
	s.known.mu.Lock()
	of := s.known.streams
	s.known.mu.Unlock()
	if of != nil {
		return of, nil
	}
	name, _, err := s.snapshotName(ctx)
	if err != nil {
		return nil, err
	}
	catalog, err := snapshot.OpenCatalog(ctx, s.Runner.Repo)
	if err != nil {
		return nil, err
	}
	snap, err := catalog.Snapshot(ctx, name)
	if err != nil {
		return nil, err
	}
	g, err := streamsOf(ctx, snap)
	if err != nil {
		return nil, err
	}
	of = map[string]string{}
	for index, part := range metadata.StreamParts(g, func(string) bool { return false }) {
		of[index] = part.Stream
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	s.known.streams = of
	return of, nil
}

// checkLate returns a fault.ErrConfig when an alias that waits for the documents of an entry is not one that the index of the snapshot
// gets on the target.
func (s *Session) checkLate(ctx context.Context, index string, e Entry) error {
	if s.Request == nil || len(e.Late) == 0 {
		return nil
	}
	source, err := s.sourceIndex(ctx, e.Locator)
	if err != nil {
		return err
	}
	may, err := s.Indices.Aliases(ctx, IndexPlan{Name: index, Source: source, Entry: e})
	if err != nil {
		return err
	}
	for _, target := range slices.Sorted(maps.Keys(e.Late)) {
		want := aliasNames(may[target])
		is := aliasNames(e.Late[target])
		if is == nil {
			return difference{"list of aliases of " + target, string(e.Late[target]), string(may[target])}.of(index)
		}
		for _, alias := range slices.Sorted(maps.Keys(is)) {
			if want[alias] == nil || !sameJSON(is[alias], want[alias]) {
				return difference{fmt.Sprintf("alias %.255q of %s", alias, target), string(is[alias]), string(want[alias])}.of(index)
			}
		}
	}
	return nil
}

// sameJSON reports whether two texts are the same JSON value, with numbers as they are written.
func sameJSON(a, b json.RawMessage) bool {
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
