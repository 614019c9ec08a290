package importer

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/operation/redrive"
)

// Again reads documents of an import again from its files, in the form in which they were sent. It is a redrive.Source.
type Again struct {
	Comparison

	files []file
}

// NewAgain returns an Again for the files of c, with the Types and IncludeSystem of the session. It returns fault.ErrConfig if the
// session imported other files.
func NewAgain(ctx context.Context, c Comparison, kept *cms.Coordinator) (*Again, error) {
	settings, err := session.IdentityOf(kept).Settings(ctx)
	if errors.Is(err, cms.ErrNotFound) || err == nil && settings[taskKey] != Kind {
		return nil, fmt.Errorf("the session imports no files: give --repo-uri of a migration: %w", fault.ErrConfig)
	}
	if err != nil {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	c.Types = Types(settings[typesKey])
	if c.IncludeSystem, err = strconv.ParseBool(settings[systemKey]); err != nil {
		return nil, fmt.Errorf("state of the session: %s: %w: %w", systemKey, err, fault.ErrCorrupt)
	}
	identity, err := session.IdentityOf(kept).Read(ctx)
	if err != nil {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	found, err := list(ctx, c.Source)
	if err != nil {
		return nil, err
	}
	m := &Import{Source: c.Source, AllowPartial: true, Log: c.Log}
	if _, _, err := m.compareManifests(ctx, found); err != nil {
		return nil, err
	}
	is, was := found.exports.content(), identity[contentKey]
	if describe(found.files) != settings[filesKey] || is != "" && was != "" && is != was {
		return nil, fmt.Errorf("%s holds other files than those that the session imported (names, sizes or content differ): give its files as --from: %w", c.Source.URI(), fault.ErrConfig)
	}
	return &Again{c, found.files}, nil
}

// far is the maximum distance in bytes between two documents of a plain file that are read in one pass; beyond it the file is opened
// again.
const far = 1 << 20

// Read calls each with the wanted documents that the files contain at their offset with their id. n is the index in wanted. A document
// is borrowed until each returns.
func (a *Again) Read(ctx context.Context, wanted []redrive.Document, each func(n int, d *doc.Document) error) error {
	of := map[int][]int{} // places in wanted, by the number of the file
	for n, d := range wanted {
		if d.Shard >= 0 && d.Shard < len(a.files) && d.Ordinal >= 0 && d.Ordinal < noEnd {
			of[d.Shard] = append(of[d.Shard], n)
		}
	}
	for number, f := range a.files {
		places := of[number]
		slices.SortFunc(places, func(x, y int) int { return cmp.Compare(wanted[x].Ordinal, wanted[y].Ordinal) })
		for len(places) > 0 {
			n := 1
			for n < len(places) && (f.packed != plain || wanted[places[n]].Ordinal-wanted[places[n-1]].Ordinal <= far) {
				n++
			}
			if err := a.some(ctx, f, wanted, places[:n], each); err != nil {
				return err
			}
			places = places[n:]
		}
	}
	return nil
}

// some calls each with wanted documents of a file that are near each other, except for missing ones.
func (a *Again) some(ctx context.Context, f file, wanted []redrive.Document, places []int, each func(n int, d *doc.Document) error) error {
	var id idMaker
	take := func(p *pair, v decision) error {
		for len(places) > 0 && wanted[places[0]].Ordinal < p.at {
			places = places[1:]
		}
		for ; len(places) > 0 && wanted[places[0]].Ordinal == p.at; places = places[1:] {
			if p.action.ID == nil {
				p.action.ID = id.make(f.name, p.at)
			}
			w := wanted[places[0]]
			if v != good || w.Index != string(p.action.Index) || !bytes.Equal([]byte(w.ID), p.action.ID) {
				continue
			}
			if err := each(places[0], &doc.Document{Ordinal: p.at, Index: p.action.Index, Type: p.action.Type, ID: p.action.ID, Routing: p.action.Routing, Source: p.source}); err != nil {
				return err
			}
		}
		if len(places) == 0 {
			return errEnough
		}
		return ctx.Err()
	}
	from := wanted[places[0]].Ordinal
	if f.packed == plain && from >= f.size {
		return nil
	}
	err := a.read(ctx, f, from, take)
	if errors.Is(err, errEnough) || errors.Is(err, fault.ErrCorrupt) { // the documents after the damage are not found
		return nil
	}
	return err
}
