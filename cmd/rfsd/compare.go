package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/budget"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/failed"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/importer"
	"github.com/rfsd/rfsd/rfs/repo"
	"github.com/rfsd/rfsd/rfs/rollback"
	"github.com/rfsd/rfsd/rfs/target"
	"github.com/rfsd/rfsd/rfs/terminal"
	"github.com/rfsd/rfsd/rfs/throttle"
	"github.com/rfsd/rfsd/rfs/verify"
	"github.com/rfsd/rfsd/rfs/worker"
)

// comparison compares a source with a target within the budget of the process.
type comparison struct {
	options
	ask    config.Verification
	memory *budget.Budget
	log    *slog.Logger
	screen *terminal.Screen
}

// compared is the source's side.
type compared struct {
	// identity identifies the source and all settings that decide what is sent of it; "": that is not known.
	identity string
	// marks reads the sequence numbers that the target had when the source had arrived.
	marks  func(ctx context.Context, client *target.Client) (rollback.Marks, error)
	groups func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error)
}

// snapshot compares the snapshot of a repository.
func (c *comparison) snapshot(ctx context.Context, blobs repo.Repository) (*verify.Report, error) {
	r := c.newReport(blobs.URI())
	r.Snapshot = c.options.snapshot
	plan, err := worker.NewPlan(ctx, blobs, c.request())
	if err != nil {
		return nil, planError(err)
	}
	identity := comparedIdentity(c.options, blobs.URI(), plan)
	err = c.with(ctx, r, compared{
		identity: identity,
		marks: func(ctx context.Context, client *target.Client) (rollback.Marks, error) {
			return sessionMarks(ctx, c.options, client, plan)
		},
		groups: func(ctx context.Context, client *target.Client, v target.Version) ([]verify.Group, error) {
			indices := &worker.TargetIndices{Cluster: client, Version: v, Rules: c.rules, Requester: client, Log: c.log}
			if err := indices.Locate(ctx, plan); err != nil {
				return nil, err
			}
			source := worker.Comparison{Repo: blobs, Edit: c.editor, Redirects: c.rules.Targets, Memory: c.memory, MaxDocument: c.maxDocument, Identity: identity}
			return source.Groups(plan), nil
		},
	})
	if err != nil {
		return nil, err
	}
	for _, x := range plan.Unread {
		r.Indices = append(r.Indices, &verify.Index{Target: x.Entry.Naming.Index, Sources: []string{x.Name}, State: verify.Unreadable, Problems: []string{x.Reason}})
	}
	for _, m := range plan.Missing {
		r.Warnings = append(r.Warnings, "the snapshot lacks a shard: "+m)
	}
	r.State, r.End = r.Worst(), time.Now().UTC().Truncate(time.Second)
	return r, nil
}

// files compares files, such as those of an export.
func (c *comparison) files(ctx context.Context, files repo.Repository, types importer.Types) (*verify.Report, error) {
	r := c.newReport(files.URI())
	source := importer.Comparison{Source: files, Types: types, AllowPartial: c.allowPartial, IncludeSystem: c.includeSystem, MaxDocument: c.maxDocument,
		Memory: c.memory, Frames: budget.New(importer.MaxBack, 0), Log: c.log}
	err := c.with(ctx, r, compared{
		identity: version + " " + files.URI(),
		marks: func(context.Context, *target.Client) (rollback.Marks, error) {
			return rollback.Marks{}, errNoImportMarks
		},
		groups: func(ctx context.Context, _ *target.Client, _ target.Version) ([]verify.Group, error) {
			return source.Groups(ctx)
		},
	})
	if err != nil {
		return nil, err
	}
	r.State, r.End = r.Worst(), time.Now().UTC().Truncate(time.Second)
	return r, nil
}

func (c *comparison) newReport(source string) *verify.Report {
	return &verify.Report{Version: version, Begin: time.Now().UTC().Truncate(time.Second), Source: source, Sample: float64(c.ask.Sample), Quick: c.ask.Quick}
}

// with compares the target with a source and adds the result to a report.
func (c *comparison) with(ctx context.Context, r *verify.Report, source compared) error {
	c.target.Memory = c.memory
	client, err := target.New(ctx, c.target)
	if err != nil {
		return err
	}
	defer client.Close() //nolint:errcheck // nothing was written through it
	v, err := client.Info(ctx)
	if err != nil {
		return err
	}
	r.Target = client.Name()
	groups, err := source.groups(ctx, client, v)
	if err != nil {
		return err
	}
	refused, err := accountOfFailures(ctx, c.options)
	if err != nil {
		return err
	}
	bucket, pause := throttle.New(c.maxRate), cms.SystemClock().Sleep
	held := worker.ComparedTarget{Client: client, Version: v, Longest: c.maxDocument, Admit: bucket.Take, Pause: pause, Log: c.log,
		Sequence: func(ctx context.Context, name string) (map[string]int64, error) {
			return rollback.Sequence(ctx, client, name)
		}}
	if latency := throttle.NewLatency(c.maxLatency, pause); latency != nil {
		held.Pace = latency
	}
	if marks, why := source.marks(ctx, client); why != nil {
		c.log.Info("documents that were changed since are not told apart", "reason", fault.Text(why))
	} else {
		held.Marks = marks
	}
	kept := keptComparison(c.options, source.identity)
	checker := verify.New(verify.Options{
		Target: held, Store: kept,
		Sample: verify.Sample(float64(c.ask.Sample)), Failed: refused, Names: c.ask.Differences, Readers: c.slots, Pause: pause, Log: c.log,
	})
	stop := showProgress(verifyProgress(checker), c.log, c.screen)
	defer stop()
	if c.ask.Quick {
		r.Indices, err = checker.Count(ctx, groups)
		return err
	}
	if r.Indices, err = checker.Compare(ctx, groups); err != nil || kept == nil {
		return err
	}
	if err := kept.Remove(); err != nil {
		c.log.Warn("what the comparison kept to go on after a crash cannot be removed", "error", err)
	}
	return nil
}

// comparedIdentity identifies the snapshot and all settings that decide what is sent of it; "" when the snapshot has no identity.
func comparedIdentity(o options, uri string, plan *worker.Plan) string {
	if plan.Identity == "" {
		return ""
	}
	settings, err := json.Marshal(o.request().Settings(repositoryIdentity(uri)))
	if err != nil { // texts only
		return ""
	}
	return version + " " + plan.Identity + " " + string(settings)
}

// keptComparison is where a comparison of a source with this target keeps what it has read; nil where nothing can be kept.
func keptComparison(o options, identity string) verify.Store {
	dir, err := stateDir()
	if err != nil || identity == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(identity + "\x00" + o.target.URL))
	return verify.Folder{Dir: filepath.Join(dir, "verify-"+hex.EncodeToString(sum[:8]))}
}

// Why nothing is known of what was written later.
var (
	errNoMarks       = errors.New("no session of this name has migrated this snapshot to this target, as far as its state shows")
	errNoImportMarks = errors.New("a comparison with files does not read the state of an import")
)

// sessionMarks reads the sequence numbers that the target had at the end of the migration of this snapshot.
func sessionMarks(ctx context.Context, o options, client *target.Client, plan *worker.Plan) (m rollback.Marks, err error) {
	if o.coordinatorFile != "" { // opening would create it
		if _, err := os.Stat(o.coordinatorFile); err != nil {
			return m, err
		}
	}
	kept, end, err := keptFailures(ctx, o, client)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, end()) }()
	if kept == nil {
		return m, errNoMarks
	}
	identity, err := kept.Identity(ctx)
	switch {
	case errors.Is(err, cms.ErrNotFound), err == nil && !worker.IsOf(identity, plan):
		return m, errNoMarks
	case err != nil:
		return m, err
	}
	return rollback.ReadMarks(ctx, client, kept)
}

// accountOfFailures reads which documents the migration has recorded as failed: from its directory or bucket.
func accountOfFailures(ctx context.Context, o options) (*verify.Failed, error) {
	all := &verify.Failed{}
	if o.failedDir == "" {
		return all, nil
	}
	kept, err := repo.Open(ctx, o.failedDir, o.s3)
	if err != nil {
		if _, serr := os.Stat(o.failedDir); !config.InBucket(o.failedDir) && errors.Is(serr, fs.ErrNotExist) {
			return all, nil
		}
		return nil, fmt.Errorf("failed documents: %w", err)
	}
	for blob, err := range kept.List(ctx, "") {
		if err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", o.failedDir, err)
		}
		if !strings.HasSuffix(blob.Name, ".ndjson") {
			continue
		}
		r, err := kept.Open(ctx, blob.Name, 0, -1)
		if err != nil {
			return nil, fmt.Errorf("failed documents: %w", err)
		}
		err = failed.Names(failed.NewPlain(r, o.identities), func(index, id string) error {
			if !all.Add(index, id) {
				return config.Usage("%s names more than %d failed documents, which is more than can be held", o.failedDir, all.Len())
			}
			return nil
		})
		if err = errors.Join(err, r.Close()); err != nil {
			return nil, fmt.Errorf("failed documents in %s: %w", blob.Name, err)
		}
	}
	return all, nil
}
