package compare

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Comparison is the source's side of a verification: the shards of a plan, read as the migration reads them.
type Comparison struct {
	Repo snapshot.Repository
	Edit func(index string) shards.DocumentEditor // nil: documents stay as they are
	// Redirects returns the target indices to which rules send documents of an index of the snapshot; nil: none.
	Redirects func(index string) []string
	// Memory bounds the memory of long documents over all shards being read; nil: no bound.
	Memory      *budget.Budget
	MaxDocument int64 // longest source that is read, in bytes; 0: DefaultMaxDocument
	// Identity identifies the snapshot and the settings that decide which of its documents are sent, and how; "": unknown.
	Identity string
	// Changed restricts the comparison to the documents that the plan's round changes.
	Changed bool
	Log     *slog.Logger
}

// Groups returns the target indices of a plan with everything that sends documents to them. Indices of the snapshot that
// share a target index are in one group.
func (c Comparison) Groups(plan *plan.Plan) []verify.Group {
	var groups []verify.Group
	for _, x := range plan.Indices {
		if c.Changed && x.Unchanged {
			continue
		}
		g := verify.Group{Targets: x.Entry.Naming.Targets(), Sources: []string{x.Name}, Units: c.units(x)}
		if c.Redirects != nil {
			g.Targets = append(g.Targets, c.Redirects(x.Name)...)
		}
		if c.Edit != nil && c.Edit(x.Name) != nil {
			g.Uncounted = "rules may leave out documents"
		}
		groups = verify.Join(groups, g, "several indices of the snapshot have this target; an id that two of them have arrives once")
	}
	return groups
}

// units returns one unit for each shard of an index.
func (c Comparison) units(x plan.Index) []verify.Unit {
	units := make([]verify.Unit, x.Entry.Shards)
	for shard := range units {
		count := func(ctx context.Context) (int64, error) {
			n, err := shards.Count(ctx, c.Repo, x.Entry, shard)
			return n, unheld(err)
		}
		units[shard] = verify.Unit{Name: fmt.Sprintf("%s/%d", x.Name, shard), Key: c.key(x, shard), Count: count, Read: func(ctx context.Context, from int64, each func(*verify.Document) error) error {
			return unheld(c.read(ctx, x.Entry, shard, from, each))
		}}
	}
	return units
}

// read reads the documents that a session sends from a shard: all of them, or the changes of a round.
func (c Comparison) read(ctx context.Context, e plan.Entry, shard int, from int64, each func(*verify.Document) error) error {
	to := []byte(e.Naming.Targets()[0]) // documents that are not sent have no target of their own
	again := int64(0)                   // 1 if a round may send the same ids from another index or by other rules; these have the next version
	if e.Since != nil && e.Since.Another || c.Edit != nil && c.Edit(e.Locator.IndexName) != nil {
		again = 1
	}
	var v verify.Document
	receive := shards.Documents{
		From: from, Memory: c.Memory, MaxDocument: c.MaxDocument,
		Send: func(d *doc.Document) error {
			v = verify.Document{Index: d.Index, ID: d.ID, Routing: d.Routing, Source: d.Source, Shard: shard, Ordinal: d.Ordinal, Version: d.Version}
			if d.Delete {
				v.Fate, v.Version = verify.Gone, d.Version+again
			}
			return each(&v)
		},
		Filter: func(d *doc.Document) error {
			if d.Delete || d.ID == nil { // from the former snapshot
				return nil
			}
			v = verify.Document{Index: to, ID: d.ID, Shard: shard, Ordinal: d.Ordinal, Fate: verify.Filtered}
			return each(&v)
		},
		Fail: func(f *doc.Failure) error {
			v = verify.Document{Index: to, ID: []byte(f.ID), Shard: shard, Ordinal: f.Ordinal, Fate: verify.Unsent, Reason: string(f.Reason)}
			return each(&v)
		},
	}
	if c.Changed && e.Since != nil {
		return shards.ReadChanged(ctx, c.Repo, e, shard, c.Edit, c.Log, receive)
	}
	return shards.Read(ctx, c.Repo, e, shard, c.Edit, receive)
}

// unheld makes a comparison report a shard that the snapshot does not hold like a damaged shard.
func unheld(err error) error {
	if errors.Is(err, snapshot.ErrShardMissing) {
		return missingShard{err}
	}
	return err
}

type missingShard struct{ error }

// Is reports whether target is fault.ErrCorrupt.
func (missingShard) Is(target error) bool { return target == fault.ErrCorrupt }

func (m missingShard) Unwrap() error { return m.error }

// key identifies the documents that a session sends from a shard; "" if the identity is unknown.
func (c Comparison) key(x plan.Index, shard int) string {
	entry, err := x.Entry.Encode()
	if err != nil || c.Identity == "" {
		return ""
	}
	return fmt.Sprintf("%s %d %d %s", c.Identity, c.MaxDocument, shard, entry)
}

// Target is the target's side of a verification.
type Target struct {
	Client  *target.Client
	Version target.Version
	Longest int64 // longest source that is read, in bytes; 0: DefaultMaxDocument
	// Admit blocks until bytes more may be read from the target; nil: no limit.
	Admit func(ctx context.Context, bytes int) error
	Pace  target.Pace // nil: none
	// Marks are the sequence numbers that shards had at the end of the migration; nil: unknown.
	Marks Marks
	// Sequence returns the highest sequence number of each shard ("index/shard") of an index, alias or data stream. nil or an error means
	// that it is unknown.
	Sequence func(ctx context.Context, name string) (map[string]int64, error)
	Pause    func(ctx context.Context, d time.Duration) error // between attempts to read a page
	Log      *slog.Logger
}

// Marks returns recorded sequence numbers of shards.
type Marks interface {
	Of(index string, shard int) (mark int64, known bool)
}

// Content refreshes an index, alias or data stream and returns a unit for each of its shards.
func (t Target) Content(ctx context.Context, name string) (verify.Content, error) {
	found, err := t.Client.GetIndex(ctx, name)
	switch {
	case fault.HasStatus(err, http.StatusNotFound), err == nil && len(found) == 0:
		return verify.Content{Absent: true}, nil
	case err != nil:
		return verify.Content{}, err
	}
	written := t.written(ctx, name) // before the refresh, so that every operation counted is read
	switch err := t.Client.Refresh(ctx, name); {
	case errors.Is(err, fault.ErrConfig):
		written = nil
		t.Log.WarnContext(ctx, "target index cannot be refreshed: documents of the last second may be missing", "index", name, "reason", err.Error())
	case err != nil:
		return verify.Content{}, err
	}
	var held verify.Content
	if held.Documents, err = t.Client.Count(ctx, name); err != nil {
		return held, err
	}
	slices.SortFunc(found, func(a, b target.Index) int { return cmp.Compare(a.Name, b.Name) })
	var why []string
	for _, x := range found {
		if reduced := plan.ReducedSource(&snapshot.Index{Settings: x.Settings, Mappings: []snapshot.Mapping{{Body: x.Mappings}}}); reduced != "" {
			why = append(why, reduced)
		}
		units, err := t.units(x, written)
		if err != nil {
			return held, err
		}
		held.Units = append(held.Units, units...)
	}
	held.NotComparable = strings.Join(slices.Compact(why), "; ")
	return held, nil
}

// Find looks up documents by id.
func (t Target) Find(ctx context.Context, keys []verify.Key) ([]verify.Found, error) {
	wanted := make([]bulk.Key, len(keys))
	bytes := 0
	for i, k := range keys {
		wanted[i] = bulk.Key{Index: k.Index, ID: k.ID, Routing: k.Routing}
	}
	is, err := t.Client.Find(ctx, wanted)
	if err != nil {
		return nil, err
	}
	found := make([]verify.Found, len(is))
	for i, f := range is {
		found[i] = verify.Found{There: f.There, Version: f.Version, Routing: f.Routing, Source: f.Source}
		bytes += len(f.Source)
	}
	if t.Admit != nil {
		err = t.Admit(ctx, bytes)
	}
	return found, err
}

// Count refreshes an index, alias or data stream and returns the number of its Lucene documents.
func (t Target) Count(ctx context.Context, name string) (n int64, there bool, err error) {
	there, err = t.Client.IndexExists(ctx, name)
	if err != nil || !there {
		return 0, false, err
	}
	if err := t.Client.Refresh(ctx, name); err != nil && !errors.Is(err, fault.ErrConfig) {
		return 0, true, err
	}
	n, err = t.Client.CountLucene(ctx, name)
	return n, true, err
}

// written returns the sequence numbers of the shards of an index, alias or data stream; nil if they are unknown.
func (t Target) written(ctx context.Context, name string) map[string]int64 {
	if t.Sequence == nil {
		return nil
	}
	all, err := t.Sequence(ctx, name)
	if err != nil {
		return nil
	}
	return all
}

// units returns one unit for each shard of a target index. Its key changes with every write, as the sequence number is part of it.
func (t Target) units(x target.Index, written map[string]int64) ([]verify.Unit, error) {
	all, err := strconv.Atoi(x.Settings["index.number_of_shards"])
	if err != nil || all < 1 || all > 1<<16 {
		return nil, fmt.Errorf("index %s has %q shards: %w", x.Name, x.Settings["index.number_of_shards"], fault.ErrUnavailable)
	}
	window, err := strconv.Atoi(cmp.Or(x.Settings["index.max_result_window"], "0"))
	if err != nil {
		window = 0
	}
	units := make([]verify.Unit, all)
	for shard := range units {
		size, mark, marked := 0, int64(0), false
		if t.Marks != nil && t.Version.ReportsSequence() {
			mark, marked = t.Marks.Of(x.Name, shard)
		}
		key := ""
		if n, known := written[x.Name+"/"+strconv.Itoa(shard)]; known && x.UUID != "" {
			key = fmt.Sprintf("%s %d %d", x.UUID, shard, n)
		}
		units[shard] = verify.Unit{Name: fmt.Sprintf("target index %s/%d", x.Name, shard), Key: key, Read: func(ctx context.Context, _ int64, each func(*verify.Document) error) error {
			r := target.Reading{Index: x.Name, Shard: shard, PointInTime: t.Version.HasPointInTime(), Window: window, Size: &size,
				Longest: cmp.Or(t.Longest, shards.DefaultMaxDocument), Admit: t.Admit, Pace: t.Pace, Sequence: marked, Pause: t.Pause}
			return t.Client.ReadShard(ctx, r, func(h target.Hit) error {
				return each(&verify.Document{ID: h.ID, Routing: h.Routing, Source: h.Source, Since: marked && h.Sequence > mark})
			})
		}}
	}
	return units, nil
}
