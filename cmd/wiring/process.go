package wiring

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"go.opentelemetry.io/otel/attribute"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/daemon/telemetry"
	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/tracing"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// Owner claims the state of this run of a node of the given name. It logs the reason if it cannot; the leases of workers that are killed
// together with their daemon then have to expire.
func (o Options) Owner(node string, log *slog.Logger) *daemon.Owner {
	host, err := os.Hostname()
	var dir string
	if err == nil {
		dir, err = state.NodeDir()
	}
	var claim *daemon.Owner
	if err == nil {
		sum := sha256.Sum256([]byte(strings.Join([]string{host, node, o.Target.URL, o.coordinator.URL, o.bucket.URI}, "\x00")))
		claim, err = daemon.Own(dir, fmt.Sprintf("%s-%s", o.SessionOrDefault(), hex.EncodeToString(sum[:8])), owner.Name())
	}
	if err != nil {
		log.Warn("state of the node cannot be kept: if its workers are killed together with it, their leases run out instead of being freed at its next start", "error", err)
		return nil
	}
	return claim
}

// Claim takes the lock of a migration on this machine. A coordinator file needs none, as it is locked itself.
func (o Options) Claim(holder string) (*owner.Claim, error) {
	c, err := owner.Take(o.ownerFile, holder)
	if errors.Is(err, owner.ErrLive) {
		return nil, config.Usage("another rfsd migrate runs this migration on this machine (%s is locked)", o.ownerFile)
	}
	return c, err
}

// Observe starts to send traces by OTLP, where the environment names a collector. The spans of the returned context name the session of
// the options, and its round.
func (o Options) Observe(ctx context.Context, command, node string, log *slog.Logger) (context.Context, *telemetry.Telemetry, error) {
	ctx, t, err := telemetry.Start(ctx, telemetry.Config{Command: command, Version: o.version, Session: o.SessionOrDefault(), Node: node, Env: os.Getenv, Log: log})
	if err != nil {
		return ctx, nil, err
	}
	return tracing.With(ctx, attribute.String("rfsd.session", o.SessionOrDefault()), attribute.Int("rfsd.round", o.round.Number)), t, nil
}

// Memory returns what the options allow the process to hold.
func (o Options) Memory() budget.Process {
	output := 0
	if repo.IsBucket(o.exportDir) {
		output = export.MemoryOfAttempt
	}
	return budget.Process{Slots: o.Slots, Connections: o.connections, Body: o.bulkBytes, Cluster: o.Target.URL != "", Longer: o.maxDocument - shards.DefaultMaxDocument, Output: output}
}

// LimitMemory limits the memory of the process to what the options allow for a repository.
func LimitMemory(o Options, blobs repo.Repository) {
	budget.LimitMemory(o.Memory().Budget(repo.IsRemote(blobs.URI())), os.Getenv)
}
