package compare

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/throttle"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/failed"
	"github.com/rfsd/rfsd/rfs/destination/target"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/operation/rollback"
	"github.com/rfsd/rfsd/rfs/operation/verify"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// Source is the source of a comparison.
type Source struct {
	// Identity identifies the source and all settings that decide which of its documents are sent, and how; "": unknown.
	Identity string
	// Marks reads the sequence numbers that the target had after the last document arrived. state is nil for a session without state.
	Marks func(ctx context.Context, client *target.Client, state *cms.Coordinator) (rollback.Marks, error)
	// Groups returns the target indices with everything that is sent to them.
	Groups func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error)
	// Fields compares the mappings of the target and adds the fields that differ to the report. The documents in failed did not arrive.
	Fields func(ctx context.Context, client *target.Client, v target.Version, failed *verify.Failed, r *verify.Report) error
	// Complete adds remarks on the source to the report; nil: none.
	Complete func(*verify.Report)
}

// Run compares a target with a source. Processes that compare in the same session share the work.
type Run struct {
	Target  target.Config
	Memory  *budget.Budget // bounds responses of the target
	Version string         // of rfsd
	Sample  float64        // fraction of all ids compared; 1: all
	Quick   bool           // compare only the numbers of documents
	Strict  bool           // count later writes to the target as differences
	Changed bool           // compare only the documents that a round changed
	// Names is the number of differences listed for each target index.
	Names       int
	Reuse       bool // reuse an earlier result of the same session for shards not written to since
	Readers     int
	MaxDocument int64         // longest source that is read, in bytes
	MaxRate     int64         // bytes per second read from the target; 0: no limit
	MaxLatency  time.Duration // latency of target requests above which the load is reduced; 0: never
	Lease       time.Duration // initial lease of an item
	// Failed returns the documents recorded as failed by the session with this state; without state, by all sessions. The documents that
	// the state itself names count if the session is of the compared source (mine).
	Failed func(ctx context.Context, client *target.Client, state *cms.Coordinator, mine bool) (*verify.Failed, error)
	// Place is the directory or bucket that Failed reads.
	Place session.FailedAt
	// State opens the state of the session; the Coordinator is nil if no session was named and none exists. An error that wraps NoSession
	// ends the comparison; after any other error the comparison does not recognize documents that were changed later.
	State     func(ctx context.Context, client *target.Client) (*cms.Coordinator, func() error, error)
	NoSession error
	// StateDir returns a directory of this user that holds the state of a comparison by one process.
	StateDir func() (string, error)
	// Temporary opens a store that is removed when it is closed.
	Temporary func() (cms.Store, func() error, error)
	// Show shows the progress until stop is called.
	Show func(*verify.Verifier) (stop func())
	Log  *slog.Logger
}

// Compare compares the target with the source and returns the report. uri names the source in the report.
func (c *Run) Compare(ctx context.Context, uri string, source Source) (*verify.Report, error) {
	r := &verify.Report{Version: c.Version, Begin: time.Now().UTC().Truncate(time.Second), Source: uri, Sample: c.Sample, Quick: c.Quick, Strict: c.Strict}
	if err := c.with(ctx, r, source); err != nil {
		return nil, err
	}
	if source.Complete != nil {
		source.Complete(r)
	}
	r.End = time.Now().UTC().Truncate(time.Second)
	r.Conclude()
	return r, nil
}

// with compares the target with a source and adds the result to a report.
func (c *Run) with(ctx context.Context, r *verify.Report, source Source) (err error) {
	conf := c.Target
	conf.Memory = c.Memory
	client, err := target.New(ctx, conf)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // no request is in flight
	if client.Serverless() {
		return fmt.Errorf("a comparison reads the target shard by shard, which a collection of OpenSearch Serverless does not let be done: compare the numbers of documents (GET INDEX/_count) with the summary of the migration: %w", fault.ErrConfig)
	}
	v, err := client.Info(ctx)
	if err != nil {
		return err
	}
	r.Target = client.Name()
	groups, err := source.Groups(ctx, client, v)
	if err != nil {
		return err
	}
	bucket, pause := throttle.New(c.MaxRate), timing.SystemClock().Sleep
	held := Target{Client: client, Version: v, Longest: c.MaxDocument, Admit: bucket.Take, Pause: pause, Log: c.Log,
		Sequence: func(ctx context.Context, name string) (map[string]int64, error) {
			return rollback.Sequence(ctx, client, name)
		}}
	if c.MaxLatency > 0 {
		held.Pace = throttle.NewLatency(func() time.Duration { return c.MaxLatency }, pause)
	}
	state, end, why := c.State(ctx, client)
	defer func() { err = errors.Join(err, end()) }()
	if errors.Is(why, c.NoSession) {
		return why
	}
	if why == nil {
		var marks rollback.Marks
		if marks, why = source.Marks(ctx, client, state); why == nil { // the session migrated this source
			held.Marks = marks
			if err := warnOfAliases(ctx, r, state); err != nil {
				return err
			}
		}
	}
	refused, err := c.Failed(ctx, client, state, why == nil)
	if err != nil {
		return err
	}
	if why != nil {
		level := slog.LevelInfo
		if errors.Is(why, fault.ErrUnavailable) { // the session may exist
			level = slog.LevelWarn
		}
		c.Log.Log(ctx, level, "documents that were changed after the migration are not recognized as such", "reason", fault.Text(why))
	}
	options := verify.Options{
		Target: held, Find: held.Find, Sample: verify.Sample(c.Sample), Failed: refused, Names: c.Names, Readers: c.Readers, Pause: pause, Log: c.Log,
		Work: verify.Work{Clock: timing.SystemClock(), Holder: owner.Name(), Identity: source.Identity + " " + v.ClusterUUID, Reuse: c.Reuse, Lease: min(c.Lease, verify.DefaultLease)},
	}
	kept := state
	if source.Identity == "" { // unknown, so the work cannot be shared
		options.Work.Identity, state = options.Work.Holder, nil
	}
	switch {
	case c.Changed:
		checker := verify.New(options)
		stop := c.Show(checker)
		r.Indices, err = checker.Changes(ctx, groups)
		stop()
	case c.Quick:
		r.Indices, err = verify.New(options).Count(ctx, groups)
	default:
		r.Indices, err = c.compare(ctx, options, groups, state)
	}
	if err != nil {
		return err
	}
	if why == nil && refused.Len() == 0 && slices.ContainsFunc(r.Indices, func(x *verify.Index) bool { return x.Counts[verify.Missing] > 0 }) {
		if err := c.warnOfPlaces(ctx, r, kept); err != nil {
			return err
		}
	}
	return source.Fields(ctx, client, v, refused, r)
}

// compare compares together with the other processes of the session, or alone if the work cannot be shared.
func (c *Run) compare(ctx context.Context, o verify.Options, groups []verify.Group, state *cms.Coordinator) ([]*verify.Index, error) {
	run := func() ([]*verify.Index, error) {
		checker := verify.New(o)
		defer c.Show(checker)()
		return checker.Compare(ctx, groups)
	}
	name, path := "", ""
	if o.Work.Identity != o.Work.Holder {
		sum := sha256.Sum256([]byte(o.Work.Identity))
		name = "verify-" + hex.EncodeToString(sum[:8])
	}
	if state != nil {
		if dir, err := c.StateDir(); err == nil {
			path = filepath.Join(dir, name+".owner")
		}
		claim, err := owner.Take(path, o.Work.Holder)
		if err != nil { // another process of this machine holds the claim; its leases expire like leases of other machines
			claim = &owner.Claim{}
		}
		o.Work.Store, o.Work.Dead = state.Store(), claim.Dead()
		all, err := run()
		if err == nil || errors.Is(err, verify.ErrNotShared) { // no lease is left
			err = errors.Join(err, claim.Forget())
		}
		if err = errors.Join(err, claim.Release()); !errors.Is(err, verify.ErrNotShared) {
			return all, err
		}
		c.Log.Info("this process compares by itself", "reason", fault.Text(err))
	}
	store, end, err := c.ownStore(name)
	if err != nil {
		return nil, err
	}
	o.Work.Store, o.Work.Dead = store, nil
	all, err := run()
	return all, errors.Join(err, end(err == nil))
}

// ownStore opens the state of a comparison by one process, so that the same comparison continues after a crash. end closes the store and
// removes it if over is true. Without a name the store is temporary.
func (c *Run) ownStore(name string) (store cms.Store, end func(over bool) error, err error) {
	dir, err := c.StateDir()
	if err == nil && name != "" {
		path := filepath.Join(dir, name+".db")
		file, err := boltcms.Open(path, time.Now)
		if errors.Is(err, fault.ErrCorrupt) { // for example after a crash of the machine; only time is lost
			if err = os.Remove(path); err == nil {
				file, err = boltcms.Open(path, time.Now)
			}
		}
		if err == nil {
			return file, func(over bool) error {
				err := file.Close()
				if over {
					err = errors.Join(err, os.Remove(path))
				}
				return err
			}, nil
		}
	}
	temporary, closeStore, err := c.Temporary() // another process has the file open, or it cannot be created
	return temporary, func(bool) error { return closeStore() }, err
}

// AddRecorded adds the failed documents that a fleet has recorded in the control index of the session.
func AddRecorded(ctx context.Context, all *verify.Failed, state *cms.Coordinator) error {
	const where = "the control index"
	for d, err := range session.RefusalsOf(state).All(ctx) {
		if err != nil {
			return fmt.Errorf("failed documents in %s: %w", where, err)
		}
		if d.ID != "" && !all.Add(d.Index, d.ID) {
			return tooManyFailures(where, all)
		}
	}
	return nil
}

// warnOfAliases adds the aliases that the target rejected to the warnings of a report.
func warnOfAliases(ctx context.Context, r *verify.Report, state *cms.Coordinator) error {
	for e, err := range session.EntriesOf(state).All(ctx) {
		if err != nil {
			return fmt.Errorf("indices of the session: %w", err)
		}
		entry, err := plan.DecodeEntry(e.Name, e.Body)
		if err != nil {
			continue // an entry of an import or of another version
		}
		for _, refused := range entry.RefusedAliases {
			r.Warnings = append(r.Warnings, refused.Problem())
		}
	}
	return nil
}

// warnOfPlaces adds the places of failed documents that were not read to the warnings of a report with missing documents.
func (c *Run) warnOfPlaces(ctx context.Context, r *verify.Report, state *cms.Coordinator) error {
	places, err := session.PlacesOf(state).All(ctx)
	if err != nil {
		return err
	}
	for _, x := range places {
		if x.Place == "" || x.Name() == c.Place.Name() {
			continue
		}
		r.Warnings = append(r.Warnings, "documents of the session failed, which "+x.Name()+" holds: name that place with --failed-documents, and they are counted apart from missing ones")
	}
	return nil
}

func tooManyFailures(where string, all *verify.Failed) error {
	return fmt.Errorf("%s names more than %d failed documents, which is more than can be held: %w", where, all.Len(), fault.ErrConfig)
}

// FailedIn returns the documents listed as failed in the files of a directory or bucket; place names it in errors. With state, files of
// other sessions are ignored.
func FailedIn(ctx context.Context, files snapshot.Repository, place string, state *cms.Coordinator) (*verify.Failed, error) {
	mark := ""
	if state != nil {
		var err error
		if mark, err = session.IdentityOf(state).Mark(ctx); err != nil {
			return nil, err
		}
	}
	all := &verify.Failed{}
	for blob, err := range files.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", place, err)
		}
		if !strings.HasSuffix(blob.Name, ".ndjson") || state != nil && failed.OfAnother(blob.Name, mark) {
			continue
		}
		r, err := files.Open(ctx, blob.Name, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("failed documents: %w", err)
		}
		err = failed.Names(r, func(index, id string) error {
			if !all.Add(index, id) {
				return tooManyFailures(place, all)
			}
			return nil
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	return all, nil
}
