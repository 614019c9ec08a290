// Package boltcms keeps the coordination state of a migration in one bbolt file, for a single process.
//
// The file lock is held for the life of a process, so opening the file proves that its former owner is dead. All leases of the former owner
// are freed then.
package boltcms

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	bolt "go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// Buckets. The expiry index holds open items only: a key is the expiration (8 bytes, big-endian epoch seconds) followed by the id, the
// value is empty.
var (
	itemsBucket   = []byte("items")
	expiryBucket  = []byte("expiry")
	controlBucket = []byte("control")
	metaBucket    = []byte("meta")
	tasksBucket   = []byte("tasks")        // items of all kinds but shards
	tasksExpiry   = []byte("tasks_expiry") // their expiry index

	formatKey = []byte("format") // "1"
	markKey   = []byte("mark")   // random, from the creation of the file
)

const (
	format      = "1"
	lockTimeout = time.Second
	pageSize    = 256 // items a scan holds in memory
)

// Store is a cms.Store in a file: the items of one kind, and the records. Each transition is one write transaction.
type Store struct {
	*file
	queue
}

// queue is the bucket of the items of a kind. The ids of all kinds but shards start with prefix.
type queue struct {
	items, expiry []byte
	prefix, setup string
}

var shards = queue{items: itemsBucket, expiry: expiryBucket, setup: cms.SetupID}

func queueOf(kind string) queue {
	if kind == "" {
		return shards
	}
	return queue{items: tasksBucket, expiry: tasksExpiry, prefix: kind + ":", setup: cms.SetupOf(kind)}
}

// OfKind returns the store of the items of a kind; it is closed with this one.
func (s *Store) OfKind(_ context.Context, kind string) (cms.Store, error) {
	return &Store{s.file, queueOf(kind)}, nil
}

// file is an open file.
type file struct {
	db   *bolt.DB
	path string
	is   os.FileInfo // of the open file
	now  func() time.Time

	unsynced atomic.Pointer[error] // error after which nothing more is written

	mu   sync.Mutex
	last time.Time // result of now at the last call of clock
	at   int64     // the store's clock at that time, epoch ms
}

// clock returns the store's clock in epoch milliseconds: the wall clock, which in this process never runs backwards. While the wall clock
// is behind an earlier reading, the clock advances from that reading. Readings of a former process do not matter, because Open frees all
// its leases.
func (s *file) clock() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	passed := max(now.Sub(s.last), 0) // by the monotonic clock where there is one
	s.at = max(s.at+passed.Milliseconds(), now.UnixMilli())
	s.last = now
	return s.at
}

// errUnchanged ends a write transaction that has nothing to write.
var errUnchanged = errors.New("nothing to write")

// update runs f in a write transaction with the store's clock. A failed write changed nothing and may be retried. After a failed sync
// nothing more is written: the system may have dropped the pages that it could not write, and report success for the next sync.
func (s *file) update(f func(tx *bolt.Tx, now int64) error) error {
	if failed := s.unsynced.Load(); failed != nil {
		return *failed
	}
	if err := s.present(); err != nil {
		return err
	}
	return storeError(safely(s.path, func() error {
		decided := false
		err := s.db.Update(func(tx *bolt.Tx) error {
			err := f(tx, s.clock())
			decided = err == nil
			return err
		})
		var write *fs.PathError
		if errors.Is(err, errUnchanged) {
			return nil
		}
		if err == nil || !decided || errors.As(err, &write) && write.Op == "write" {
			return err
		}
		err = fmt.Errorf("coordination file %s could not be synced, nothing more is written to it: check the disk and run again: %w: %w", s.path, err, fault.ErrConfig)
		s.unsynced.Store(&err)
		return err
	}))
}

// present returns cms.ErrStoreGone when the open file was deleted or replaced: no other process would see the changes.
func (s *file) present() error {
	is, err := os.Stat(s.path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !os.SameFile(is, s.is) {
		return fmt.Errorf("coordination file %s was deleted or replaced while it was in use: %w", s.path, cms.ErrStoreGone)
	}
	return nil
}

func (s *file) view(f func(tx *bolt.Tx) error) error {
	if err := s.present(); err != nil {
		return err
	}
	return storeError(safely(s.path, func() error { return s.db.View(f) }))
}

// storeError adds a category to errors of the file itself.
func storeError(err error) error {
	if err == nil || errors.Is(err, cms.ErrNotFound) || errors.Is(err, cms.ErrConflict) ||
		errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrConfig) {
		return err
	}
	if errors.Is(err, berrors.ErrDatabaseNotOpen) {
		return fmt.Errorf("coordination file: %w: %w", err, cms.ErrStoreGone)
	}
	// The disk is full or failing: the transaction was not committed.
	return fmt.Errorf("coordination file: %w: %w", err, fault.ErrUnavailable)
}

// Now returns the store's clock; its error is 0.
func (s *Store) Now(context.Context) (now time.Time, maxErr time.Duration, err error) {
	return time.UnixMilli(s.clock()), 0, nil
}

// Create adds items that do not exist.
func (s *Store) Create(ctx context.Context, items []cms.Item) (created int, err error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	err = s.update(func(tx *bolt.Tx, _ int64) error {
		created = 0
		for _, it := range items {
			if tx.Bucket(s.items).Get([]byte(it.ID)) != nil {
				continue
			}
			if err := s.write(tx, nil, it); err != nil {
				return err
			}
			created++
		}
		return nil
	})
	return created, err
}

// Apply runs a transition in one write transaction.
func (s *Store) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	all, err := s.ApplyAll(ctx, []cms.Change{{ID: id, Transition: t}})
	if err != nil {
		return cms.Item{}, 0, err
	}
	return all[0].Item, all[0].Result, all[0].Err
}

// ApplyAll runs the transitions in one write transaction with one sync. When nothing changes, it writes nothing.
func (s *Store) ApplyAll(ctx context.Context, changes []cms.Change) ([]cms.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	outcomes := make([]cms.Outcome, len(changes))
	err := s.update(func(tx *bolt.Tx, now int64) error {
		changed := false
		for i, c := range changes {
			o := &outcomes[i]
			old, err := s.read(tx, c.ID)
			if err != nil {
				o.Err = err
				continue
			}
			if o.Item, o.Result = c.Transition.Apply(old, now); o.Result != cms.Applied {
				continue
			}
			if err := s.write(tx, &old, o.Item); err != nil {
				return err
			}
			changed = true
		}
		if !changed {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return outcomes, nil
}

// Get reads an item.
func (s *Store) Get(ctx context.Context, id string) (it cms.Item, err error) {
	if err := ctx.Err(); err != nil {
		return it, err
	}
	err = s.view(func(tx *bolt.Tx) error {
		it, err = s.read(tx, id)
		return err
	})
	return it, err
}

// Candidates samples the open items whose lease ended more than grace ago, each with the same probability (reservoir sampling over the
// expiry index).
func (s *Store) Candidates(ctx context.Context, grace time.Duration, n int) (items []cms.Item, err error) {
	if err := ctx.Err(); err != nil || n <= 0 {
		return nil, err
	}
	err = s.view(func(tx *bolt.Tx) error {
		now := s.clock()
		var ids []string
		seen := 0
		c := tx.Bucket(s.expiry).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			if len(k) < 8 {
				return fmt.Errorf("index of expiries: %w", fault.ErrCorrupt)
			}
			if int64(binary.BigEndian.Uint64(k))*1000+grace.Milliseconds() >= now {
				break
			}
			id := string(k[8:])
			if id == s.setup || !strings.HasPrefix(id, s.prefix) {
				continue
			}
			seen++
			if len(ids) < n {
				ids = append(ids, id)
			} else if i := rand.IntN(seen); i < n {
				ids[i] = id
			}
		}
		for _, id := range ids {
			it, err := s.read(tx, id)
			if err != nil {
				return err
			}
			items = append(items, it)
		}
		return nil
	})
	return items, err
}

// Open counts the open items.
func (s *Store) Open(ctx context.Context) (o cms.Open, err error) {
	if err := ctx.Err(); err != nil {
		return o, err
	}
	err = s.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(s.expiry).Cursor()
		for k, _ := c.First(); k != nil; k, _ = c.Next() {
			id := string(k[8:])
			if id == s.setup || !strings.HasPrefix(id, s.prefix) {
				continue
			}
			if o.Items == 0 {
				it, err := s.read(tx, id)
				if err != nil {
					return err
				}
				o.NextExpiry, o.Holder = it.Expiration, it.Holder
			}
			o.Items++
		}
		return nil
	})
	return o, err
}

// Scan yields all items in order of ids.
func (s *Store) Scan(ctx context.Context) iter.Seq2[cms.Item, error] {
	return pages(ctx, s, s.items, s.prefix, func(id string, v []byte) (cms.Item, bool, error) {
		it, err := decodeItem(id, v)
		return it, true, err
	})
}

// pages yields the values that decode accepts, in order of keys, of the keys with the prefix in a bucket. It reads them page by page, so
// that no transaction stays open while the caller works.
func pages[T any](ctx context.Context, s *Store, bucket []byte, prefix string, decode func(key string, v []byte) (x T, taken bool, err error)) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for from := []byte(prefix); from != nil; {
			var page []T
			var next []byte
			err := s.view(func(tx *bolt.Tx) error {
				page, next = page[:0], nil
				c := tx.Bucket(bucket).Cursor()
				for k, v := c.Seek(from); k != nil && bytes.HasPrefix(k, []byte(prefix)); k, v = c.Next() {
					if len(page) == pageSize {
						next = bytes.Clone(k)
						break
					}
					x, taken, err := decode(string(k), v)
					if err != nil {
						return err
					}
					if taken {
						page = append(page, x)
					}
				}
				return ctx.Err()
			})
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, x := range page {
				if !yield(x, nil) {
					return
				}
			}
			from = next
		}
	}
}

func (q queue) read(tx *bolt.Tx, id string) (cms.Item, error) {
	v := tx.Bucket(q.items).Get([]byte(id))
	if v == nil {
		return cms.Item{}, fmt.Errorf("%s (item %s): %w", cms.ItemName(id), id, cms.ErrNotFound)
	}
	return decodeItem(id, v)
}

func decodeItem(id string, v []byte) (cms.Item, error) {
	var it cms.Item
	if err := json.Unmarshal(v, &it); err != nil {
		return it, fmt.Errorf("%s (item %s) in the coordination file: %w: %w", cms.ItemName(id), id, err, fault.ErrCorrupt)
	}
	it.ID = id
	return it, nil
}

// write stores the item and updates the expiry index.
func (q queue) write(tx *bolt.Tx, old *cms.Item, it cms.Item) error {
	idx := tx.Bucket(q.expiry)
	if old != nil && old.Open() {
		if err := idx.Delete(expiryKey(*old)); err != nil {
			return err
		}
	}
	if it.Open() {
		if err := idx.Put(expiryKey(it), []byte{}); err != nil {
			return err
		}
	}
	b, err := json.Marshal(it)
	if err != nil {
		return fmt.Errorf("%s: %w", cms.ItemName(it.ID), err)
	}
	return tx.Bucket(q.items).Put([]byte(it.ID), b)
}

func expiryKey(it cms.Item) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(max(0, it.Expiration))), it.ID...)
}
