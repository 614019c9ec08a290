package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/metadata"
	"github.com/rfsd/rfsd/rfs/progress"
	"github.com/rfsd/rfsd/rfs/target"
)

// TargetCounts reads what the indices of a target hold. *target.Client is one.
type TargetCounts interface {
	Refresh(ctx context.Context, index string) error
	// Count returns the number of root documents, CountRouted that of those with a routing of their own.
	Count(ctx context.Context, index string) (int64, error)
	CountRouted(ctx context.Context, index string) (int64, error)
	// CountLucene returns the number of Lucene documents, nested ones included.
	CountLucene(ctx context.Context, index string) (int64, error)
	GetIndex(ctx context.Context, name string) ([]target.Index, error)
	FinalPipelines(ctx context.Context, indices []string) (map[string]string, error)
	Operations(ctx context.Context, index string) (target.Operations, error)
}

// arriving is what an index of the snapshot has sent.
type arriving struct {
	name  string
	entry Entry
	sent  cms.Counts
	open  bool
	loose bool // its operations are not counted: rules send documents to indices of others
}

// arrivalsAtOnce is how many target indices are counted at the same time: each takes several requests, one after the other.
const arrivalsAtOnce = 8

// checkArrivals compares every target index whose work has ended with what was sent to it, and records the result in the
// index entries. What was found complete once is not counted again: others may write to it from then on.
func (s *Session) checkArrivals(ctx context.Context) error {
	if s.Counts == nil {
		return nil
	}
	groups, err := s.arriving(ctx)
	if err != nil {
		return err
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(arrivalsAtOnce)
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		group := groups[key]
		if slices.ContainsFunc(group, func(a *arriving) bool { return a.open }) {
			continue
		}
		g.Go(func() error { return s.checkArrival(gctx, group) })
	}
	return g.Wait()
}

// checkArrival compares the target indices of a group, whose work has ended, with what was sent to them.
func (s *Session) checkArrival(ctx context.Context, group []*arriving) error {
	arrival, err := s.arrival(ctx, group)
	if err != nil {
		return err
	}
	for _, a := range group {
		if err := s.recordArrival(ctx, a, arrival); err != nil {
			return err
		}
	}
	return nil
}

// arriving returns the indices that are on the target, grouped by their target indices.
func (s *Session) arriving(ctx context.Context) (map[string][]*arriving, error) {
	entries, err := s.entries(ctx)
	if err != nil {
		return nil, err
	}
	byName, groups := map[string]*arriving{}, map[string][]*arriving{}
	for _, e := range entries {
		if e.State != cms.PhaseCompleted {
			continue
		}
		entry, err := decodeEntry(e.Name, e.Body)
		if err != nil {
			return nil, err
		}
		a := &arriving{name: e.Name, entry: entry}
		key := strings.Join(entry.Naming.Targets(), " ")
		byName[e.Name], groups[key] = a, append(groups[key], a)
	}
	for item, err := range s.Coordinator.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("list items: %w", err)
		}
		id, rerr := item.Range()
		a := byName[id.Index]
		if rerr != nil || a == nil {
			continue
		}
		a.sent, a.open = a.sent.Add(item.Counts), a.open || item.Open()
	}
	again, err := progress.ReadRedrives(ctx, s.Coordinator)
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		a := byName[name]
		n := again.Take(a.entry.Naming.Targets(), a.sent.Failed)
		a.sent.Failed, a.sent.Indexed = a.sent.Failed-n, a.sent.Indexed+n
	}
	if s.Redirects != nil && slices.ContainsFunc(slices.Collect(maps.Keys(byName)), s.Redirects) {
		for _, a := range byName {
			a.loose = true
		}
	}
	return groups, nil
}

// arrival asks the target for the indices of a group.
func (s *Session) arrival(ctx context.Context, group []*arriving) (progress.Arrival, error) {
	is := progress.Arrival{Shared: len(group) > 1}
	before := true // everything was found complete before
	for _, a := range group {
		is.Expected += a.sent.Indexed
		before = before && a.entry.Arrival != nil && a.entry.Arrival.Problem == ""
	}
	entry := group[0].entry
	err := s.checkTargets(ctx, entry, 0)
	switch {
	case errors.Is(err, ErrTargetReplaced):
		is.Gone, is.Problem = true, fmt.Sprintf("%s; %d documents were sent to it", fault.Text(err), is.Expected)
		return is, nil
	case errors.Is(err, metadata.ErrRollover): // that was a danger while documents came
		is.Uncounted, is.Note = true, "not counted: "+fault.Text(err)
		return is, nil
	case err != nil:
		return is, err
	}
	if before && group[0].entry.Arrival.Expected == is.Expected {
		return *group[0].entry.Arrival, nil
	}
	err = s.countArrival(ctx, group, &is)
	var status *fault.StatusError
	switch {
	case errors.As(err, &status) && status.Status == http.StatusNotFound: // it went a moment ago
		is.Gone, is.Problem = true, fmt.Sprintf("%s; %d documents were sent to it", fault.Text(err), is.Expected)
		return is, nil
	case errors.Is(err, fault.ErrConfig):
		is.Uncounted, is.Note = true, "not counted: "+fault.Text(err)
		return is, nil
	}
	return is, err
}

// countArrival refreshes the targets of a group and compares numbers where they are this session's own.
func (s *Session) countArrival(ctx context.Context, group []*arriving, is *progress.Arrival) error {
	entry := group[0].entry
	targets := entry.Naming.Targets()
	for _, name := range targets {
		if err := s.Counts.Refresh(ctx, name); err != nil {
			return fmt.Errorf("refresh %s: %w", name, err)
		}
		n, err := s.Counts.Count(ctx, name)
		if err != nil {
			return fmt.Errorf("count %s: %w", name, err)
		}
		is.Found += n
	}
	if err := s.countLucene(ctx, targets, is); err != nil {
		return err
	}
	if err := s.countOperations(ctx, group, is); err != nil {
		return err
	}
	for _, a := range group {
		for _, name := range targets {
			if !slices.Contains(a.entry.Ours, name) && !slices.Contains(entry.Ours, name) {
				is.Note = "not compared: the index was there before this session"
				return nil
			}
		}
		if s.Redirects != nil && s.Redirects(a.name) {
			is.Note = "not compared: rules send documents to other indices"
			return nil
		}
	}
	if is.Found >= is.Expected {
		if n := is.Foreign(); n > 0 {
			is.Note = fmt.Sprintf("%d operations on it are not of this session: other clients wrote to it, or requests without an answer took effect late", n)
		}
		return nil
	}
	why, err := s.whyFewer(ctx, group)
	if err != nil {
		return err
	}
	if why != "" {
		is.Note = fmt.Sprintf("%d documents fewer than were indexed: %s", is.Expected-is.Found, why)
		return nil
	}
	is.Problem = fmt.Sprintf("the target has %d documents in %s, %d were indexed: %d are missing; find out what deleted them, then begin a new session (--session-name), which sends everything again",
		is.Found, strings.Join(targets, ", "), is.Expected, is.Expected-is.Found)
	return nil
}

// countOperations adds how many operations the targets of a group have executed, and how many of them are this session's, where
// both are known: it has created the targets, and the versions of documents are the target's own.
func (s *Session) countOperations(ctx context.Context, group []*arriving, is *progress.Arrival) error {
	targets := group[0].entry.Naming.Targets()
	if s.Existing == bulk.Newer {
		return nil
	}
	var written int64
	for _, a := range group {
		if a.loose || !a.entry.own() && !group[0].entry.own() {
			return nil
		}
		written += a.sent.Written()
	}
	var sum int64
	for _, name := range targets {
		is, err := s.Counts.Operations(ctx, name)
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
			s.Log.InfoContext(ctx, "the target does not state how many operations it has executed", "index", name, "reason", fault.Text(err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("operations on %s: %w", name, err)
		}
		sum += is.Executed
	}
	is.Operations, is.Written, is.Accounted = sum, written, true
	return nil
}

// countLucene adds the Lucene documents of targets that were refreshed. The permission to read them is optional.
func (s *Session) countLucene(ctx context.Context, targets []string, is *progress.Arrival) error {
	var sum int64
	for _, name := range targets {
		n, err := s.Counts.CountLucene(ctx, name)
		if errors.Is(err, fault.ErrConfig) {
			s.Log.InfoContext(ctx, "the target does not state its Lucene documents", "index", name, "reason", fault.Text(err))
			return nil
		}
		if err != nil {
			return fmt.Errorf("Lucene documents of %s: %w", name, err)
		}
		sum += n
	}
	is.Lucene = sum
	return nil
}

// whyFewer returns a known reason why a target holds fewer documents than it acknowledged, "" when there is none.
func (s *Session) whyFewer(ctx context.Context, group []*arriving) (string, error) {
	if len(group) > 1 {
		return fmt.Sprintf("%d indices of the snapshot have this target; an id that two of them have arrives once", len(group)), nil
	}
	entry := group[0].entry
	targets := entry.Naming.Targets()
	final, err := s.Counts.FinalPipelines(ctx, targets)
	if err != nil && !errors.Is(err, fault.ErrConfig) {
		return "", err
	}
	for _, name := range targets {
		if p := final[name]; p != "" {
			return fmt.Sprintf("the final pipeline %s of %s may drop documents", p, name), nil
		}
		found, err := s.Counts.GetIndex(ctx, name)
		if err != nil {
			return "", err
		}
		for _, x := range found {
			why, err := s.whyFewerIn(ctx, entry, x, name)
			if why != "" || err != nil {
				return why, err
			}
		}
	}
	return "", nil
}

// whyFewerIn is whyFewer for an index of the target that was found under a name.
func (s *Session) whyFewerIn(ctx context.Context, entry Entry, x target.Index, name string) (string, error) {
	if p := x.Settings["index.default_pipeline"]; p != "" && p != "_none" && s.Identity[PipelinesKey] == "true" {
		return fmt.Sprintf("the default pipeline %s of %s may drop documents (--run-pipelines)", p, x.Name), nil
	}
	var live map[string]json.RawMessage
	if len(x.Aliases) > 0 {
		if err := json.Unmarshal(x.Aliases, &live); err != nil {
			return "", fmt.Errorf("aliases of %s: %w: %w", x.Name, err, fault.ErrUnavailable)
		}
	}
	if len(live) > 0 {
		return fmt.Sprintf("%s was reachable by the alias %s while documents came; applications may have deleted some", x.Name, strings.Join(slices.Sorted(maps.Keys(live)), ", ")), nil
	}
	shards := x.Settings["index.number_of_shards"]
	if shards == strconv.Itoa(entry.Shards) && !entry.Locator.Legacy {
		return "", nil // documents of one id and several routings are as far from each other as in the source
	}
	routed, err := s.Counts.CountRouted(ctx, name)
	if routed == 0 || err != nil {
		return "", err
	}
	return fmt.Sprintf("%d documents of %s have a routing, and its %s shards are not those of the source: one id under several routings may arrive once", routed, x.Name, shards), nil
}

// recordArrival stores what was found in the entry of an index, and reports a problem once.
func (s *Session) recordArrival(ctx context.Context, a *arriving, is progress.Arrival) error {
	if was := a.entry.Arrival; was == nil || *was != is {
		err := s.Coordinator.UpdateIndexBody(ctx, a.name, func(body json.RawMessage) json.RawMessage {
			e, err := decodeEntry(a.name, body)
			if err != nil {
				return nil
			}
			e.Arrival = &is
			if body, err = e.encode(); err != nil {
				return nil
			}
			return body
		})
		if err != nil {
			return err
		}
		if is.Note != "" {
			s.Log.WarnContext(ctx, "documents counted on the target", "index", a.name, "expected", is.Expected, "found", is.Found, "note", is.Note)
		}
	}
	if is.Problem == "" {
		return nil
	}
	code := "documents_missing"
	if is.Gone {
		code = "target_missing"
	}
	first, err := s.Coordinator.Event(ctx, "index "+a.name, code, is.Problem)
	if first {
		s.Log.ErrorContext(ctx, "documents are not on the target", "index", a.name, "expected", is.Expected, "found", is.Found, "problem", is.Problem)
	}
	return err
}
