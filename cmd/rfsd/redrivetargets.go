package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/migration/worker"
	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// permitted returns the function that reports why a redrive may not write to an index, "" if it may: the lines of files decide
// nothing. An index is one that the session wrote to, or one that --index-allowlist names. kept is nil for a session whose state
// was removed.
func permitted(ctx context.Context, o options, kept *cms.Coordinator) (func(index string) string, error) {
	targets, err := sessionTargets(ctx, kept)
	if err != nil {
		return nil, err
	}
	return func(index string) string {
		name := []byte(index)
		switch {
		case !importer.ValidIndex(name):
			return fmt.Sprintf("%.300q is no name of an index", index)
		case importer.LeftOut(name, true):
			return "rfsd keeps its own state there"
		case importer.LeftOut(name, o.includeSystem):
			return "it is an index of the system: --include-system permits it"
		case targets[index], o.named && o.indices.Match(index):
			return ""
		}
		return "the session sent no documents to it: --index-allowlist permits it"
	}, nil
}

// sessionTargets returns the target indices of a session. Rules, files and messages name some that no entry of the session
// holds: these are known from what failed first.
func sessionTargets(ctx context.Context, kept *cms.Coordinator) (map[string]bool, error) {
	all := map[string]bool{}
	if kept == nil {
		return all, nil
	}
	settings, err := session.Of(kept).Settings(ctx)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, fmt.Errorf("state of the session: %w", err)
	}
	planned := false
	for e, err := range session.Of(kept).IndexEntries(ctx) {
		if err != nil {
			return nil, fmt.Errorf("state of the session: %w", err)
		}
		planned = true
		names, err := worker.EntryTargets(e)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			all[name] = true
		}
	}
	if planned && settings["rules"] == "" {
		return all, nil
	}
	places, err := session.Of(kept).FailedAt(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range places {
		for _, s := range p.Sums {
			all[s.Index] = true
		}
	}
	return all, nil
}
