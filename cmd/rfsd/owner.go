package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// owner proves that the process which ran this migration before on this machine is
// dead: it held the lock on a file for as long as it lived and left its name there.
// The leases that it held in a cluster's store need not be waited for.
type owner struct {
	file *os.File
	dead string // holder of the former process; "" when there was none
}

// claimOwnership takes the lock. Without a file (a coordinator file is its own proof)
// it does nothing. An error means that the former process is alive.
func claimOwnership(o options, holder string) (*owner, error) {
	if o.ownerFile == "" {
		return &owner{}, nil
	}
	f, err := os.OpenFile(o.ownerFile, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, usage("state of the migration: %w", err)
	}
	if err := lockFile(f); err != nil {
		f.Close()
		if errors.Is(err, errLocked) {
			return nil, usage("another rfsd migrate runs this migration on this machine (%s is locked)", o.ownerFile)
		}
		return nil, fmt.Errorf("lock %s: %w", o.ownerFile, err)
	}
	was, err := io.ReadAll(io.LimitReader(f, 1<<10))
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(holder), 0)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("state of the migration %s: %w", o.ownerFile, err)
	}
	return &owner{file: f, dead: strings.TrimSpace(string(was))}, nil
}

// release gives the lock up.
func (w *owner) release() error {
	if w.file == nil {
		return nil
	}
	return w.file.Close()
}
