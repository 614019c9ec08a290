package worker

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// DataStreams is what becomes of the backing indices of data streams.
type DataStreams string

// The ways.
const (
	StreamsToIndices DataStreams = "index"  // each an ordinary index, behind an alias of the stream's name
	StreamsCreate    DataStreams = "create" // their documents are created in a data stream of the target
)

// streamName is the name that a data stream, or the alias that stands in for it, has on the target.
func (r Request) streamName(stream string) (string, error) {
	names, err := r.Rename.Names([]string{stream})
	return r.Rules.IndexName(names[stream]), err
}

// planStreams says what becomes of each backing index of the plan, as far as the snapshot tells.
func (p *Plan) planStreams(ctx context.Context, snap *snapshot.Snapshot, req Request) error {
	if len(snap.DataStreams) == 0 {
		return nil
	}
	g, err := streamsOf(ctx, snap)
	switch {
	case err == nil:
	case req.DataStreams == StreamsCreate, errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
		return fmt.Errorf("data streams of the snapshot: %w", err)
	default: // the documents can be read all the same
		p.Warnings = append(p.Warnings, fmt.Sprintf("backing indices get no alias, because the data streams of the snapshot cannot be read: %v", err))
		return nil
	}
	names := map[string]string{}
	for stream := range g.DataStreams {
		if names[stream], err = req.streamName(stream); err != nil {
			return err
		}
	}
	parts := metadata.StreamParts(g, func(stream string) bool {
		return slices.ContainsFunc(p.Indices, func(x IndexPlan) bool { return slices.Contains(x.Entry.Naming.Targets(), names[stream]) })
	})
	for i := range p.Indices {
		part, ok := parts[p.Indices[i].Name]
		if !ok {
			continue
		}
		e := &p.Indices[i].Entry
		e.Stream = &part
		switch {
		case req.DataStreams == StreamsCreate:
			e.Create, e.Naming.Index, part.Alias, part.Writes = true, names[part.Stream], "", false
		case part.Alias != "":
			part.Alias = names[part.Stream]
		}
	}
	return nil
}

// streamsOf reads which backing indices the data streams of a snapshot have.
func streamsOf(ctx context.Context, snap *snapshot.Snapshot) (metadata.Globals, error) {
	sections, err := snap.Global(ctx)
	if err != nil {
		return metadata.Globals{}, err
	}
	g, err := metadata.ParseGlobals(sections)
	if err != nil {
		return g, err
	}
	for _, name := range snap.DataStreams {
		if len(g.DataStreams[name]) == 0 {
			return g, fmt.Errorf("the metadata does not contain the data stream %s: %w", name, fault.ErrCorrupt)
		}
	}
	return g, nil
}

// Note returns what is done with a backing index; "" for what is none.
func (e Entry) Note() string {
	switch {
	case e.Stream == nil:
		return ""
	case e.Create:
		return fmt.Sprintf("documents are created in the data stream %s of the target. Duplicates are possible: a stream knows the ids of its newest backing index only, "+
			"so a document that is sent again after a rollover is there twice. Documents whose ids the stream has are kept, whatever --existing-documents says; an id that two backing indices of the source have arrives once", e.Naming.Index)
	case e.Stream.Alias == "":
		return fmt.Sprintf("an ordinary index; no alias stands in for the data stream %s: something else has its name", e.Stream.Stream)
	}
	return fmt.Sprintf("an ordinary index; the alias %s, set when its documents have arrived, stands in for the data stream", e.Stream.Alias)
}

// noteStreams tells once of each data stream that is not what an operator may expect.
func (s *Session) noteStreams(ctx context.Context, plan *Plan) error {
	for _, x := range plan.Indices {
		if x.Entry.Stream == nil {
			continue
		}
		var code string
		switch {
		case x.Entry.Create:
			code = "duplicates-possible"
		case x.Entry.Stream.Alias == "":
			code = "no-alias"
		default:
			continue
		}
		first, err := s.Coordinator.Event(ctx, "data stream "+x.Entry.Stream.Stream, code, x.Entry.Note())
		if err != nil {
			return err
		}
		if first {
			s.Log.WarnContext(ctx, "data stream", "name", x.Entry.Stream.Stream, "says", x.Entry.Note())
		}
	}
	return nil
}

// placeStreams asks the target about the names of data streams: whether documents may be created in
// a stream, or whether an alias may stand in for it. It changes the plan.
func (t *TargetIndices) placeStreams(ctx context.Context, plan *Plan) error {
	asked := map[string]bool{}
	moved := false
	for i := range plan.Indices {
		e := &plan.Indices[i].Entry
		switch {
		case e.Stream == nil || t.Requester == nil || asked[e.Stream.Stream]:
			continue
		case e.Create:
			if err := t.mayCreateIn(ctx, plan, e.Naming.Index); err != nil {
				return err
			}
		default:
			renamed, err := t.placeAlias(ctx, plan, e.Stream.Stream)
			if err != nil {
				return err
			}
			moved = moved || renamed
		}
		asked[e.Stream.Stream] = true
	}
	if moved {
		return plan.checkTargets()
	}
	return nil
}

// placeAlias takes the alias back where its name is not free. While the target has a data stream of the
// name it refuses what might be the name of the stream's next backing index: then the dot goes.
func (t *TargetIndices) placeAlias(ctx context.Context, plan *Plan, stream string) (renamed bool, err error) {
	var parts []*Entry
	var ours []string
	alias := ""
	for i := range plan.Indices {
		if e := &plan.Indices[i].Entry; e.Stream != nil && e.Stream.Stream == stream {
			parts, ours, alias = append(parts, e), append(ours, e.Naming.Targets()...), e.Stream.Alias
		}
	}
	if alias == "" {
		return false, nil
	}
	there, err := metadata.FindStream(ctx, t.Requester, alias)
	taken := there != nil
	if err == nil && !taken {
		taken, err = metadata.NameTaken(ctx, t.Requester, alias, ours)
	}
	switch {
	case errors.Is(err, fault.ErrConfig): // an alias is no reason to stop: it is told when it is refused
		t.Log.WarnContext(ctx, "the target does not let see whether the name of a data stream is free", "name", alias, "reason", err.Error())
		return false, nil
	case err != nil:
		return false, err
	}
	for _, e := range parts {
		if taken {
			e.Stream.Alias, e.Stream.Writes = "", false
		}
		e.Naming.Index = metadata.BackingName(e.Naming.Index, there != nil)
	}
	return there != nil, nil
}

// mayCreateIn refuses to create documents where no data stream is or will be, and where a policy rolls it over.
func (t *TargetIndices) mayCreateIn(ctx context.Context, plan *Plan, stream string) error {
	makes, err := metadata.MakesStream(ctx, t.Requester, stream)
	if err != nil {
		return err
	}
	if !makes && t.Globals != nil {
		comes, _, err := t.Globals.Plan(ctx, plan)
		if err != nil {
			return err
		}
		makes = comes.MakesStream(stream)
	}
	if !makes {
		return metadata.NoStreamTemplate(stream)
	}
	if _, err := t.StreamUUID(ctx, stream); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeStream creates the data stream of an entry, unless it is there.
func (t *TargetIndices) makeStream(ctx context.Context, x IndexPlan) (Made, error) {
	name := x.Entry.Naming.Index
	made := Made{}
	switch _, err := t.StreamUUID(ctx, name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := metadata.CheckStream(ctx, t.Requester, name); err != nil {
			return Made{}, err
		}
		created, err := metadata.CreateStream(ctx, t.Requester, name)
		if err == nil && created {
			err = metadata.MarkStream(ctx, t.Requester, name, x.Mark)
		}
		if err != nil {
			return Made{}, fmt.Errorf("create data stream %s: %w", name, err)
		}
		if created {
			t.Log.InfoContext(ctx, "data stream created", "name", name)
			made.Created = []string{name}
		}
	case err != nil:
		return Made{}, err
	}
	return made, t.warnOfPipelines(ctx, []string{name})
}

// StreamUUID returns what distinguishes a data stream of the target from another of the same name, and refuses one that
// a policy rolls over (metadata.ErrRollover). An error that is fs.ErrNotExist when there is none; fault.ErrConfig
// when an index or an alias has the name.
func (t *TargetIndices) StreamUUID(ctx context.Context, name string) (string, error) {
	if err := metadata.CheckRollover(ctx, t.Requester, name); err != nil {
		return "", err
	}
	found, err := metadata.FindStream(ctx, t.Requester, name)
	switch {
	case err != nil:
		return "", err
	case found != nil:
		return found.UUID, nil
	}
	taken, err := metadata.NameTaken(ctx, t.Requester, name, nil)
	switch {
	case err != nil:
		return "", err
	case taken:
		return "", fmt.Errorf("data stream %s: an index or an alias of the target has the name: --index-rename gives the stream another one: %w", name, fault.ErrConfig)
	}
	return "", fmt.Errorf("data stream %s: %w", name, fs.ErrNotExist)
}

// targetUUID returns what distinguishes a target of an entry from another of the same name.
func (s *Session) targetUUID(ctx context.Context, e Entry, name string) (string, error) {
	if e.Create && s.Streams != nil {
		return s.Streams(ctx, name)
	}
	return s.Targets.IndexUUID(ctx, name)
}
