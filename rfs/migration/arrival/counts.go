package arrival

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// counted counts what the targets of a group hold and compares it with the documents sent. A missing target or permission is a finding, not an
// error.
func (c *Check) counted(ctx context.Context, group *arrivalGroup, is progress.Arrival) (progress.Arrival, error) {
	err := c.countArrival(ctx, group, &is)
	switch {
	case fault.HasStatus(err, http.StatusNotFound): // deleted since the check above
		is.Gone, is.Problem = true, fmt.Sprintf("%s; %d documents were sent to it", fault.Text(err), is.Expected)
		return is, nil
	case errors.Is(err, fault.ErrConfig):
		is.Uncounted, is.Note = true, "not counted: "+fault.Text(err)
		return is, nil
	}
	return is, err
}

// countArrival refreshes and counts the targets of a group, and compares the counts if the targets belong to this session alone.
func (c *Check) countArrival(ctx context.Context, group *arrivalGroup, is *progress.Arrival) error {
	for _, name := range group.targets {
		if err := c.Counts.Refresh(ctx, name); err != nil {
			return fmt.Errorf("refresh %s: %w", name, err)
		}
		n, err := c.Counts.Count(ctx, name)
		if err != nil {
			return fmt.Errorf("count %s: %w", name, err)
		}
		is.Found += n
	}
	var err error
	if is.Lucene, err = countLucene(ctx, c.Counts, group.targets, c.Log); err != nil {
		return err
	}
	if err := c.countOperations(ctx, group, is); err != nil {
		return err
	}
	if !group.own || group.follows() {
		if is.Note = "not compared: " + group.text() + " was there before this session"; group.follows() {
			is.Note = roundNote(group, is)
		}
		if is.Problem = lostWrites(group, is); is.Problem != "" {
			is.Problem += "; " + group.remedy()
		} else if group.again != nil && group.again.sent > 0 {
			is.Note = "documents were missing; " + group.again.text()
		}
		return nil
	}
	inUse := false
	if is.Found < is.Expected {
		if inUse, err = c.inUse(ctx, group); err != nil {
			return err
		}
	}
	compareArrival(group, is, inUse)
	if n := is.Found - is.Expected; c.Repeats && n > 0 && is.Problem == "" {
		is.Note = fmt.Sprintf("%d documents are there more often than once: they were sent again after an answer was lost or a process died, and the collection gives each an id of its own; or other clients wrote to it", n)
	}
	return nil
}

// roundNote describes how targets filled by former rounds differ from the expected result of this round; "" if they do not.
func roundNote(group *arrivalGroup, is *progress.Arrival) string {
	var notes []string
	if whole := func(a *arriving) bool { return a.whole }; is.Expected != is.Found && !slices.ContainsFunc(group.all, whole) {
		notes = append(notes, fmt.Sprintf("%d documents were expected after this round; documents that failed in one of the rounds are missing, or a later round brought or deleted them, or other clients wrote to it: rfsd verify with this round's snapshot names them", is.Expected))
	}
	if n := is.Foreign(); n > 0 {
		notes = append(notes, fmt.Sprintf("%d operations on it during this round are not of the round: other clients wrote to it, and documents that the source changed, too, are as on the source; or requests without an answer took effect", n))
	}
	return strings.Join(notes, "; ")
}

// inUse reports whether applications may delete documents of a group: whether any target has an alias or belongs to a data stream.
func (c *Check) inUse(ctx context.Context, group *arrivalGroup) (bool, error) {
	for _, a := range group.all {
		if a.entry.Stream != nil {
			return true, nil
		}
	}
	for _, name := range group.targets {
		indices, err := c.Counts.GetIndex(ctx, name)
		if err != nil {
			return false, fmt.Errorf("aliases of %s: %w", name, err)
		}
		for _, x := range indices {
			var aliases map[string]json.RawMessage
			if len(x.Aliases) > 0 {
				if err := json.Unmarshal(x.Aliases, &aliases); err != nil {
					return false, fmt.Errorf("aliases of %s: %w: %w", x.Name, err, fault.ErrUnavailable)
				}
			}
			if len(aliases) > 0 {
				return true, nil
			}
		}
	}
	return false, nil
}

// compareArrival derives the finding from the counts of a group. Dropped documents and duplicate ids were counted as failed when the
// target answered. So fewer documents than were indexed means missing documents, unless applications use the targets and these have
// executed deletions and operations that are not from this session.
func compareArrival(group *arrivalGroup, is *progress.Arrival, inUse bool) {
	targets := group.text()
	fewer, deleted, excused := max(is.Expected-is.Found, 0), int64(0), int64(0)
	if is.Accounted {
		deleted = min(is.Foreign(), is.Deletes)
	}
	if inUse {
		excused = deleted
	}
	var kept int64
	for _, a := range group.all {
		kept += a.sent.Kept
	}
	switch {
	case fewer > excused:
		is.Problem = fmt.Sprintf("the target has %d documents in %s, %d were indexed: %d are missing", is.Found, targets, is.Expected, fewer)
		if deleted > 0 {
			is.Problem += fmt.Sprintf(", at most %d of them deleted by other clients", deleted)
		}
	case lostWrites(group, is) != "":
		is.Problem = lostWrites(group, is)
	case is.Accounted && kept > is.Foreign():
		is.Problem = fmt.Sprintf("%d documents were not written to %s because it had their ids, but other clients have written at most %d there: the others share their ids with documents of the snapshot and are missing", kept, targets, is.Foreign())
	case group.again != nil && group.again.sent > 0:
		is.Note = "documents were missing; " + group.again.text()
	case fewer > 0:
		is.Note = fmt.Sprintf("%d documents fewer than were indexed: other clients have deleted documents meanwhile", fewer)
	case is.Foreign() > 0:
		is.Note = fmt.Sprintf("%d operations on it are not of this session: other clients wrote to it, or requests without an answer took effect late", is.Foreign())
	}
	if is.Problem == "" {
		return
	}
	if group.again != nil {
		is.Problem += "; " + group.again.text()
	}
	is.Problem += "; " + group.remedy()
}

// lostWrites returns the problem of targets that have executed fewer operations than they acknowledged to this session. It returns "" if
// they have not, or if a later reading found all documents there. Operations of other clients can hide lost ones.
func lostWrites(group *arrivalGroup, is *progress.Arrival) string {
	if !is.Accounted || is.Operations >= is.Written || group.again != nil && group.again.failed == nil && group.again.present >= is.Expected {
		return ""
	}
	return fmt.Sprintf("the target has lost writes of %s that it had acknowledged: its shards have executed %d operations, %d of this session were acknowledged", group.text(), is.Operations, is.Written)
}

// countOperations adds the number of operations that the targets of a group have executed and the number from this session, if both are
// known. On targets that existed before, earlier operations are subtracted; with bulk.Newer the counts of the session do not match
// operations, so nothing is added.
func (c *Check) countOperations(ctx context.Context, group *arrivalGroup, is *progress.Arrival) error {
	if c.Existing == bulk.Newer || !group.known {
		return nil
	}
	sum, known, err := c.operations(ctx, group)
	if err != nil || !known {
		return err
	}
	var written int64
	for _, a := range group.all {
		if written += a.sent.Written(); group.own {
			continue
		}
		written -= a.sent.Rewrites // a replaced document may have been another client's
		if c.Existing == bulk.Keep {
			written -= a.sent.Resent + a.sent.Replaced // so may an equal document found after a retry
		}
	}
	// A document sent again used a second sequence number only if its first write had kept one.
	written = max(written, min(sum.Executed, written+is.SentAgain))
	is.Operations, is.Deletes, is.Written, is.Accounted = sum.Executed, sum.Deletes, written, true
	return nil
}

// operations returns what the targets of a group have executed since the session started; known is false if a target does not report it.
func (c *Check) operations(ctx context.Context, group *arrivalGroup) (sum target.Operations, known bool, err error) {
	for _, name := range group.targets {
		did, err := c.Counts.Operations(ctx, name)
		if errors.Is(err, target.ErrNotAnswered) {
			return sum, false, nil
		}
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
			c.Log.InfoContext(ctx, "the target does not state how many operations it has executed", "index", name, "reason", fault.Text(err))
			return sum, false, nil
		}
		if err != nil {
			return sum, false, fmt.Errorf("operations on %s: %w", name, err)
		}
		sum.Executed, sum.Deletes = sum.Executed+did.Executed, sum.Deletes+did.Deletes
	}
	sum.Executed -= group.before
	return sum, true, nil
}

// keptOperations reports whether the targets of a group, found complete before, have executed at least as many operations as then, or
// whether that is unknown. Lost writes take their sequence numbers with them, for example when a node with an asynchronous translog dies.
func (c *Check) keptOperations(ctx context.Context, group *arrivalGroup, was *progress.Arrival) (bool, error) {
	if !was.Accounted {
		return true, nil
	}
	sum, known, err := c.operations(ctx, group)
	if err != nil || !known || sum.Executed >= was.Operations {
		return true, err
	}
	c.Log.WarnContext(ctx, "the target has lost writes since its index was complete; its documents are counted again", "targets", group.text(), "operations", was.Operations, "now", sum.Executed)
	return false, nil
}

// countLucene returns the number of Lucene documents of refreshed targets; 0 if the target or its permissions do not allow reading it.
func countLucene(ctx context.Context, counts Counts, targets []string, log *slog.Logger) (sum int64, err error) {
	for _, name := range targets {
		n, err := counts.CountLucene(ctx, name)
		if errors.Is(err, target.ErrNotAnswered) {
			return 0, nil
		}
		if errors.Is(err, fault.ErrConfig) {
			log.InfoContext(ctx, "the target does not state its Lucene documents", "index", name, "reason", fault.Text(err))
			return 0, nil
		}
		if err != nil {
			return 0, fmt.Errorf("Lucene documents of %s: %w", name, err)
		}
		sum += n
	}
	return sum, nil
}

// CountAgain refreshes target indices and returns the number of documents they hold now.
func CountAgain(ctx context.Context, counts Counts, targets []string, log *slog.Logger) (is *progress.Arrival, err error) {
	is = &progress.Arrival{}
	for _, name := range slices.Sorted(slices.Values(targets)) {
		if err := counts.Refresh(ctx, name); err != nil {
			return nil, fmt.Errorf("refresh %s: %w", name, err)
		}
		n, err := counts.Count(ctx, name)
		if err != nil {
			return nil, fmt.Errorf("count %s: %w", name, err)
		}
		is.Found += n
	}
	is.Lucene, err = countLucene(ctx, counts, targets, log)
	return is, err
}
