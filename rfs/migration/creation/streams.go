package creation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Owns reports whether an index of the target carries the mark of a session.
type Owns func(ctx context.Context, index string) (bool, error)

// placeStreams adapts the plan to the target's data streams and aliases: it verifies that documents may be created in a stream, or that an
// alias may have the stream's name.
func (t *Indices) placeStreams(ctx context.Context, plan *plan.Plan, owns Owns) error {
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
			renamed, err := t.placeAlias(ctx, backingOf(plan, e.Stream.Stream), owns, false)
			if err != nil {
				return err
			}
			moved = moved || renamed
		}
		asked[e.Stream.Stream] = true
	}
	if moved {
		return plan.CheckTargets()
	}
	return nil
}

// backingOf returns the planned backing indices of a data stream.
func backingOf(p *plan.Plan, stream string) (parts []*plan.Index) {
	for i := range p.Indices {
		if e := p.Indices[i].Entry; e.Stream != nil && e.Stream.Stream == stream {
			parts = append(parts, &p.Indices[i])
		}
	}
	return parts
}

// placeAlias removes the alias from the backing indices of a data stream if its name is taken. If the target has a data stream of that name,
// it would reject a name that may become the stream's next backing index, so the backing indices are renamed without the leading dot.
// Backing indices that former rounds have brought keep their names, and all that exist do if existing is set. owns recognizes indices of
// former rounds; nil: there were none.
func (t *Indices) placeAlias(ctx context.Context, parts []*plan.Index, owns Owns, existing bool) (renamed bool, err error) {
	alias := parts[0].Entry.Stream.Alias
	if alias == "" {
		return false, nil
	}
	var holders []string
	there, err := objects.FindStream(ctx, t.Requester, alias)
	taken := there != nil
	if err == nil && !taken {
		holders, taken, err = objects.Holders(ctx, t.Requester, alias)
	}
	switch {
	case errors.Is(err, fault.ErrConfig): // an alias does not stop the run: its refusal is reported later
		t.Log.WarnContext(ctx, "the target does not let see whether the name of a data stream is free", "name", alias, "reason", err.Error())
		return false, nil
	case err != nil:
		return false, err
	}
	for _, x := range parts {
		e := &x.Entry
		name := metadata.BackingName(e.Naming.Index, there != nil)
		if existing || e.Since != nil {
			if name, err = t.backingName(ctx, e.Naming.Index, there, holders); err != nil {
				return false, err
			}
		}
		renamed = renamed || name != e.Naming.Index
		e.Naming.Index = name
	}
	foreign, err := foreignHolders(ctx, parts, holders, owns)
	if err != nil {
		return false, err
	}
	if owns != nil && len(foreign) > 0 && len(foreign) < len(holders) {
		return false, fmt.Errorf("the alias %s, which replaces the data stream %s, was set on %s by other clients (a rollover, for example), and would not show what the stream has: "+
			"delete these indices, or remove the alias from them (POST /_aliases), and run the same command again: %w", alias, parts[0].Entry.Stream.Stream, fault.Names(foreign, maxForeign), fault.ErrConfig)
	}
	for _, x := range parts {
		switch {
		case taken || len(foreign) > 0:
			x.Entry.Stream.Alias, x.Entry.Stream.Writes = "", false
		case !slices.Contains(holders, x.Entry.Naming.Index): // a former round found the name taken
			x.Unchanged = false
		}
	}
	return renamed, nil
}

// maxForeign is the maximum number of indices of other clients that a message names.
const maxForeign = 5

// backingName returns the name on the target of an existing backing index, given its name with a dot, the data stream that the target has
// of the stream's name, and the indices that have its alias.
func (t *Indices) backingName(ctx context.Context, dotted string, there *objects.TargetStream, holders []string) (string, error) {
	plain := metadata.BackingName(dotted, true)
	for _, name := range []string{dotted, plain} {
		if slices.Contains(holders, name) {
			return name, nil
		}
	}
	for _, name := range []string{dotted, plain} {
		if there != nil && slices.Contains(there.Indices, name) {
			continue
		}
		is, err := t.Cluster.IndexExists(ctx, name)
		if err != nil || is {
			return name, err
		}
	}
	return metadata.BackingName(dotted, there != nil), nil
}

// foreignHolders returns the indices with the alias of a data stream that other clients created.
func foreignHolders(ctx context.Context, parts []*plan.Index, holders []string, owns Owns) (foreign []string, err error) {
	for _, name := range holders {
		ours := slices.ContainsFunc(parts, func(x *plan.Index) bool {
			return (owns == nil || x.Entry.Since != nil) && slices.Contains(x.Entry.Naming.Targets(), name)
		})
		if !ours && owns != nil {
			if ours, err = owns(ctx, name); err != nil {
				return nil, fmt.Errorf("index %s of the target: %w", name, err)
			}
		}
		if !ours {
			foreign = append(foreign, name)
		}
	}
	return foreign, nil
}

// mayCreateIn returns an error if stream is not and will not be a data stream, or if a policy rolls it over.
func (t *Indices) mayCreateIn(ctx context.Context, plan *plan.Plan, stream string) error {
	makes, err := objects.MakesStream(ctx, t.Requester, stream)
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
		return objects.NoStreamTemplate(stream)
	}
	if _, err := t.StreamUUID(ctx, stream); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// makeStream creates the data stream of an entry unless it exists.
func (t *Indices) makeStream(ctx context.Context, x plan.Index) (Made, error) {
	name := x.Entry.Naming.Index
	made := Made{}
	switch _, err := t.StreamUUID(ctx, name); {
	case errors.Is(err, fs.ErrNotExist):
		if err := objects.CheckStream(ctx, t.Requester, name); err != nil {
			return Made{}, err
		}
		created, err := objects.CreateStream(ctx, t.Requester, name)
		if err == nil && created {
			err = objects.MarkStream(ctx, t.Requester, name, x.Mark)
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

// StreamUUID returns the UUID that identifies a data stream of the target. Errors: objects.ErrRollover if a policy rolls it over,
// fs.ErrNotExist if it does not exist, and fault.ErrConfig if an index or an alias has the name.
func (t *Indices) StreamUUID(ctx context.Context, name string) (string, error) {
	if err := objects.CheckRollover(ctx, t.Requester, name); err != nil {
		return "", err
	}
	found, err := objects.FindStream(ctx, t.Requester, name)
	switch {
	case err != nil:
		return "", err
	case found != nil:
		return found.UUID, nil
	}
	holders, taken, err := objects.Holders(ctx, t.Requester, name)
	switch {
	case err != nil:
		return "", err
	case taken || len(holders) > 0:
		return "", fmt.Errorf("data stream %s: an index or an alias of the target has the name: --index-rename gives the stream another one: %w", name, fault.ErrConfig)
	}
	return "", fmt.Errorf("data stream %s: %w", name, fs.ErrNotExist)
}

// Locate completes a plan with what a migration learns from the target: the names of backing indices, and whether originals of filtered
// sources are sent. It writes nothing.
func (t *Indices) Locate(ctx context.Context, plan *plan.Plan) error {
	asked, moved := map[string]bool{}, false
	for i := range plan.Indices {
		e := &plan.Indices[i].Entry
		if e.Stream != nil && !e.Create && !asked[e.Stream.Stream] {
			renamed, err := t.placeAlias(ctx, backingOf(plan, e.Stream.Stream), nil, true)
			if err != nil {
				return err
			}
			asked[e.Stream.Stream], moved = true, moved || renamed
		}
		absent, err := t.Absent(ctx, e.Naming.Targets())
		if err != nil {
			return err
		}
		if len(absent) == 0 && !e.Create {
			if e.Originals, err = t.sendsOriginals(ctx, plan.Indices[i]); err != nil {
				return err
			}
		}
	}
	if moved {
		return plan.CheckTargets()
	}
	return nil
}
