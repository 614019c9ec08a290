// Package s3cms keeps the coordination state of a migration in objects of an S3 bucket, for any number of processes without a cluster.
//
// Each item and each record is one object. A transition reads the object and writes it again on the condition that its version (ETag) is
// unchanged (If-Match); a new object is written on the condition that none exists (If-None-Match). Listings and reads of S3 see every write
// acknowledged before. Names of objects, below the prefix and the name of the session:
//
// conditions                      created first, with a random text; Open tests the server's conditional writes with it
// items/<kind>/<position>-<name>  an item; kind "shards" for the items of shards; position: see position
// records/<name>                  a record
package s3cms

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/conditional"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/serverclock"
)

// Bucket is the part of an S3 client that a Store needs. Each call is one request.
type Bucket interface {
	// Get returns an object and its version, or fs.ErrNotExist.
	Get(ctx context.Context, name string) (body []byte, version string, err error)
	// Put writes an object if its version is still the given one, or with "" if it does not exist, and returns the new version. fs.ErrExist
	// means that the condition did not hold, fault.ErrUnavailable that the outcome is unknown.
	Put(ctx context.Context, name string, body []byte, version string) (is string, err error)
	// List returns a page of the names with the prefix after a name, in order, and their versions.
	List(ctx context.Context, prefix, after string) (names, versions []string, more bool, err error)
	// Date returns the server's clock, in whole seconds, from its answer about an existing object.
	Date(ctx context.Context, name string) (time.Time, error)
}

// Config of a Store.
type Config struct {
	Bucket  Bucket
	Session string           // [a-z0-9-]{0,64}; "" is the common one
	Now     func() time.Time // default time.Now; extrapolates the server's clock
}

// Store is a cms.Store in a bucket: the items of one kind, and the records.
type Store struct {
	*session
	kind  string // of the items; "" for shards
	setup string // id of its setup item
}

// session is shared by the stores of all kinds.
type session struct {
	cfg  Config
	name string // of the session's folder, ending in "/"
	seen *cache

	clock serverclock.Clock

	mu      sync.Mutex
	mark    string    // of the session; "": not read yet
	present time.Time // when it was last read
}

const (
	conditions = "conditions"
	readAhead  = 16          // objects that are read or created at the same time
	presentFor = time.Second // time for which a read of its object proves that the session exists
	maxName    = 180         // bytes of an escaped id in the name of an object
	keptPrefix = 120         // bytes kept of a longer id
)

// created is the content of the object of a session.
type created struct {
	Coordination int    `json:"rfsd_coordination"`
	Mark         string `json:"mark"` // random
}

// ErrNoSession means that no process has started the session in the bucket.
var ErrNoSession = fmt.Errorf("no migration or import of this session: %w", fault.ErrConfig)

// Open creates the session or joins it. It returns fault.ErrConfig for a server without conditional writes.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := (retry.Policy{Tries: 11, First: 200 * time.Millisecond}).Do(ctx, s.probe); err != nil {
		return nil, err
	}
	return s, nil
}

// Join opens an existing session without a write. It returns ErrNoSession when the session does not exist.
func Join(ctx context.Context, cfg Config) (*Store, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	_, _, err = s.cfg.Bucket.Get(ctx, s.name+conditions)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrNoSession
	case err != nil:
		return nil, fmt.Errorf("coordination store: %w", err)
	}
	return s, nil
}

func prepare(cfg Config) (*Store, error) {
	if err := cms.CheckSession(cfg.Session); err != nil {
		return nil, err
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	return (&session{cfg: cfg, name: Folder(cfg.Session) + "/", seen: newCache()}).of(""), nil
}

// Folder returns the folder of a session below the prefix.
func Folder(session string) string { return cmp.Or(session, "_common") }

func (s *session) of(kind string) *Store { return &Store{s, kind, cms.SetupOf(kind)} }

// OfKind returns the store of the items of a kind.
func (s *Store) OfKind(_ context.Context, kind string) (cms.Store, error) { return s.of(kind), nil }

// probe creates the object of the session, and verifies that the server refuses to create it again and to overwrite a version that it does
// not have.
func (s *session) probe(ctx context.Context) error {
	name := s.name + conditions
	body, err := json.Marshal(created{1, rand.Text()})
	if err != nil {
		return fmt.Errorf("coordination store: %w", err)
	}
	kept, err := conditional.Kept(ctx, s.cfg.Bucket.Put, name, body)
	if err != nil {
		return fmt.Errorf("coordination store: %w", err)
	}
	if !kept {
		return fmt.Errorf("the store ignores the conditions of writes (If-None-Match, If-Match), so that two processes could take the same work: "+
			"name a bucket of AWS S3, Google Cloud Storage or Azure, or of a server that has conditional writes, or keep the state of the work in a cluster (--coordinator-host): %w", fault.ErrConfig)
	}
	return nil
}

// Incarnation returns the random text in the object that the session was created with. It returns cms.ErrStoreGone when the object was
// deleted, or replaced by the object of another session.
func (s *session) Incarnation(ctx context.Context) (string, error) {
	body, _, err := s.cfg.Bucket.Get(ctx, s.name+conditions)
	if err != nil {
		return "", s.failed(err)
	}
	var b created
	if err := json.Unmarshal(body, &b); err != nil {
		return "", fmt.Errorf("object %s: %w: %w", s.name+conditions, err, fault.ErrCorrupt)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mark = cmp.Or(s.mark, b.Mark); s.mark != b.Mark {
		return "", fmt.Errorf("folder %s holds the state of another session: it was deleted and made again: %w", s.name, cms.ErrStoreGone)
	}
	s.present = s.cfg.Now()
	return b.Mark, nil
}

// exists returns cms.ErrStoreGone when the session was deleted. It sends at most one request per presentFor.
func (s *session) exists(ctx context.Context) error {
	s.mu.Lock()
	known := !s.present.IsZero() && s.cfg.Now().Sub(s.present) < presentFor
	s.mu.Unlock()
	if known {
		return nil
	}
	_, err := s.Incarnation(ctx)
	return err
}

// failed wraps an error. fs.ErrNotExist is only passed for the object that every session has.
func (s *session) failed(err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("object %s, which every session has, is gone: the state of the work was deleted: %w", s.name+conditions, cms.ErrStoreGone)
	case errors.Is(err, fault.ErrNoBucket):
		return fmt.Errorf("%w: %w", err, cms.ErrStoreGone)
	}
	return fmt.Errorf("coordination store: %w", err)
}

// position returns the position of an item in listings: eight evenly distributed hexadecimal digits. Processes search from random
// positions, so that they do not all find the same free item first.
func position(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:4])
}

// escaped returns an id as part of an object name: letters, digits, ".", "_" and "-" unchanged, other bytes as "!" and two hexadecimal
// digits. A long id is cut and ends in its digest.
func escaped(id string) string {
	var b strings.Builder
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '_', c == '-', c == '.' && i > 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "!%02x", c)
		}
	}
	if b.Len() <= maxName {
		return b.String()
	}
	sum := sha256.Sum256([]byte(id))
	return b.String()[:keptPrefix] + "!" + hex.EncodeToString(sum[:16])
}

func (s *Store) items() string {
	if s.kind == "" {
		return s.name + "items/shards/"
	}
	return s.name + "items/" + escaped("kind."+s.kind) + "/"
}

func (s *Store) itemName(id string) string { return s.items() + position(id) + "-" + escaped(id) }

func (s *session) recordName(id string) string { return s.name + "records/" + escaped(id) }

// read returns an object of a session with its version. It returns cms.ErrNotFound when the object does not exist, cms.ErrStoreGone when
// the whole session is gone.
func (s *session) read(ctx context.Context, name, what string) ([]byte, string, error) {
	body, version, err := s.cfg.Bucket.Get(ctx, name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := s.Incarnation(ctx); err != nil {
			return nil, "", err
		}
		return nil, "", fmt.Errorf("%s: %w", what, cms.ErrNotFound)
	case err != nil:
		return nil, "", s.failed(err)
	}
	return body, version, nil
}

// write stores v if the version is unchanged, and returns cms.ErrConflict otherwise. It creates no object in a deleted session.
func (s *session) write(ctx context.Context, name, what string, v any, version string) (is string, err error) {
	if version == "" {
		if err := s.exists(ctx); err != nil {
			return "", err
		}
	}
	body, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	is, err = s.cfg.Bucket.Put(ctx, name, body, version)
	switch {
	case errors.Is(err, fs.ErrExist):
		return "", fmt.Errorf("%s: %w", what, cms.ErrConflict)
	case err != nil:
		return "", s.failed(err)
	}
	return is, nil
}
