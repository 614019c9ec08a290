package boltcms

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Open opens or creates the file (mode 0600, its directory 0700) and frees the leases of its former owner. now is the wall clock. Open
// returns cms.ErrLocked when another process has the file open.
func Open(path string, now func() time.Time) (*Store, error) {
	return open(path, now, bolt.Options{})
}

// OpenTemporary is Open for state that is removed when the process ends, such as a dry run: nothing is synced
// to the disk. After a crash of the machine the file may be damaged.
func OpenTemporary(path string, now func() time.Time) (*Store, error) {
	return open(path, now, bolt.Options{NoSync: true, NoGrowSync: true})
}

func open(path string, now func() time.Time, options bolt.Options) (*Store, error) {
	var is os.FileInfo
	options.Timeout, options.FreelistType, options.OpenFile = lockTimeout, bolt.FreelistMapType, func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := files.OpenFile(name, flag, mode)
		if err != nil {
			return nil, err
		}
		if is, err = f.Stat(); err != nil {
			return nil, errors.Join(err, f.Close())
		}
		return f, nil
	}
	if err := files.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("directory of the coordination file: %w: %w", err, fault.ErrConfig)
	}
	if err := check(path); err != nil {
		return nil, err
	}
	var db *bolt.DB
	err := safely(path, func() (err error) {
		db, err = bolt.Open(path, 0o600, &options)
		return err
	})
	switch {
	case errors.Is(err, berrors.ErrTimeout):
		return nil, fmt.Errorf("%s is open%s: %w", path, owner(path), cms.ErrLocked)
	case errors.Is(err, berrors.ErrInvalid), errors.Is(err, berrors.ErrChecksum), errors.Is(err, berrors.ErrVersionMismatch):
		return nil, fmt.Errorf("%s is not a coordination file: %w: %w", path, err, fault.ErrCorrupt)
	case errors.Is(err, fault.ErrCorrupt):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("open coordination file %s: %w: %w", path, err, fault.ErrConfig)
	}
	s := &Store{&file{db: db, path: path, is: is, now: now, last: now()}, shards}
	if err := s.begin(); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	// The id is only for messages; the lock itself is the kernel's.
	if err := writePID(path + ".pid"); err != nil {
		return nil, errors.Join(fmt.Errorf("coordination file: %w: %w", err, fault.ErrConfig), db.Close())
	}
	return s, nil
}

// writePID writes the id of this process to a file.
func writePID(path string) error {
	f, err := files.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(f, os.Getpid())
	return errors.Join(err, f.Close())
}

// owner returns the process that wrote its id next to the file, for a message.
func owner(path string) string {
	if pid := Owner(path); pid != 0 {
		return fmt.Sprintf(" in process %d", pid)
	}
	return ""
}

// Owner returns the id of the process that recorded that it has the file open, or 0. The process may have been killed since.
func Owner(path string) int {
	b, err := os.ReadFile(path + ".pid")
	if err != nil || len(b) > 32 {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid < 0 {
		return 0
	}
	return pid
}

// Close closes the file and releases its lock.
func (s *Store) Close() error {
	rerr := os.Remove(s.path + ".pid")
	if errors.Is(rerr, os.ErrNotExist) {
		rerr = nil
	}
	return errors.Join(rerr, s.db.Close())
}

func (s *file) begin() error {
	return s.update(func(tx *bolt.Tx, now int64) error {
		for _, b := range [][]byte{itemsBucket, expiryBucket, controlBucket, metaBucket, tasksBucket, tasksExpiry} {
			if _, err := tx.CreateBucketIfNotExists(b); err != nil {
				return err
			}
		}
		meta := tx.Bucket(metaBucket)
		switch f := meta.Get(formatKey); {
		case f == nil:
			if err := meta.Put(formatKey, []byte(format)); err != nil {
				return err
			}
		case string(f) != format:
			return fmt.Errorf("%s has format %q, this program knows %q: %w", s.path, f, format, fault.ErrConfig)
		}
		if meta.Get(markKey) == nil {
			if err := meta.Put(markKey, []byte(crand.Text())); err != nil {
				return err
			}
		}
		for _, q := range []queue{shards, queueOf("any")} {
			if err := q.reclaim(tx, now); err != nil {
				return err
			}
		}
		return freeRecords(tx)
	})
}

// reclaim frees the items that the former owner held, of all kinds in the buckets of q.
func (q queue) reclaim(tx *bolt.Tx, now int64) error {
	var held []string
	c := tx.Bucket(q.expiry).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		held = append(held, string(k[8:]))
	}
	for _, id := range held {
		it, err := q.read(tx, id)
		if err != nil {
			return err
		}
		if got, v := (cms.Reclaim{}).Apply(it, now); v == cms.Applied {
			if err := q.write(tx, &it, got); err != nil {
				return err
			}
		}
	}
	return nil
}
