package daemon

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/base/wait"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Owner proves which former processes of a node are dead. The daemon and its workers, which inherit it, hold a lock on one file while any
// of them is alive. The file contains the common prefix of the holders of their leases. A restarted node releases the leases of each former
// run whose lock is free.
type Owner struct {
	dir    *os.Root
	prefix string // of the files of this node
	holder string
	file   *os.File // locked
	name   string   // of file
}

const (
	ownerSuffix = ".run"
	// maxOwnerFile limits the holder of a former run, in bytes.
	maxOwnerFile = 4 << 10
	// reclaimInterval is the interval between checks of former runs that still have live processes, or whose leases were not released yet.
	reclaimInterval = time.Second
	// reclaimTimeout limits the release of the leases of one former run.
	reclaimTimeout = time.Minute
)

// Own creates the file of this run of a node in a directory, which it creates if necessary. node distinguishes the node and its session
// from all others there; holder is the prefix of all holders of its workers. The error is the reason why the file cannot be created.
func Own(dir, node, holder string) (*Owner, error) {
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	o := &Owner{dir: root, prefix: node + ".", holder: holder, name: node + "." + rand.Text() + ownerSuffix}
	if o.file, err = root.OpenFile(o.name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if err = files.Lock(o.file, files.TryExclusive); err == nil {
		_, err = o.file.WriteString(holder + "\n")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.name, err), root.Remove(o.name), o.file.Close(), root.Close())
	}
	return o, nil
}

// Holder returns the common prefix of the holders of this run; "" for a node that proves nothing.
func (o *Owner) Holder() string {
	if o == nil {
		return ""
	}
	return o.holder
}

// Close removes the file. It is called after all workers have ended.
func (o *Owner) Close() error {
	return errors.Join(o.dir.Remove(o.name), o.file.Close(), o.dir.Close())
}

// former returns the names of the files of former runs.
func (o *Owner) former() ([]string, error) {
	all, err := fs.ReadDir(o.dir.FS(), ".")
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range all {
		if n := e.Name(); e.Type().IsRegular() && n != o.name && strings.HasPrefix(n, o.prefix) && strings.HasSuffix(n, ownerSuffix) {
			names = append(names, n)
		}
	}
	return names, nil
}

// free calls release with the holder of a former run if all of its processes are dead, and then removes its file. alive means that one of
// them is alive.
func (o *Owner) free(name string, release func(holder string) error) (alive bool, err error) {
	f, err := o.dir.OpenFile(name, os.O_RDWR|noFollow, 0)
	if errors.Is(err, fs.ErrNotExist) { // another process of this node was faster
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	if err := files.Lock(f, files.TryExclusive); errors.Is(err, files.ErrLocked) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxOwnerFile))
	if err != nil {
		return false, err
	}
	if holder := strings.TrimSpace(string(b)); holder != "" { // a process that died before it wrote its name held no leases
		if err := release(holder); err != nil {
			return false, err
		}
	}
	return false, o.dir.Remove(name)
}

// reclaim releases the leases of former runs of this node until none are left or ctx is done. Errors are logged once and retried.
func (d *Daemon) reclaim(ctx context.Context) {
	warned := false
	for {
		left, err := d.reclaimOnce(ctx)
		if err == nil && !left {
			return
		}
		if err != nil && !warned && ctx.Err() == nil {
			warned = true
			d.log.Warn("leases of former workers not freed", "error", err, "next_try_in", reclaimInterval)
		}
		if wait.For(ctx, reclaimInterval) != nil {
			return
		}
	}
}

// reclaimOnce releases the leases of all former runs whose processes are dead. left means that a process of a former run is alive, or that
// the store was not reached yet.
func (d *Daemon) reclaimOnce(ctx context.Context) (left bool, err error) {
	names, err := d.conf.Owner.former()
	if err != nil || len(names) == 0 {
		return false, err
	}
	store, _, err := d.workStore()
	if err != nil {
		return true, nil // retried later
	}
	for _, name := range names {
		alive, err := d.conf.Owner.free(name, func(holder string) error {
			d.log.Info("leases of dead workers of this node are freed", "holder", holder)
			rctx, cancel := context.WithTimeout(ctx, reclaimTimeout)
			defer cancel()
			return session.HeldOf(store).ReleaseDead(rctx, holder, cms.CauseKilled)
		})
		if err != nil {
			return true, fmt.Errorf("%s: %w", name, err)
		}
		left = left || alive
		if !alive {
			d.mu.Lock()
			d.idleUntil = time.Time{} // items may be free now
			d.mu.Unlock()
			d.readStoreSoon()
			d.wakeUp()
		}
	}
	return left, nil
}
