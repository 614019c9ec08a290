// Package owner names processes, and proves that a former process of this machine has ended.
package owner

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Claim is an exclusive lock on a file with the names of the holders that had the lock. A process keeps the lock as long as it lives, so
// all former names belong to dead processes: nothing has to wait for their leases.
type Claim struct {
	file   *os.File
	holder string
	dead   []string
}

// ErrLive means that a live process of this machine holds the lock.
var ErrLive = errors.New("locked by another process")

// Name returns a name that is unique to this process.
func Name() string {
	host, err := os.Hostname()
	if err != nil || host == "" {
		host = "generated"
	}
	return fmt.Sprintf("%s_pid%d_%s", host, os.Getpid(), rand.Text())
}

// SuffixLength is the number of characters of Suffix.
const SuffixLength = 8

// Suffix returns a random text that distinguishes processes of one name.
func Suffix() string { return rand.Text()[:SuffixLength] }

// Take locks a file, creating it if necessary, and adds the holder's name to it. It returns ErrLive if another process has the lock, and
// fault.ErrConfig if the file cannot be opened. Without a path it returns a Claim that proves nothing.
func Take(path, holder string) (*Claim, error) {
	if path == "" {
		return &Claim{}, nil
	}
	if err := files.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state directory: %w: %w", err, fault.ErrConfig)
	}
	f, err := files.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state of the migration: %w: %w", err, fault.ErrConfig)
	}
	if err := files.Lock(f, files.TryExclusive); err != nil {
		f.Close()
		if errors.Is(err, files.ErrLocked) {
			err = ErrLive
		}
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	was, err := io.ReadAll(io.LimitReader(f, maxFile))
	c := &Claim{file: f, holder: holder, dead: strings.Fields(string(was))}
	if err == nil {
		// Dead names stay in the file until their leases are released: this process may die before.
		err = c.write(append(slices.Clone(c.dead), holder))
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("state of the migration %s: %w", path, err)
	}
	return c, nil
}

// Dead returns the names of former holders whose leases have not been released yet.
func (c *Claim) Dead() []string { return c.dead }

// maxFile limits the file, in bytes: to the names of some thousand processes.
const maxFile = 1 << 18

// write replaces the names in the file. A torn write loses names, but no documents: the leases of forgotten holders expire by themselves.
func (c *Claim) write(holders []string) error {
	if err := c.file.Truncate(0); err != nil {
		return err
	}
	_, err := c.file.WriteAt([]byte(strings.Join(holders, "\n")+"\n"), 0)
	return err
}

// Freed records that the leases of dead holders were released.
func (c *Claim) Freed() error {
	if c.file == nil || len(c.dead) == 0 {
		return nil
	}
	c.dead = nil
	if err := c.write([]string{c.holder}); err != nil {
		return fmt.Errorf("state of the migration: %w", err)
	}
	return nil
}

// Forget removes the file. The holder must have no leases left.
func (c *Claim) Forget() error {
	if c.file == nil {
		return nil
	}
	return os.Remove(c.file.Name())
}

// Release unlocks the file.
func (c *Claim) Release() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}
