package main

import (
	"log/slog"

	"github.com/rfsd/rfsd/rfs/destination/target"
)

// warnOfRisks logs what the options leave open on the way to the clusters, once per run.
func (o options) warnOfRisks(log *slog.Logger) {
	for _, c := range []target.Config{o.target, o.coordinator, o.origin.cluster} {
		for _, risk := range c.Risks() {
			log.Warn("a connection is not protected", "reason", risk)
		}
	}
}
