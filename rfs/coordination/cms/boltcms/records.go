package boltcms

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	bolt "go.etcd.io/bbolt"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// stored is a record with its revision.
type stored struct {
	Rev int64 `json:"rev"`
	cms.Record
}

func readRecord(tx *bolt.Tx, id string) (cms.Record, error) {
	v := tx.Bucket(controlBucket).Get([]byte(id))
	if v == nil {
		return cms.Record{}, fmt.Errorf("record %s: %w", id, cms.ErrNotFound)
	}
	return decodeRecord(id, v)
}

func decodeRecord(id string, v []byte) (cms.Record, error) {
	var s stored
	if err := json.Unmarshal(v, &s); err != nil {
		return cms.Record{}, fmt.Errorf("record %s in the coordination file: %w: %w", id, err, fault.ErrCorrupt)
	}
	s.ID, s.Revision = id, cms.Revision{Seq: s.Rev, Term: 1}
	return s.Record, nil
}

func writeRecord(tx *bolt.Tx, r cms.Record) (cms.Revision, error) {
	// The sequence of the bucket, so that a record that was deleted and created again never repeats a revision.
	seq, err := tx.Bucket(controlBucket).NextSequence()
	if err != nil {
		return cms.Revision{}, err
	}
	b, err := json.Marshal(stored{Rev: int64(seq), Record: r})
	if err != nil {
		return cms.Revision{}, fmt.Errorf("record %s: %w", r.ID, err)
	}
	return cms.Revision{Seq: int64(seq), Term: 1}, tx.Bucket(controlBucket).Put([]byte(r.ID), b)
}

// Record reads a record.
func (s *Store) Record(ctx context.Context, id string) (r cms.Record, err error) {
	if err := ctx.Err(); err != nil {
		return r, err
	}
	err = s.view(func(tx *bolt.Tx) error {
		r, err = readRecord(tx, id)
		return err
	})
	return r, err
}

// Incarnation returns the random text that the file got at its creation.
func (s *Store) Incarnation(ctx context.Context) (is string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	err = s.view(func(tx *bolt.Tx) error {
		is = string(tx.Bucket(metaBucket).Get(markKey))
		return nil
	})
	return is, err
}

// Put writes a record if its revision is still the stored one.
func (s *Store) Put(ctx context.Context, r cms.Record) (rev cms.Revision, err error) {
	if err := ctx.Err(); err != nil {
		return rev, err
	}
	err = s.update(func(tx *bolt.Tx, _ int64) error {
		if err := sameRevision(tx, r); err != nil {
			return err
		}
		rev, err = writeRecord(tx, r)
		return err
	})
	return rev, err
}

// PutAll writes the records in one write transaction with one sync. When all are refused, it writes nothing.
func (s *Store) PutAll(ctx context.Context, records []cms.Record) ([]error, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	errs := make([]error, len(records))
	err := s.update(func(tx *bolt.Tx, _ int64) error {
		written := false
		for i, r := range records {
			if errs[i] = sameRevision(tx, r); errs[i] != nil {
				continue
			}
			if _, err := writeRecord(tx, r); err != nil {
				return err
			}
			written = true
		}
		if !written {
			return errUnchanged
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return errs, nil
}

// Delete removes a record if its revision is still the stored one.
func (s *Store) Delete(ctx context.Context, r cms.Record) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	return s.update(func(tx *bolt.Tx, _ int64) error {
		if err := sameRevision(tx, r); err != nil {
			return err
		}
		return tx.Bucket(controlBucket).Delete([]byte(r.ID))
	})
}

func sameRevision(tx *bolt.Tx, r cms.Record) error {
	var have cms.Revision
	if v := tx.Bucket(controlBucket).Get([]byte(r.ID)); v != nil {
		old, err := decodeRecord(r.ID, v)
		if err != nil {
			return err
		}
		have = old.Revision
	}
	if have != r.Revision {
		return fmt.Errorf("record %s: %w", r.ID, cms.ErrConflict)
	}
	return nil
}

// List yields the records of a kind in order of ids.
func (s *Store) List(ctx context.Context, kind string) iter.Seq2[cms.Record, error] {
	return pages(ctx, s, controlBucket, kind, func(id string, v []byte) (cms.Record, bool, error) {
		r, err := decodeRecord(id, v)
		return r, r.Kind == kind, err
	})
}

// freeRecords ends the locks of the former owner.
func freeRecords(tx *bolt.Tx) error {
	var held []cms.Record
	c := tx.Bucket(controlBucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		r, err := decodeRecord(string(k), v)
		if err != nil {
			return err
		}
		if r.Expire != 0 {
			r.Expire = 0
			held = append(held, r)
		}
	}
	for _, r := range held {
		if _, err := writeRecord(tx, r); err != nil {
			return err
		}
	}
	return nil
}
