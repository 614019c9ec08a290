package phase

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/migration/creation"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Index entries are read from the coordination store and are not trusted. Their decisions, such as which documents are read and where
// they are sent, are derived again from the snapshot and the settings of the process, by the functions that planned the entries.

// readEntry decodes the entry of an index. It returns a fault.ErrConfig if a decision of the entry differs from the decision derived from
// the snapshot and the settings of this process.
func (s *Session) readEntry(ctx context.Context, e session.IndexEntry) (plan.Entry, error) {
	entry, err := plan.DecodeEntry(e.Name, e.Body)
	if err != nil {
		return plan.Entry{}, err
	}
	return entry, s.checkEntry(ctx, e.Name, entry)
}

// checkEntry returns a fault.ErrConfig that names the first decision of an entry that differs from the derived one. A process that has
// planned compares the entry with its plan. Any other process compares it with its settings, with the metadata of the index, and with the
// data streams of the snapshot, which it reads once.
func (s *Session) checkEntry(ctx context.Context, index string, e plan.Entry) error {
	if s.Request == nil {
		return nil
	}
	d, err := s.Request.Differs(index, e)
	if err == nil && d.Field == "" {
		if p := s.plannedIndices(); p != nil {
			d = plan.DiffersFromPlan(p[index], e)
		} else if d, err = s.differsFromIndex(ctx, index, e); err == nil && d.Field == "" && e.Stream != nil {
			d, err = s.differsFromStreams(ctx, index, e)
		}
	}
	if err != nil {
		return err
	}
	return d.Err(index)
}

// plannedIndices returns the indices of this process's plan by name; nil if it has no plan.
func (s *Session) plannedIndices() map[string]*plan.Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.planned == nil {
		return nil
	}
	if s.byName == nil {
		s.byName = make(map[string]*plan.Index, len(s.planned.Indices)+len(s.planned.Unread))
		for i, x := range s.planned.Indices {
			s.byName[x.Name] = &s.planned.Indices[i]
		}
		unread := &plan.Index{}
		for _, x := range s.planned.Unread {
			s.byName[x.Name] = unread
		}
	}
	return s.byName
}

// errUnproven means that the metadata of an index cannot be read, so the entry cannot be verified.
var errUnproven = errors.New("the entry of the index cannot be compared with the snapshot")

// differsFromIndex compares an entry with the snapshot of this session and with the metadata of its index, which is read once per process.
// It returns errUnproven if the metadata cannot be read.
func (s *Session) differsFromIndex(ctx context.Context, index string, e plan.Entry) (plan.Difference, error) {
	of := plan.JSON(e.Locator) + plan.JSON(e.Naming) + plan.JSON(e.Rebuild) + plan.JSON(e.Shards) + plan.JSON(e.Version) + plan.JSON(e.Since)
	s.known.mu.Lock()
	known := s.known.derived[index] == of
	s.known.mu.Unlock()
	if known {
		return plan.Difference{}, nil
	}
	x, err := s.SourceIndex(ctx, e.Locator)
	if errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errUnproven, err)
	}
	if err != nil {
		return plan.Difference{}, err
	}
	d, err := s.Request.DiffersFromSource(x, e)
	if err == nil && d.Field == "" && !x.Mounted() {
		d, err = s.differsInSnapshot(ctx, e)
	}
	if err == nil && d.Field == "" && s.Request.Follow != nil {
		d, err = s.differsInChain(ctx, x, e)
	}
	if err != nil || d.Field != "" {
		return d, err
	}
	s.known.mu.Lock()
	defer s.known.mu.Unlock()
	if s.known.derived == nil {
		s.known.derived = map[string]string{}
	}
	s.known.derived[index] = of
	return plan.Difference{}, nil
}

// differsInSnapshot compares the snapshot name of an entry with the snapshot that this session reads. The lists of shards prove that the
// name and the UUID belong together.
func (s *Session) differsInSnapshot(ctx context.Context, e plan.Entry) (plan.Difference, error) {
	name, _, err := s.snapshotName(ctx)
	if err != nil {
		return plan.Difference{}, err
	}
	if e.Locator.SnapshotName != name {
		return plan.Difference{Field: "snapshot", Is: e.Locator.SnapshotName, Want: name}, nil
	}
	return plan.Difference{}, nil
}

// differsInChain compares the parts of an entry about the former snapshot with the repository.
func (s *Session) differsInChain(ctx context.Context, x *snapshot.Index, e plan.Entry) (plan.Difference, error) {
	s.known.mu.Lock()
	g := s.known.generation
	s.known.mu.Unlock()
	if g == nil {
		catalog, snap, err := s.openSnapshot(ctx)
		if err != nil {
			return plan.Difference{}, err
		}
		if g, err = s.Request.Follow.Read(ctx, catalog, snap); err != nil {
			return plan.Difference{}, err
		}
		s.known.mu.Lock()
		s.known.generation = g
		s.known.mu.Unlock()
	}
	return g.Differs(ctx, x, e)
}

// openSnapshot opens the snapshot of the session.
func (s *Session) openSnapshot(ctx context.Context) (*snapshot.Catalog, *snapshot.Snapshot, error) {
	name, _, err := s.snapshotName(ctx)
	if err != nil {
		return nil, nil, err
	}
	catalog, err := snapshot.OpenCatalog(ctx, s.Shards.Repo)
	if err != nil {
		return nil, nil, err
	}
	snap, err := catalog.Snapshot(ctx, name)
	return catalog, snap, err
}

// differsFromStreams compares the data stream of an entry with the data stream of the index in the snapshot, which is read once per
// process.
func (s *Session) differsFromStreams(ctx context.Context, index string, e plan.Entry) (plan.Difference, error) {
	of, err := s.snapshotStreams(ctx)
	if err != nil {
		return plan.Difference{}, fmt.Errorf("data streams of the snapshot: %w", err)
	}
	if of[index] != e.Stream.Stream {
		return plan.Difference{Field: "data stream", Is: e.Stream.Stream, Want: of[index]}, nil
	}
	return plan.Difference{}, nil
}

// snapshotStreams returns the data stream of each backing index in the snapshot.
func (s *Session) snapshotStreams(ctx context.Context) (map[string]string, error) {
	s.known.mu.Lock()
	of := s.known.streams
	s.known.mu.Unlock()
	if of != nil {
		return of, nil
	}
	_, snap, err := s.openSnapshot(ctx)
	if err != nil {
		return nil, err
	}
	g, err := plan.ReadStreams(ctx, snap)
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

// checkLate returns a fault.ErrConfig if an alias of an entry that waits for the documents is not among the aliases that the index gets on
// the target.
func (s *Session) checkLate(ctx context.Context, index string, e plan.Entry) error {
	if s.Request == nil || len(e.Late)+len(e.Dropped) == 0 {
		return nil
	}
	source, err := s.SourceIndex(ctx, e.Locator)
	if err != nil {
		return err
	}
	if err := s.checkDropped(ctx, index, e, source); err != nil {
		return err
	}
	may, err := s.Indices.Aliases(ctx, plan.Index{Name: index, Source: source, Entry: e})
	if err != nil {
		return err
	}
	for _, target := range slices.Sorted(maps.Keys(e.Late)) {
		want := creation.AliasNames(may[target])
		is := creation.AliasNames(e.Late[target])
		if is == nil {
			return plan.Difference{Field: "list of aliases of " + target, Is: string(e.Late[target]), Want: string(may[target])}.Err(index)
		}
		for _, alias := range slices.Sorted(maps.Keys(is)) {
			if want[alias] == nil || !plan.SameJSON(is[alias], want[alias]) {
				return plan.Difference{Field: fmt.Sprintf("alias %.255q of %s", alias, target), Is: string(is[alias]), Want: string(want[alias])}.Err(index)
			}
		}
	}
	return nil
}

// checkDropped returns a fault.ErrConfig if the aliases that an entry drops are not those that the index has lost since the former
// snapshot.
func (s *Session) checkDropped(ctx context.Context, index string, e plan.Entry, source *snapshot.Index) error {
	if len(e.Dropped) == 0 {
		return nil
	}
	var lost map[string][]string
	if e.Since != nil && !e.Since.Another {
		var err error
		if _, lost, err = s.changedAliases(ctx, e, source); err != nil {
			return err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(e.Dropped)) {
		if !slices.Equal(e.Dropped[target], lost[target]) {
			return plan.Difference{Field: "dropped aliases of " + target, Is: strings.Join(e.Dropped[target], " "), Want: strings.Join(lost[target], " ")}.Err(index)
		}
	}
	return nil
}
