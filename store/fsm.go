package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

var (
	bucketHints  = []byte("hints")  // kind 0x00 key → expiry (8 bytes, big-endian) payload
	bucketExpiry = []byte("expiry") // expiry (8 bytes, big-endian) kind 0x00 key → nothing
	bucketMeta   = []byte("meta")
	keyBytes     = []byte("bytes") // of all hints
)

// fsm is the Raft finite state machine: hints in a bbolt file. The file is rebuilt at every start from Raft's snapshot and log, so it needs
// no fsync and a crash cannot damage it.
type fsm struct {
	path  string
	limit int64 // bytes of all hints

	mu sync.RWMutex // guards db, which Restore replaces
	db *bbolt.DB
}

func newFSM(dir string, limit int64) (*fsm, error) {
	m := &fsm{path: filepath.Join(dir, "hints.db"), limit: limit}
	if err := os.Remove(m.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("hints of the run before: %w", err)
	}
	var err error
	m.db, err = openHints(m.path)
	return m, err
}

// initialMmapSize is the address space reserved for the file. Growing beyond it waits for readers, so that a running snapshot would block
// Apply.
const initialMmapSize = 4 * maxBytes

func openHints(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true, InitialMmapSize: initialMmapSize})
	if err != nil {
		return nil, fmt.Errorf("hints file: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketHints, bucketExpiry, bucketMeta} {
			if _, err := tx.CreateBucketIfNotExists(name); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hints file: %w", err), db.Close())
	}
	return db, nil
}

func (m *fsm) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.db.Close()
}

// Apply applies one entry of the log.
func (m *fsm) Apply(l *raft.Log) any { return m.ApplyBatch([]*raft.Log{l})[0] }

// ApplyBatch applies entries in one transaction. All nodes skip invalid entries alike.
func (m *fsm) ApplyBatch(logs []*raft.Log) []any {
	m.mu.RLock()
	defer m.mu.RUnlock()
	results := make([]any, len(logs))
	err := m.db.Update(func(tx *bbolt.Tx) error {
		for i, l := range logs {
			if l.Type != raft.LogCommand {
				continue
			}
			c, err := decodeCommand(l.Data)
			if err != nil {
				results[i] = err
				continue
			}
			if err := apply(tx, c, m.limit); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil { // such as a full disk: only hints are lost
		for i := range results {
			results[i] = fmt.Errorf("hints file: %w: %w", err, fault.ErrUnavailable)
		}
	}
	return results
}

func apply(tx *bbolt.Tx, c command, limit int64) error {
	meta, total := tx.Bucket(bucketMeta), int64(0)
	if b := meta.Get(keyBytes); len(b) == 8 {
		total = int64(binary.BigEndian.Uint64(b))
	}
	var err error
	for _, h := range c.Put {
		if total, err = replace(tx, h, total); err != nil {
			return err
		}
	}
	expiry := tx.Bucket(bucketExpiry)
	for total > 0 {
		k, _ := expiry.Cursor().First()
		if k == nil || total <= limit && int64(binary.BigEndian.Uint64(k)) >= c.Sweep {
			break
		}
		if total, err = evict(tx, bytes.Clone(k), total); err != nil {
			return err
		}
	}
	return meta.Put(keyBytes, binary.BigEndian.AppendUint64(nil, uint64(total)))
}

func hintKey(kind, key string) []byte { return append(append([]byte(kind), 0), key...) }

// stored decodes a hint from a key and a value of the file.
func stored(k, v []byte) (Hint, error) {
	kind, key, ok := strings.Cut(string(k), "\x00")
	if !ok || len(v) < 8 {
		return Hint{}, fmt.Errorf("hint %q of %d bytes: %w", k, len(v), fault.ErrCorrupt)
	}
	return Hint{Kind: kind, Key: key, Expires: int64(binary.BigEndian.Uint64(v)), Payload: bytes.Clone(v[8:])}, nil
}

func expiryKey(h Hint) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(h.Expires)), hintKey(h.Kind, h.Key)...)
}

func replace(tx *bbolt.Tx, h Hint, total int64) (int64, error) {
	hints, expiry, key := tx.Bucket(bucketHints), tx.Bucket(bucketExpiry), hintKey(h.Kind, h.Key)
	if old := hints.Get(key); old != nil {
		was, err := stored(key, old)
		if err != nil {
			return total, err
		}
		if err := expiry.Delete(expiryKey(was)); err != nil {
			return total, err
		}
		total -= was.size()
	}
	if err := hints.Put(key, append(binary.BigEndian.AppendUint64(nil, uint64(h.Expires)), h.Payload...)); err != nil {
		return total, err
	}
	return total + h.size(), expiry.Put(expiryKey(h), nil)
}

func evict(tx *bbolt.Tx, listed []byte, total int64) (int64, error) {
	hints, key := tx.Bucket(bucketHints), listed[8:]
	was, err := stored(key, hints.Get(key))
	if err != nil {
		return total, err
	}
	return total - was.size(), errors.Join(tx.Bucket(bucketExpiry).Delete(listed), hints.Delete(key))
}

// list returns the unexpired hints of a kind, sorted by key.
func (m *fsm) list(kind string, now time.Time) ([]Hint, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []Hint
	err := m.db.View(func(tx *bbolt.Tx) error {
		from := hintKey(kind, "")
		cursor := tx.Bucket(bucketHints).Cursor()
		for k, v := cursor.Seek(from); bytes.HasPrefix(k, from); k, v = cursor.Next() {
			h, err := stored(k, v)
			if err != nil {
				return err
			}
			if h.alive(now) {
				all = append(all, h)
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("hints of kind %s: %w: %w", kind, err, fault.ErrUnavailable)
	}
	return all, nil
}

// Snapshot returns a consistent view of the hints, to be written while Apply continues.
func (m *fsm) Snapshot() (raft.FSMSnapshot, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	tx, err := m.db.Begin(false)
	if err != nil {
		return nil, fmt.Errorf("snapshot of hints: %w", err)
	}
	return &fsmSnapshot{tx}, nil
}

type fsmSnapshot struct{ tx *bbolt.Tx }

// Persist writes the bbolt file, compressed.
func (s *fsmSnapshot) Persist(sink raft.SnapshotSink) error {
	err := func() error {
		z, err := zstd.NewWriter(sink, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
		if err != nil {
			return err
		}
		if _, err := s.tx.WriteTo(z); err != nil {
			return errors.Join(err, z.Close())
		}
		return z.Close()
	}()
	if err != nil {
		return errors.Join(fmt.Errorf("write snapshot of hints: %w", err), sink.Cancel())
	}
	return sink.Close()
}

// Release ends the view.
func (s *fsmSnapshot) Release() { _ = s.tx.Rollback() }

// Restore replaces all hints by those in a snapshot, atomically: it writes, syncs, checks and renames a new file.
func (m *fsm) Restore(from io.ReadCloser) error {
	defer from.Close()
	next := m.path + ".next"
	if err := unpack(from, next, 4*m.limit+1<<20); err != nil {
		return errors.Join(fmt.Errorf("restore hints: %w", err), os.Remove(next))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.db.Close(); err != nil {
		return fmt.Errorf("restore hints: %w", err)
	}
	if err := files.Rename(next, m.path); err != nil {
		return fmt.Errorf("restore hints: %w", err)
	}
	var err error
	m.db, err = openHints(m.path)
	return err
}

// unpack decompresses a snapshot into a file. It returns fault.ErrCorrupt if it exceeds limit bytes.
func unpack(from io.Reader, name string, limit int64) error {
	z, err := zstd.NewReader(from, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(128<<20))
	if err != nil {
		return err
	}
	defer z.Close()
	f, err := files.OpenFile(name, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	n, err := io.Copy(f, io.LimitReader(z, limit+1))
	if err == nil && n > limit {
		err = fmt.Errorf("more than %d bytes: %w", limit, fault.ErrCorrupt)
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	db, err := openHints(name)
	if err != nil {
		return err
	}
	return db.Close()
}
