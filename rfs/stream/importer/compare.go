package importer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/compare"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Comparison is the source's side of a verification: files, read in the same way as by an import.
type Comparison struct {
	Source       Source
	Types        Types
	AllowPartial bool // compare the existing part of an incomplete export
	// IncludeSystem also compares indices whose names start with a dot.
	IncludeSystem bool
	MaxDocument   int64 // maximum length of a source, in bytes; 0: maxLine
	// Memory limits the memory of long lines, Frames of the windows of zstd frames; nil: no limit.
	Memory, Frames *budget.Budget
	Log            *slog.Logger
}

// errNoImport means that later writes to the target cannot be recognized.
var errNoImport = errors.New("no session of this name has imported files to this target, as far as its state shows")

// Compared returns the files as the source of a comparison, with the mappings stored next to the files, if any. identity
// identifies the files and the settings that determine the documents.
func (c Comparison) Compared(files snapshot.Repository, identity string) compare.Source {
	return compare.Source{
		Identity: identity,
		Marks: func(ctx context.Context, client *target.Client, state *cms.Coordinator) (m rollback.Marks, err error) {
			if state == nil {
				return m, errNoImport
			}
			if _, err := NewAgain(ctx, c, state); err != nil {
				return m, err
			}
			return rollback.ReadMarks(ctx, client, session.CreatedOf(state))
		},
		Groups: func(ctx context.Context, _ *target.Client, _ target.Version) ([]verify.Group, error) {
			return c.Groups(ctx)
		},
		Fields: func(ctx context.Context, client *target.Client, v target.Version, _ *verify.Failed, r *verify.Report) error {
			return compare.ExportedFields(ctx, files, client, v, r, c.Log)
		},
	}
}

// Groups returns the files grouped with their target indices. Files with an index in common are in
// one group. A file without a manifest is read once for the names of its indices. Errors are of reading, and ErrPartial.
func (c Comparison) Groups(ctx context.Context) ([]verify.Group, error) {
	m := &Import{Source: c.Source, AllowPartial: c.AllowPartial, Log: c.Log}
	s, err := list(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	_, partial, err := m.compareManifests(ctx, s)
	if err == nil {
		err = m.refuse(partial)
	}
	if err != nil {
		return nil, err
	}
	hashes := s.exports.hashes()
	var groups []verify.Group
	for _, f := range s.files {
		hash, exported := hashes[f.name]
		indices, err := c.indices(ctx, f, exported)
		if err != nil {
			return nil, err
		}
		if len(indices) > 0 {
			groups = verify.Join(groups, verify.Group{Targets: indices, Sources: []string{f.name}, Units: []verify.Unit{c.unit(f, hash, indices[0])}}, "")
		}
	}
	return groups, nil
}

// errEnough ends a reading early.
var errEnough = errors.New("enough is known")

// indices returns the names of the indices of a file's documents. A file of an export has one.
func (c Comparison) indices(ctx context.Context, f file, exported bool) ([]string, error) {
	found := map[string]bool{}
	var all []string
	err := c.read(ctx, f, 0, func(p *pair, v decision) error {
		name := string(p.action.Index)
		if v != good || found[name] {
			return nil
		}
		found[name], all = true, append(all, name)
		if exported {
			return errEnough
		}
		return nil
	})
	known := errors.Is(err, errEnough) || errors.Is(err, fault.ErrCorrupt) && len(all) > 0 // damage is part of the result
	if err != nil && !known {
		return nil, err
	}
	return all, nil
}

// read calls each with every pair of a file that starts at byte from or later, and its treatment by an import.
func (c Comparison) read(ctx context.Context, f file, from int64, each func(p *pair, v decision) error) error {
	next, err := c.readFrom(ctx, f, from, 0, each)
	if errors.Is(err, errFurther) {
		_, err = c.readFrom(ctx, f, next, MaxBack, each)
	}
	return err
}

func (c Comparison) readFrom(ctx context.Context, f file, from, back int64, each func(p *pair, v decision) error) (next int64, err error) {
	w, err := openWindow(ctx, c.Source, Task{File: f.name, Size: f.size, To: f.size, Compression: f.packed}, from, lineLimit(c.MaxDocument), room{c.Memory, c.Frames}, back)
	if err != nil {
		return from, err
	}
	defer w.close()
	for {
		p, err := w.next()
		if errors.Is(err, io.EOF) {
			return from, nil
		}
		if err == nil {
			err = each(p, p.decide(c.Types, c.IncludeSystem))
		}
		if err != nil {
			return from, err
		}
		if w.lines.turn.held() {
			w.lines.small()
		}
		from = p.at + 1
	}
}

// unit returns the unit of a file. Documents that are not sent to any index are counted for the index first.
func (c Comparison) unit(f file, hash, first string) verify.Unit {
	u := verify.Unit{Name: f.name, Size: f.size, Count: func(context.Context) (int64, error) {
		return 0, fmt.Errorf("%s: files state no numbers of Lucene documents: %w", f.name, fault.ErrUnsupported)
	}}
	if hash != "" {
		u.Key = fmt.Sprintf("%s %s %d %s %t %d", hash, f.name, f.size, c.Types, c.IncludeSystem, c.MaxDocument)
	}
	u.Read = func(ctx context.Context, from int64, each func(*verify.Document) error) error {
		var id idMaker
		var d verify.Document
		return c.read(ctx, f, from, func(p *pair, v decision) error {
			d = verify.Document{Index: p.action.Index, ID: p.action.ID, Routing: p.action.Routing, Source: p.source, Ordinal: p.at}
			switch {
			case v == filtered:
				d.Index, d.Fate = []byte(first), verify.Filtered
			case v == failing:
				d.Index, d.Fate, d.Reason = []byte(first), verify.Unsent, string(p.reason)
			case p.action.ID == nil:
				d.ID = id.make(f.name, p.at)
			}
			return each(&d)
		})
	}
	return u
}
