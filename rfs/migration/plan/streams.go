package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// DataStreams selects the treatment of the backing indices of data streams.
type DataStreams string

// Values of --data-streams.
const (
	StreamsToIndices DataStreams = "index"  // each an ordinary index, behind an alias of the stream's name
	StreamsCreate    DataStreams = "create" // their documents are created in a data stream of the target
)

// streamName returns the name on the target of a data stream or of the alias that replaces it.
func (r Request) streamName(stream string) (string, error) {
	names, err := r.Rename.Names([]string{stream})
	return r.Rules.IndexName(names[stream]), err
}

// planStreams decides the treatment of each backing index in the plan, as far as it depends on the snapshot.
func (p *Plan) planStreams(ctx context.Context, snap *snapshot.Snapshot, req Request) error {
	if len(snap.DataStreams) == 0 {
		return nil
	}
	g, err := ReadStreams(ctx, snap)
	switch {
	case err == nil:
	case req.DataStreams == StreamsCreate, errors.Is(err, fault.ErrUnavailable), ctx.Err() != nil:
		return fmt.Errorf("data streams of the snapshot: %w", err)
	default: // the documents can be read nevertheless
		p.Warnings = append(p.Warnings, fmt.Sprintf("backing indices get no alias, because the data streams of the snapshot cannot be read: %v", err))
		return nil
	}
	p.leaveMoved(g, req)
	names := map[string]string{}
	for stream := range g.DataStreams {
		if names[stream], err = req.streamName(stream); err != nil {
			return err
		}
	}
	parts := metadata.StreamParts(g, func(stream string) bool {
		return slices.ContainsFunc(p.Indices, func(x Index) bool { return slices.Contains(x.Entry.Naming.Targets(), names[stream]) })
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

// leaveMoved removes backing indices from the plan whose data streams were cut over: applications write to the stream on the target, so that
// a backing index that the source has added since would take its place there.
func (p *Plan) leaveMoved(g metadata.Globals, req Request) {
	if req.Follow == nil || len(req.Follow.Moved) == 0 {
		return
	}
	for stream, backing := range g.DataStreams {
		if !slices.ContainsFunc(backing, func(name string) bool { return slices.Contains(req.Follow.Moved, name) }) {
			continue
		}
		p.Indices = slices.DeleteFunc(p.Indices, func(x Index) bool {
			late := slices.Contains(backing, x.Name)
			if late {
				p.Warnings = append(p.Warnings, fmt.Sprintf("the backing index %s is not followed: its data stream %s was cut over before the source created it", x.Name, stream))
			}
			return late
		})
	}
}

// vanishedStreams records the data streams of vanished backing indices. former are the backing indices in the former snapshots.
func (p *Plan) vanishedStreams(former map[string]metadata.StreamPart, req Request) error {
	for i := range p.Vanished {
		part, ok := former[p.Vanished[i].Name]
		if !ok || req.DataStreams == StreamsCreate {
			continue
		}
		var err error
		if part.Alias, err = req.streamName(part.Stream); err != nil {
			return err
		}
		p.Vanished[i].Entry.Stream = &part
	}
	return nil
}

// ReadStreams reads the data streams of a snapshot and their backing indices.
func ReadStreams(ctx context.Context, snap *snapshot.Snapshot) (metadata.Globals, error) {
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

// StreamCode returns the code of the event about a data stream that may differ from what an operator expects; "" if none does.
func (e Entry) StreamCode() string {
	switch {
	case e.Stream == nil:
	case e.Create:
		return "duplicates-possible"
	case e.Stream.Alias == "":
		return "no-alias"
	}
	return ""
}

// Note describes the treatment of a backing index; "" for other indices.
func (e Entry) Note() string {
	switch {
	case e.Stream == nil:
		return ""
	case e.Create:
		return fmt.Sprintf("documents are created in the data stream %s of the target. Duplicates are possible: a stream knows the ids of its newest backing index only, "+
			"so a document that is sent again after a rollover exists twice. Documents whose ids the stream has are kept, regardless of --existing-documents; an id that two backing indices of the source have arrives once", e.Naming.Index)
	case e.Stream.Alias == "":
		return fmt.Sprintf("an ordinary index; no alias replaces the data stream %s: another object has its name", e.Stream.Stream)
	}
	return fmt.Sprintf("an ordinary index; the alias %s, set when its documents have arrived, replaces the data stream", e.Stream.Alias)
}
