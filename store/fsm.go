package store

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"
	"go.etcd.io/bbolt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

var (
	bucketHints  = []byte("hints")  // kind 0x00 key → hint
	bucketExpiry = []byte("expiry") // expiry (8 bytes, big-endian) kind 0x00 key → nothing
	// Raft's index of the last change (8 bytes, big-endian) kind 0x00 key → nothing.
	bucketChanges = []byte("changes")
	bucketMeta    = []byte("meta")
	keyBytes      = []byte("bytes") // of all hints
	keyIndex      = []byte("index") // Raft's, of the last command
)

// stored is a hint in the file, with Raft's index of the command that put it.
type stored struct {
	Hint
	Index uint64 `json:"n,omitempty"`
}

// fsm is the Raft finite state machine: hints in a bbolt file. The file is rebuilt at every start from
// Raft's snapshot and log, so it needs no fsync and a crash cannot damage it.
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

// initialMmapSize reserves address space for the file to grow. Growing beyond it waits for readers, so that
// a running snapshot would block Apply.
const initialMmapSize = 4 * maxBytes

func openHints(path string) (*bbolt.DB, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: time.Second, NoSync: true, NoFreelistSync: true, InitialMmapSize: initialMmapSize})
	if err != nil {
		return nil, fmt.Errorf("hints file: %w", err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		for _, name := range [][]byte{bucketHints, bucketExpiry, bucketChanges, bucketMeta} {
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

// ApplyBatch applies entries in one transaction. Invalid entries are skipped, on all nodes alike.
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
			if err := apply(tx, c, l.Index, m.limit); err != nil {
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

// number returns a number of the file's meta data; 0 without one.
func number(tx *bbolt.Tx, key []byte) uint64 {
	if b := tx.Bucket(bucketMeta).Get(key); len(b) == 8 {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

func setNumber(tx *bbolt.Tx, key []byte, n uint64) error {
	return tx.Bucket(bucketMeta).Put(key, binary.BigEndian.AppendUint64(nil, n))
}

func apply(tx *bbolt.Tx, c command, index uint64, limit int64) error {
	total := int64(number(tx, keyBytes))
	err := setNumber(tx, keyIndex, index)
	if err != nil {
		return err
	}
	for _, h := range c.Put {
		if total, err = replace(tx, stored{h, index}, total); err != nil {
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
	return setNumber(tx, keyBytes, uint64(total))
}

func hintKey(kind, key string) []byte { return append(append([]byte(kind), 0), key...) }

func expiryKey(h Hint) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(h.Expires)), hintKey(h.Kind, h.Key)...)
}

func changeKey(h stored) []byte {
	return append(binary.BigEndian.AppendUint64(nil, h.Index), hintKey(h.Kind, h.Key)...)
}

func replace(tx *bbolt.Tx, h stored, total int64) (int64, error) {
	hints, key := tx.Bucket(bucketHints), hintKey(h.Kind, h.Key)
	if old := hints.Get(key); old != nil {
		was, err := unlist(tx, old)
		if err != nil {
			return total, err
		}
		total -= was.size()
	}
	b, err := json.Marshal(h)
	if err != nil {
		return total, err
	}
	if err := hints.Put(key, b); err != nil {
		return total, err
	}
	return total + h.size(), errors.Join(tx.Bucket(bucketExpiry).Put(expiryKey(h.Hint), nil), tx.Bucket(bucketChanges).Put(changeKey(h), nil))
}

// unlist removes a hint from the buckets that list it.
func unlist(tx *bbolt.Tx, b []byte) (was stored, err error) {
	if err := json.Unmarshal(b, &was); err != nil {
		return was, err
	}
	return was, errors.Join(tx.Bucket(bucketExpiry).Delete(expiryKey(was.Hint)), tx.Bucket(bucketChanges).Delete(changeKey(was)))
}

func evict(tx *bbolt.Tx, expiry []byte, total int64) (int64, error) {
	hints, key := tx.Bucket(bucketHints), expiry[8:]
	was, err := unlist(tx, hints.Get(key))
	if err != nil {
		return total, err
	}
	return total - was.size(), hints.Delete(key)
}

// list returns the unexpired hints of a kind whose keys start with prefix, sorted by key.
func (m *fsm) list(kind, prefix string, now time.Time) ([]Hint, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var all []Hint
	err := m.db.View(func(tx *bbolt.Tx) error {
		from := hintKey(kind, prefix)
		cursor := tx.Bucket(bucketHints).Cursor()
		for k, v := cursor.Seek(from); bytes.HasPrefix(k, from); k, v = cursor.Next() {
			var h Hint
			if err := json.Unmarshal(v, &h); err != nil {
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

// Snapshot returns a consistent view of the hints, which is written while Apply continues.
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

// Restore replaces all hints by those of a snapshot, atomically: the new file is written, synced, checked and renamed.
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

// unpack decompresses a snapshot into a file. It returns fault.ErrCorrupt beyond limit bytes.
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
