package creation

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/migration/plan"
)

// Attachments returns the policies that manage the plan's indices on the source, by the names of the indices there.
func (t *Globals) Attachments(ctx context.Context, p *plan.Plan) (map[string]metadata.Attachment, error) {
	all, err := t.read(ctx, p)
	if err != nil {
		return nil, err
	}
	found, holders := map[string]metadata.Attachment{}, map[string]int{}
	aliases := map[string]map[string]json.RawMessage{}
	for _, x := range p.Indices {
		if x.Source == nil {
			continue
		}
		aliases[x.Name] = AliasNames(x.Source.Aliases)
		for alias := range aliases[x.Name] {
			holders[alias]++
		}
	}
	for _, x := range p.Indices {
		if x.Source == nil {
			continue
		}
		a, ok := metadata.AttachmentOf(x.Source.Settings, all.Managed[x.Source.Settings["index.uuid"]])
		switch {
		case !ok:
			continue
		case x.Entry.Stream != nil:
			a.Alias, a.RolledOver = x.Entry.Stream.Alias, !x.Entry.Stream.Writes
		case a.Alias != "":
			a.RolledOver = !writes(aliases[x.Name][a.Alias], holders[a.Alias])
		}
		found[x.Name] = a
	}
	return found, nil
}

// writes reports whether an index with an alias in this form is the alias's write index; holders is the number of indices with the alias.
func writes(alias json.RawMessage, holders int) bool {
	var is struct {
		Writes *bool `json:"is_write_index"`
	}
	if len(alias) == 0 || json.Unmarshal(alias, &is) != nil {
		return false
	}
	return is.Writes != nil && *is.Writes || is.Writes == nil && holders == 1
}

// Attach attaches a policy of the target to an index.
func (t *Globals) Attach(ctx context.Context, index string, a metadata.Attachment) (refused string, err error) {
	return objects.Attach(ctx, t.Cluster, index, a)
}

// SetPatterns sets the index patterns of the source on the policies that the session of l created, unless they were changed since.
func (t *Globals) SetPatterns(ctx context.Context, p *plan.Plan, l objects.Ledger) error {
	wanted, _, err := t.Plan(ctx, p)
	if err != nil {
		return err
	}
	for _, o := range wanted.Objects {
		if len(o.Later) == 0 {
			continue
		}
		refused, err := objects.SetPatterns(ctx, t.Cluster, o, l)
		if err != nil {
			return fmt.Errorf("index patterns of the policy %s: %w", o.Name, err)
		}
		if refused != "" {
			t.Log.WarnContext(ctx, "index patterns of a policy are not set", "policy", o.Name, "reason", refused)
		}
	}
	return nil
}
