package main

import (
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// clusterOnly refuses a collection of OpenSearch Serverless as the target of a command that has no form for it.
func clusterOnly(to target.Config, what string) error {
	if is, err := to.Serverless(); err != nil || !is {
		return err
	}
	return fmt.Errorf("target %s: %s cannot be used with a collection of OpenSearch Serverless; rfsd migrate and rfsd run send a snapshot to it: %w", secret.Text(to.URL), what, fault.ErrConfig)
}

// checkCollection refuses, before anything is asked, what cannot be done with a collection of OpenSearch Serverless.
func (o options) checkCollection(client *target.Client) error {
	switch {
	case !client.Serverless():
		return nil
	case o.stateInTarget():
		return target.ErrServerless
	case o.verify:
		return clusterOnly(o.target, "comparisons (--verify)")
	case o.measure > 0:
		return clusterOnly(o.target, "measurements (leave them out with --trial-measure 0s)")
	}
	return nil
}

// checkRepeats refuses a target that gives documents ids of its own, unless that is permitted, and warns of it where it is.
func (o options) checkRepeats(v target.Version, log *slog.Logger) error {
	const means = "a collection of type %s gives documents ids of its own: a document that is sent again, because an answer was lost or a process died, is there twice"
	switch {
	case !v.ChoosesIDs():
		return nil
	case !o.allowDuplicates:
		return fmt.Errorf(means+"; permit it (--allow-duplicates), or use a collection of type search, which keeps the ids: %w", v.Collection, fault.ErrConfig)
	case o.existing != "" && o.existing != bulk.Overwrite:
		return fmt.Errorf("--existing-documents %s compares ids, which a collection of type %s does not keep: leave it out: %w", o.existing, v.Collection, fault.ErrConfig)
	}
	log.Warn(fmt.Sprintf(means, v.Collection) + "; the summary counts such copies")
	return nil
}
