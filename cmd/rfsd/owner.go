package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/daemon"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// owner proves that the process which ran this migration before on this machine is
// dead: it held the lock on a file for as long as it lived and left its name there.
// The leases that it held in a cluster's store need not be waited for.
type owner struct {
	file   *os.File
	holder string
	dead   []string // holders of former processes whose leases are not freed yet
}

// claimOwnership takes the lock. Without a file (a coordinator file is its own proof)
// it does nothing. An error means that the former process is alive.
func claimOwnership(o options, holder string) (*owner, error) {
	if o.ownerFile == "" {
		return &owner{}, nil
	}
	if err := files.MkdirAll(filepath.Dir(o.ownerFile), 0o700); err != nil {
		return nil, config.Usage("state directory: %w", err)
	}
	f, err := files.OpenFile(o.ownerFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, config.Usage("state of the migration: %w", err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		if errors.Is(err, errLocked) {
			return nil, config.Usage("another rfsd migrate runs this migration on this machine (%s is locked)", o.ownerFile)
		}
		return nil, fmt.Errorf("lock %s: %w", o.ownerFile, err)
	}
	was, err := io.ReadAll(io.LimitReader(f, maxOwnerFile))
	w := &owner{file: f, holder: holder, dead: strings.Fields(string(was))}
	if err == nil {
		// The dead stay in the file until their leases are freed: this process may die before.
		err = w.write(append(slices.Clone(w.dead), holder))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("state of the migration %s: %w", o.ownerFile, err)
	}
	return w, nil
}

// maxOwnerFile bounds the file: some thousand processes that died one after the other.
const maxOwnerFile = 1 << 18

// write replaces the names in the file. A torn write loses names, not documents: leases
// of the forgotten run out by themselves.
func (w *owner) write(holders []string) error {
	if err := w.file.Truncate(0); err != nil {
		return err
	}
	_, err := w.file.WriteAt([]byte(strings.Join(holders, "\n")+"\n"), 0)
	return err
}

// freed notes that the leases of the dead are freed.
func (w *owner) freed() error {
	if w.file == nil || len(w.dead) == 0 {
		return nil
	}
	w.dead = nil
	if err := w.write([]string{w.holder}); err != nil {
		return fmt.Errorf("state of the migration: %w", err)
	}
	return nil
}

// release gives the lock up.
func (w *owner) release() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}

// owner claims the state of this run of a node. Without it, for which the log gives the reason, the leases of workers that are killed
// together with their daemon run out.
func (r runOptions) owner(log *slog.Logger) *daemon.Owner {
	host, err := os.Hostname()
	var dir string
	if err == nil {
		dir, err = nodeDir()
	}
	var o *daemon.Owner
	if err == nil {
		sum := sha256.Sum256([]byte(strings.Join([]string{host, r.own.Node.Name, r.target.URL, r.coordinator.URL, r.bucket.URI}, "\x00")))
		o, err = daemon.Own(dir, fmt.Sprintf("%s-%s", r.sessionOrDefault(), hex.EncodeToString(sum[:8])), newHolder())
	}
	if err != nil {
		log.Warn("state of the node cannot be kept: if its workers are killed together with it, their leases run out instead of being freed at its next start", "error", err)
		return nil
	}
	return o
}

// nodeDir returns the directory for the state of this machine's nodes.
func nodeDir() (string, error) {
	if given, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":"); given != "" {
		return filepath.Join(given, "nodes"), nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "nodes"), nil
}
