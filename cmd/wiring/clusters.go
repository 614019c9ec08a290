package wiring

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// clusters returns the clusters of the options; an absent one has no URL.
func (o Options) clusters() []target.Config {
	return []target.Config{o.Target, o.coordinator, o.origin.cluster}
}

// WarnOfRisks logs what the options leave open on the way to the clusters, once per run.
func (o Options) WarnOfRisks(log *slog.Logger) {
	for _, c := range o.clusters() {
		for _, risk := range c.Risks() {
			log.Warn("a connection is not protected", "reason", risk)
		}
	}
}

// CheckConnections reads certificates, keys and authorities as a run does; nothing is asked of any cluster.
func (o Options) CheckConnections(ctx context.Context) error {
	for _, c := range o.clusters() {
		if c.URL == "" {
			continue
		}
		client, err := target.New(ctx, c)
		if err != nil {
			return err
		}
		if err := client.Close(); err != nil {
			return err
		}
	}
	return nil
}

// clusterOnly refuses a collection of OpenSearch Serverless as the target of a command that has no form for it.
func clusterOnly(to target.Config, what string) error {
	if is, err := to.Serverless(); err != nil || !is {
		return err
	}
	return fmt.Errorf("target %s: %s cannot be used with a collection of OpenSearch Serverless; rfsd migrate and rfsd run send a snapshot to it: %w", secret.Text(to.URL), what, fault.ErrConfig)
}

// checkCollection refuses, before anything is asked, what cannot be done with a collection of OpenSearch Serverless.
func (o Options) checkCollection(client *target.Client) error {
	switch {
	case !client.Serverless():
		return nil
	case o.stateInTarget():
		return target.ErrServerless
	case o.Verify:
		return clusterOnly(o.Target, "comparisons (--verify)")
	case o.Measure > 0:
		return clusterOnly(o.Target, "measurements (leave them out with --trial-measure 0s)")
	}
	return nil
}

// checkRepeats refuses a target that gives documents ids of its own, unless that is permitted, and warns of it where it is.
func (o Options) checkRepeats(v target.Version, log *slog.Logger) error {
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
