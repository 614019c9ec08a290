package wiring

import (
	"context"
	"log/slog"

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

// checkCollection refuses, before anything is asked, what cannot be done with a collection of OpenSearch Serverless.
func (o Options) checkCollection(client *target.Client) error {
	switch {
	case !client.Serverless():
		return nil
	case o.stateInTarget():
		return target.ErrServerless
	case o.Verify:
		return o.Target.ClusterOnly("comparisons (--verify)")
	case o.Measure > 0:
		return o.Target.ClusterOnly("measurements (leave them out with --trial-measure 0s)")
	}
	return nil
}
