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
