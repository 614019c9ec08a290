package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
)

// sharedSections are the categories whose settings belong to the fleet. What else a node needs is its own: how it
// reaches target and coordinator, who it is, where it listens, how strong it is.
var sharedSections = []string{source, originFlagsCategory, selection, work, coordination, careCategory, importSource, importWork}

// ownSettings belong to one machine although their category is the fleet's: the way to the stores, files of
// this machine, and its log.
var ownSettings = []string{"slots", "output", "log-level", "failed-documents", "failed-documents-shared", "session-name", "coordinator-file"}

// alsoShared belong to the fleet although their category is one machine's.
var alsoShared = []string{"run-pipelines", "disable-compression"}

// isShared says whether a setting is the fleet's.
func isShared(f cli.Flag) bool {
	name := f.Names()[0]
	if slices.Contains(alsoShared, name) {
		return true
	}
	categorized, ok := f.(cli.CategorizableFlag)
	if !ok || !slices.Contains(sharedSections, categorized.GetCategory()) || slices.Contains(ownSettings, name) || strings.HasPrefix(name, "coordinator-") {
		return false
	}
	return !isSecret(name) && !slices.ContainsFunc([]string{"-file", "-cacert", "-client-cert", "-client-cert-key"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// commonSink says that refused documents go to a bucket, which is the fleet's; a directory is one machine's.
func commonSink(name string, values []string) bool {
	return name == "failed-documents" && len(values) == 1 && inBucket(values[0])
}

// sharedSettings are those of the given settings that the fleet may know. A value that holds a secret is kept out,
// and so is its setting. The rules travel as text: other machines do not have the file.
func sharedSettings(c *cli.Context, flags []cli.Flag, log *slog.Logger) (cms.Shared, error) {
	given, all := effective(c, flags), cms.Shared{}
	for _, f := range flags {
		name := f.Names()[0]
		values, ok := given[name]
		if !ok || !isShared(f) && !commonSink(name, values) {
			continue
		}
		if name == "rules" {
			text, err := os.ReadFile(values[0])
			if err != nil {
				return nil, usage("--rules: %w", err)
			}
			name, values = rulesText, []string{string(text)}
		}
		if slices.ContainsFunc(values, holdsSecret) {
			log.Warn("a setting with a secret in it is not told to the fleet: each node needs its own", "setting", name)
			continue
		}
		all[name] = values
	}
	return all, nil
}

// holdsSecret says that a value has a password in its URL, or is KEY=VALUE with a key that names a secret.
func holdsSecret(value string) bool {
	if u, err := url.Parse(value); err == nil && u.User != nil {
		return true
	}
	key, _, ok := strings.Cut(strings.ToLower(value), "=")
	return ok && !strings.ContainsAny(key, " \n") && slices.ContainsFunc([]string{"key", "secret", "password", "token"}, func(s string) bool { return strings.Contains(key, s) })
}

// rulesText is --rules by its content.
const rulesText = "rules-text"

// joinPatience is how long a node that has all its settings waits for the fleet's at its start.
const joinPatience = 5 * time.Second

// joinFleet takes over what the fleet has agreed on and this node was not told otherwise. A node that lacks what it
// needs waits for the store, also for one that is slow; another goes on with its own.
func joinFleet(ctx context.Context, c *cli.Context, flags []cli.Flag) error {
	log := slog.New(slog.NewJSONHandler(os.Stderr, nil))
	if c.String("coordinator-file") != "" || c.String("target-host") == "" && c.String("coordinator-host") == "" {
		return nil // one node alone
	}
	complete := c.String("from") != "" || c.String("repo-uri") != "" && (c.String("snapshot-name") != "" || c.String("source-host") != "")
	for began := time.Now(); ; {
		shared, err := askFleet(ctx, c)
		switch {
		case err == nil:
			return takeShared(c, flags, shared, log)
		case errors.Is(err, cms.ErrNotFound):
			return nil // this node is the first
		case !errors.Is(err, fault.ErrUnavailable) && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil):
			return err
		case complete && time.Since(began) > joinPatience:
			log.Warn("the fleet's settings are not known; this node goes on with its own", "error", fault.Text(err))
			return nil
		}
		log.Info("waiting for the store to tell the fleet's settings", "error", fault.Text(err))
		if serr := cms.SystemClock().Sleep(ctx, 2*time.Second); serr != nil {
			return errors.Join(serr, err)
		}
	}
}

// askFleet reads the fleet's settings from the store that the options name.
func askFleet(ctx context.Context, c *cli.Context) (cms.Shared, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	o := options{connections: 1, session: c.String("session-name")}
	if !sessionName.MatchString(o.session) {
		return nil, usage("--session-name %q is not made of a-z, 0-9 and -", o.session)
	}
	var err error
	if c.String("target-host") != "" {
		if o.target, err = o.cluster(c, "target"); err != nil {
			return nil, err
		}
	}
	if c.String("coordinator-host") != "" {
		if o.coordinator, err = o.cluster(c, "coordinator"); err != nil {
			return nil, err
		}
	}
	coordinator, err := openCoordinator(ctx, o) // its connections end with ctx
	if err != nil {
		return nil, err
	}
	return coordinator.Shared(ctx)
}

// takeShared sets what this node was not told. What it was told counts for it; workers refuse it when it would make
// another migration.
func takeShared(c *cli.Context, flags []cli.Flag, shared cms.Shared, log *slog.Logger) error {
	own, err := sharedSettings(c, flags, log)
	if err != nil {
		return err
	}
	var taken []string
	for _, f := range flags {
		name := f.Names()[0]
		values, ok := shared[name]
		switch {
		case !ok || name != rulesText && !isShared(f) && !commonSink(name, values):
		case own[name] != nil:
			if !slices.Equal(own[name], values) {
				log.Warn("this node differs from its fleet", "setting", name, "fleet", values, "node", own[name])
			}
		case c.IsSet(name):
		default:
			if err := setOption(c, name, values); err != nil {
				return fmt.Errorf("configuration of the fleet: %w", err)
			}
			taken = append(taken, name)
		}
	}
	if len(taken) > 0 {
		log.Info("settings of the fleet were taken over", "settings", strings.Join(taken, ", "))
	}
	return nil
}

// hiddenRules is the option by which rules reach a node that has no file of them.
func hiddenRules() cli.Flag {
	return &cli.StringFlag{Name: rulesText, Category: selection, Hidden: true}
}

// share tells the fleet this node's settings, once the store can be reached.
func (r runOptions) share(ctx context.Context, coordinator *cms.Coordinator, log *slog.Logger) {
	stored, err := coordinator.Share(ctx, r.shared, r.shareOver)
	switch {
	case err != nil:
		log.Warn("the fleet does not know this node's settings", "error", fault.Text(err))
	case stored:
		log.Info("the fleet's settings are those of this node")
	}
}
