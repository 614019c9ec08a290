package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/cmd/state"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/coordination/owner"
)

// owner claims the state of this run of a node of the given name. Without it, for which the log gives the reason, the leases of workers that are killed
// together with their daemon run out.
func (o options) owner(node string, log *slog.Logger) *daemon.Owner {
	host, err := os.Hostname()
	var dir string
	if err == nil {
		dir, err = state.NodeDir()
	}
	var claim *daemon.Owner
	if err == nil {
		sum := sha256.Sum256([]byte(strings.Join([]string{host, node, o.target.URL, o.coordinator.URL, o.bucket.URI}, "\x00")))
		claim, err = daemon.Own(dir, fmt.Sprintf("%s-%s", o.sessionOrDefault(), hex.EncodeToString(sum[:8])), owner.Name())
	}
	if err != nil {
		log.Warn("state of the node cannot be kept: if its workers are killed together with it, their leases run out instead of being freed at its next start", "error", err)
		return nil
	}
	return claim
}

// claim takes the lock of a migration on this machine. A coordinator file needs none, as it is locked itself.
func (o options) claim(holder string) (*owner.Claim, error) {
	c, err := owner.Take(o.ownerFile, holder)
	if errors.Is(err, owner.ErrLive) {
		return nil, config.Usage("another rfsd migrate runs this migration on this machine (%s is locked)", o.ownerFile)
	}
	return c, err
}
