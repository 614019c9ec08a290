package creation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// placeStreams adapts the plan to the target's data streams and aliases: it verifies that documents may be created in a stream, or that an
// alias may have the stream's name.
func (t *Indices) placeStreams(ctx context.Context, plan *plan.Plan) error {
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
		return plan.CheckTargets()
	}
	return nil
}

// placeAlias removes the alias from the plan if its name is taken. If the target has a data stream of that name, it would reject a name
// that may become the stream's next backing index, so the backing indices are renamed without the leading dot.
func (t *Indices) placeAlias(ctx context.Context, p *plan.Plan, stream string) (renamed bool, err error) {
	var parts []*plan.Entry
	var ours []string
	alias := ""
	for i := range p.Indices {
		if e := &p.Indices[i].Entry; e.Stream != nil && e.Stream.Stream == stream {
			parts, ours, alias = append(parts, e), append(ours, e.Naming.Targets()...), e.Stream.Alias
		}
	}
	if alias == "" {
		return false, nil
	}
	there, err := objects.FindStream(ctx, t.Requester, alias)
	taken := there != nil
	if err == nil && !taken {
		taken, err = objects.NameTaken(ctx, t.Requester, alias, ours)
	}
	switch {
	case errors.Is(err, fault.ErrConfig): // an alias does not stop the run: its refusal is reported later
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
	taken, err := objects.NameTaken(ctx, t.Requester, name, nil)
	switch {
	case err != nil:
		return "", err
	case taken:
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
			renamed, err := t.placeAlias(ctx, plan, e.Stream.Stream)
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
