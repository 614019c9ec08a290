package arrival

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/shards"
)

const (
	resentNames   = 10 // documents named for each group
	resendsAtOnce = 2  // shards read at the same time
)

// resent is the result of reading the shards of a group again to send the documents that the target lacks.
type resent struct {
	mu      sync.Mutex
	sent    int64    // documents that the target lacked and has now
	present int64    // documents that it has now, including sent
	names   []string // some of the ids sent
	refused []string // some of the ids that the target rejects, with the reason
	failed  error    // why the reading ended early
}

// text describes the result for the finding of a group.
func (r *resent) text() string {
	if r.failed != nil {
		return "reading the snapshot again failed: " + fault.Text(r.failed)
	}
	text := "the snapshot was read again"
	if r.sent > 0 {
		slices.Sort(r.names)
		text += fmt.Sprintf(", %d documents were sent again: %s", r.sent, list(r.names, r.sent))
	}
	if slices.Sort(r.refused); len(r.refused) > 0 {
		text += "; the target refuses " + strings.Join(r.refused, ", ")
	}
	return text
}

// list joins names, which are some of n, and adds "…" if names are left out.
func list(names []string, n int64) string {
	if int64(len(names)) < n {
		names = append(slices.Clone(names), "…")
	}
	return strings.Join(names, ", ")
}

// mayResend reports whether the missing documents of a group can be sent again without restoring documents that other clients deleted:
// the target has executed only operations of this session, as far as it reports them. It is true at most once per group and process.
func (c *Check) mayResend(ctx context.Context, group *arrivalGroup, is *progress.Arrival) (bool, error) {
	switch {
	case c.Repeats: // every document of the shards would be duplicated
		return false, nil
	case is.Problem == "" || is.Gone || c.Runner == nil || c.Shards.Repo == nil || c.Resent[group.key()]:
		return false, nil
	case slices.ContainsFunc(group.all, func(a *arriving) bool { return a.failed || a.sent.Moved > 0 || a.entry.Trial != nil }):
		return false, nil
	case is.Accounted:
		return is.Foreign() == 0 && is.Deletes == 0, nil
	}
	inUse, err := c.inUse(ctx, group)
	return !inUse, err
}

// resend reads the shards of a group again and creates the documents that the target lacks. Existing documents stay as they are because
// applications may have changed them.
func (c *Check) resend(ctx context.Context, group *arrivalGroup) (*resent, error) {
	r := &resent{}
	work := func() error {
		g, gctx := errgroup.WithContext(ctx)
		g.SetLimit(resendsAtOnce)
		for _, a := range group.all {
			for shard := range a.entry.Shards {
				g.Go(func() error {
					if err := c.resendShard(gctx, a, shard, r); err != nil {
						return fmt.Errorf("shard %d of %s: %w", shard, a.name, err)
					}
					return nil
				})
			}
		}
		return g.Wait()
	}
	c.Log.WarnContext(ctx, "documents are missing on the target; the snapshot is read again", "targets", group.text())
	var err error
	if c.Ledger == nil {
		err = work()
	} else {
		err = c.Ledger.Around(ctx, work)
	}
	if errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrLeaseLost) || ctx.Err() != nil {
		return nil, err
	}
	r.failed = err
	c.Resent[group.key()] = true
	return r, nil
}

// resendShard creates the documents of a shard that the target lacks.
func (c *Check) resendShard(ctx context.Context, a *arriving, shard int, r *resent) error {
	run := c.Runner
	id := cms.ItemID{Index: a.name, Shard: shard}
	mayStart := func() error { return ctx.Err() }
	out, err := run.Destination.Open(ctx, id, mayStart)
	if err != nil {
		return err
	}
	opts := run.Bulk
	if opts.Existing = a.entry.Existing(opts.Existing); opts.Existing != bulk.Newer && opts.Existing != bulk.Follow {
		opts.Existing = bulk.Keep
	}
	opts.Sender, opts.Recorder, opts.MayStart = missing{out, r}, refusedAgain{r}, mayStart
	opts.Finder, opts.Breaker = nil, nil
	opts.Index, opts.Shard, opts.EmitType, opts.Targets = a.entry.Naming.Index, shard, a.entry.Naming.Emit, a.entry.Naming.Targets()
	l := bulk.New(ctx, opts)
	defer l.Abort()
	err = shards.Read(ctx, c.Shards.Repo, a.entry, shard, c.Shards.Edit, shards.Documents{
		Versions: opts.Existing == bulk.Newer, Memory: c.Shards.Memory, MaxDocument: c.Shards.MaxDocument, Helpers: c.Shards.Helpers,
		Send: func(d *doc.Document) error {
			if err := l.Add(ctx, d); err != nil || len(d.Source) < bulk.DefaultMaxBytes {
				return err
			}
			return l.Flush(ctx) // the memory of a long document is released when Send returns
		},
		Filter: func(d *doc.Document) error { return l.Filter(ctx, d.Ordinal) },
		Fail:   func(*doc.Failure) error { return nil }, // recorded when it was first read
	})
	if err == nil {
		err = l.Flush(ctx)
	}
	sent := l.Counts()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.present += sent.Indexed + sent.Kept
	return err
}

// missing is a Sender that records which documents the target did not have.
type missing struct {
	bulk.Sender
	to *resent
}

// Send sends a body and records the ids of the documents that the target created.
func (s missing) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	res, err := s.Sender.Send(ctx, body, n)
	created := n - len(res.Refused) - len(res.Replaced)
	if err != nil || created <= 0 {
		return res, err
	}
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	s.to.sent += int64(created)
	had := make(map[int]bool, n-created)
	for _, x := range res.Refused {
		had[x.Pos] = true
	}
	for _, x := range res.Replaced {
		had[x.Pos] = true
	}
	for pos := 0; pos < n && len(s.to.names) < resentNames; pos++ {
		action, rest, _ := bytes.Cut(body, []byte{'\n'})
		if _, body, _ = bytes.Cut(rest, []byte{'\n'}); had[pos] {
			continue
		}
		var line map[string]bulk.Key
		if json.Unmarshal(action, &line) == nil {
			for _, k := range line {
				s.to.names = append(s.to.names, fmt.Sprintf("%q", k.ID))
			}
		}
	}
	return res, nil
}

// refusedAgain is a Recorder that collects some of the documents that the target rejects. They were recorded as failed the first time.
type refusedAgain struct{ to *resent }

// Record collects failures up to resentNames.
func (s refusedAgain) Record(_ context.Context, failures []doc.Failure) error {
	s.to.mu.Lock()
	defer s.to.mu.Unlock()
	for _, f := range failures[:min(len(failures), resentNames-len(s.to.refused))] {
		s.to.refused = append(s.to.refused, fmt.Sprintf("%q (%s)", f.ID, f.Reason))
	}
	return nil
}

// Sync does nothing.
func (refusedAgain) Sync(context.Context) error { return nil }
