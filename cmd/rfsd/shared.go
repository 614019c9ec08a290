package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/cmd/wiring"
	"github.com/rfsd/rfsd/daemon/sharing"
	"github.com/rfsd/rfsd/gossip"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// sharedSettings returns the given settings that may be shared with the fleet, without settings that contain a secret. Rules are shared
// by content, since other machines do not have the file.
func sharedSettings(given config.Values, settings []config.Setting, log *slog.Logger) (session.Shared, error) {
	all := session.Shared{}
	for _, s := range settings {
		name := s.Name
		values, ok := given[name]
		if !ok || sharing.ClassOf(name, values) == sharing.Own {
			continue
		}
		if name == "rules" {
			text, err := os.ReadFile(values[0])
			if err != nil {
				return nil, config.Usage("--rules: %w", err)
			}
			name, values = rulesText, []string{string(text)}
		}
		if slices.ContainsFunc(values, func(v string) bool { return secret.In(name, v) }) {
			log.Warn("a setting that contains a secret is not shared with the fleet: set it on each node", "setting", name)
			continue
		}
		all[name] = values
	}
	return all, nil
}

// rulesText is the name of the shared content of --rules.
const rulesText = sharing.RulesText

// joinPatience is the time for which a node with complete settings waits for the fleet's settings at its start.
const joinPatience = 5 * time.Second

// joinFleet returns the settings, completed by the fleet's. If required settings are missing, it waits for the store without a limit;
// otherwise it continues with the node's own after joinPatience.
func joinFleet(ctx context.Context, values config.Values, settings []config.Setting) (config.Values, error) {
	if values.Text("coordinator-file") != "" || values.Text("target-host") == "" && values.Text("coordinator-host") == "" && values.Text("coordinator-bucket") == "" {
		return values, nil // one node alone
	}
	complete := values.Text("from") != "" || values.Text("topic") != "" && values.Text("brokers") != "" || values.Text("repo-uri") != "" && (values.Text("snapshot-name") != "" || values.Text("source-host") != "")
	trust, err := newTrust(values)
	if err != nil {
		return nil, err
	}
	var logging config.Log
	if err := config.Decode(values, &logging); err != nil {
		return nil, err
	}
	log := nodeLog(logging.Format, logging.MinLevel())
	for began := time.Now(); ; {
		scope, record, err := askFleet(ctx, values)
		switch {
		case err == nil:
			believed, err := trust.Of(scope, record)
			if err != nil {
				return nil, err
			}
			all, left, err := takeShared(values, settings, record.Settings, believed, log)
			switch {
			case err != nil || len(left) == 0:
				return all, err
			case !complete:
				return nil, config.Usage("the fleet's %s would be needed and is not taken from the store: %s", strings.Join(left, ", "), believed.Doubt)
			}
			log.Warn("settings of the fleet were not taken", "settings", strings.Join(left, ", "), "reason", believed.Doubt)
			return all, nil
		case errors.Is(err, cms.ErrNotFound):
			return values, nil // this node is the first
		case !errors.Is(err, fault.ErrUnavailable) && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil):
			return nil, err
		case complete && time.Since(began) > joinPatience:
			log.Warn("the fleet's settings are unknown; this node continues with its own", "error", fault.Text(err))
			return values, nil
		}
		log.Info("waiting for the store to return the fleet's settings", "error", fault.Text(err))
		if serr := timing.SystemClock().Sleep(ctx, 2*time.Second); serr != nil {
			return nil, errors.Join(serr, err)
		}
	}
}

// askFleet reads the fleet's settings from the store that the options name.
func askFleet(ctx context.Context, values config.Values) (sharing.Scope, session.SharedRecord, error) {
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	var at struct {
		Target config.Target
		State  config.State
	}
	if err := config.Decode(values, &at); err != nil {
		return sharing.Scope{}, session.SharedRecord{}, err
	}
	o := wiring.ForState(version, at.Target.Cluster, at.State)
	coordinator, err := wiring.OpenCoordinator(ctx, o) // its connections end with ctx
	if err != nil {
		return sharing.Scope{}, session.SharedRecord{}, err
	}
	record, err := session.SharedSettingsOf(coordinator).Read(ctx)
	if err != nil {
		return sharing.Scope{}, record, err
	}
	scope, err := o.Scope(ctx)
	return scope, record, err
}

// takeShared returns the node's own settings, completed by the trusted settings of the fleet; left are the untrusted ones. The node's own
// values take precedence; workers refuse values that would make another migration.
func takeShared(values config.Values, settings []config.Setting, shared session.Shared, believed sharing.Trust, log *slog.Logger) (all config.Values, left []string, err error) {
	own, err := sharedSettings(values, settings, log)
	if err != nil {
		return nil, nil, err
	}
	taken := config.Values{}
	for _, s := range settings {
		fleets, ok := shared[s.Name]
		switch {
		case !ok || sharing.ClassOf(s.Name, fleets) == sharing.Own:
		case own[s.Name] != nil:
			if !slices.Equal(own[s.Name], fleets) {
				log.Warn("this node differs from its fleet", "setting", s.Name, "fleet", fleets, "node", own[s.Name])
			}
		case values[s.Name] != nil:
		case !believed.Accepts(s.Name, fleets):
			left = append(left, s.Name)
		default:
			if err := s.Valid(fleets); err != nil {
				return nil, left, fmt.Errorf("configuration of the fleet: %w", err)
			}
			taken[s.Name] = fleets
		}
	}
	if len(taken) > 0 {
		log.Info("settings of the fleet were taken over", "settings", strings.Join(slices.Sorted(maps.Keys(taken)), ", "))
	}
	return values.Over(taken), left, nil
}

// newTrust returns what this node needs to check the record of the fleet's settings, and to sign it.
func newTrust(values config.Values) (sharing.Checker, error) {
	dir, err := state.Dir()
	if err != nil {
		return sharing.Checker{}, err
	}
	var given struct {
		Key   config.FleetKey
		Fleet config.Fleet
	}
	if err := config.Decode(values, &given); err != nil {
		return sharing.Checker{}, err
	}
	t := sharing.Checker{Seen: sharing.Seen{Dir: dir}}
	flag, name := "fleet-key", given.Key.File
	if name == "" {
		flag, name = "gossip-keys", given.Fleet.Keys
	}
	if name == "" {
		return t, nil
	}
	file, err := gossip.LoadKeys(name)
	if err != nil {
		return t, config.Usage("--%s: %w", flag, err)
	}
	t.Keys, err = sharing.Derive(file)
	return t, err
}

// share stores this node's settings for the fleet, once the store can be reached.
func (r runOptions) share(ctx context.Context, coordinator *cms.Coordinator, log *slog.Logger) {
	stored, err := r.trust.Share(ctx, session.SharedSettingsOf(coordinator), r.shared, r.own.Fleet.Share, r.Scope)
	switch {
	case err != nil:
		log.Warn("the fleet does not know this node's settings", "error", fault.Text(err))
	case stored:
		log.Info("the fleet uses the settings of this node", "signed", len(r.trust.Keys) > 0)
	}
}
