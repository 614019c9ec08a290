package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/secret"
	"github.com/rfsd/rfsd/rfs/terminal"
)

// sharedSettings are those of the given settings that the fleet may know. A value that holds a secret is kept out,
// and so is its setting. The rules travel as text: other machines do not have the file.
func sharedSettings(c *cli.Context, flags []cli.Flag, log *slog.Logger) (cms.Shared, error) {
	given, all := effective(c, flags), cms.Shared{}
	for _, f := range flags {
		name := f.Names()[0]
		values, ok := given[name]
		if !ok || sharing.ClassOfValues(name, values) == sharing.Own {
			continue
		}
		if name == "rules" {
			text, err := os.ReadFile(values[0])
			if err != nil {
				return nil, usage("--rules: %w", err)
			}
			name, values = rulesText, []string{string(text)}
		}
		if slices.ContainsFunc(values, func(v string) bool { return secret.In(name, v) }) {
			log.Warn("a setting with a secret in it is not told to the fleet: each node needs its own", "setting", name)
			continue
		}
		all[name] = values
	}
	return all, nil
}

// rulesText is --rules by its content.
const rulesText = sharing.RulesText

// joinPatience is how long a node that has all its settings waits for the fleet's at its start.
const joinPatience = 5 * time.Second

// joinFleet takes over what the fleet has agreed on and this node was not told otherwise. A node that lacks what it
// needs waits for the store, also for one that is slow; another goes on with its own.
func joinFleet(ctx context.Context, c *cli.Context, flags []cli.Flag) error {
	log := slog.New(slog.NewJSONHandler(terminal.NewWriter(os.Stderr), logOptions(slog.LevelInfo)))
	if c.String("coordinator-file") != "" || c.String("target-host") == "" && c.String("coordinator-host") == "" {
		return nil // one node alone
	}
	complete := c.String("from") != "" || c.String("repo-uri") != "" && (c.String("snapshot-name") != "" || c.String("source-host") != "")
	trust, err := newTrust(c)
	if err != nil {
		return err
	}
	for began := time.Now(); ; {
		scope, record, err := askFleet(ctx, c)
		switch {
		case err == nil:
			judged, err := trust.judge(scope, record)
			if err != nil {
				return err
			}
			left, err := takeShared(c, flags, record.Settings, judged, log)
			switch {
			case err != nil || len(left) == 0:
				return err
			case !complete:
				return usage("the fleet's %s would be needed and is not taken from the store: %s", strings.Join(left, ", "), judged.Doubt)
			}
			log.Warn("settings of the fleet were not taken", "settings", strings.Join(left, ", "), "reason", judged.Doubt)
			return nil
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
func askFleet(ctx context.Context, c *cli.Context) (sharing.Scope, cms.SharedRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	o := options{connections: 1, session: c.String("session-name")}
	if !sessionName.MatchString(o.session) {
		return sharing.Scope{}, cms.SharedRecord{}, usage("--session-name %q is not made of a-z, 0-9 and -", o.session)
	}
	var err error
	if c.String("target-host") != "" {
		if o.target, err = o.cluster(c, "target"); err != nil {
			return sharing.Scope{}, cms.SharedRecord{}, err
		}
	}
	if c.String("coordinator-host") != "" {
		if o.coordinator, err = o.cluster(c, "coordinator"); err != nil {
			return sharing.Scope{}, cms.SharedRecord{}, err
		}
	}
	coordinator, err := openCoordinator(ctx, o) // its connections end with ctx
	if err != nil {
		return sharing.Scope{}, cms.SharedRecord{}, err
	}
	record, err := coordinator.Shared(ctx)
	if err != nil {
		return sharing.Scope{}, record, err
	}
	scope, err := sharedScope(ctx, o)
	return scope, record, err
}

// takeShared sets what this node was not told, as far as the record is believed; left are the settings that are not. What
// it was told counts for it; workers refuse it when it would make another migration.
func takeShared(c *cli.Context, flags []cli.Flag, shared cms.Shared, judged sharing.Judgement, log *slog.Logger) (left []string, err error) {
	own, err := sharedSettings(c, flags, log)
	if err != nil {
		return nil, err
	}
	var taken []string
	for _, f := range flags {
		name := f.Names()[0]
		values, ok := shared[name]
		switch {
		case !ok || sharing.ClassOfValues(name, values) == sharing.Own:
		case own[name] != nil:
			if !slices.Equal(own[name], values) {
				log.Warn("this node differs from its fleet", "setting", name, "fleet", values, "node", own[name])
			}
		case c.IsSet(name):
		case !judged.Takes(name, values):
			left = append(left, name)
		default:
			if err := setOption(c, name, values); err != nil {
				return left, fmt.Errorf("configuration of the fleet: %w", err)
			}
			taken = append(taken, name)
		}
	}
	if len(taken) > 0 {
		log.Info("settings of the fleet were taken over", "settings", strings.Join(taken, ", "))
	}
	return left, nil
}

// hiddenRules is the option by which rules reach a node that has no file of them.
func hiddenRules() cli.Flag {
	return &cli.StringFlag{Name: rulesText, Category: selection, Hidden: true}
}
