// Package oscms keeps the coordination state of a migration in up to three indices of an OpenSearch or Elasticsearch cluster.
//
// Work items are the wire documents of the Java tool's queue. Each transition is one _update request whose script runs on the node of the
// primary shard, under its clock. Where scripts are disabled, it is a read and a conditional write under the cluster's clock. Every write
// goes through an alias with require_alias, so that a deleted index is never recreated by accident.
package oscms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/serverclock"
)

// Mode selects how transitions are applied.
type Mode string

// Modes. With Auto, Open finds out whether the cluster runs scripts.
const (
	Auto    Mode = ""
	Scripts Mode = "scripts"
	CAS     Mode = "cas" // read, then write conditional on an unchanged sequence number
)

// Config of a Store.
type Config struct {
	Client  rest.API
	Session string // [a-z0-9-]{0,64}; "" is the common queue
	Mode    Mode
	// Apart keeps the items of shards of a new session in an index that no other engine searches: parts of shards must not be leased by
	// workers that do not know where they end. An existing session is opened where its items are; with Apart, Open returns fault.ErrConfig
	// if that is the index of other engines.
	Apart bool
	// Join opens an existing session and creates nothing. If its indices are missing, they were deleted, and Open returns cms.ErrStoreGone.
	Join           bool
	RequestTimeout time.Duration    // default 30 s
	Now            func() time.Time // default time.Now; extrapolates the cluster's clock
}

// Store is a cms.Store in a cluster.
type Store struct {
	cfg     Config
	mode    Mode
	kind    string // of the items; "" for shards
	items   string // alias
	shards  string // alias of the items of shards
	control string // alias

	clock serverclock.Clock
	long  sync.Map // searches whose last result was longer than a page
}

var (
	jsonTrue  = "true"
	jsonFalse = "false"
)

const (
	// itemFields are the fields of items, without successor_items. A field without a mapping would cost an update of the cluster's state at the
	// first item that has it.
	itemFields = `
		"scriptVersion":{"type":"keyword"},"kind":{"type":"keyword"},"indexName":{"type":"keyword","index":false,"doc_values":false},
		"task":{"type":"keyword","index":false,"doc_values":false},"creatorId":{"type":"keyword","index":false,"doc_values":false},
		"leaseHolderId":{"type":"keyword","norms":false},"expiration":{"type":"long"},"completedAt":{"type":"long"},
		"nextAcquisitionLeaseExponent":{"type":"integer"},"leaseExponent":{"type":"integer"},"successorExponent":{"type":"integer"},
		"status":{"type":"keyword","norms":false},
		"failure":{"type":"keyword","index":false,"doc_values":false},"attempts":{"type":"integer"},"reached":{"type":"long"},
		"aloneAt":{"type":"long"},"aloneDied":{"type":"long"},"aloneDeaths":{"type":"integer"},"acquiredAt":{"type":"long"},"reportedAt":{"type":"long"},
		"watermark":{"type":"long"},"counts":{"type":"object","enabled":false},"checks":{"type":"keyword","index":false,"doc_values":false},
		"setupMs":{"type":"long"},"end":{"type":"long"},"releasedFor":{"type":"keyword","index":false,"doc_values":false},"engine":{"type":"keyword"}`
	// itemsMapping leaves room for the fields of other engines.
	itemsMapping = `{"properties":{"successor_items":{"type":"keyword","norms":false},` + itemFields + `}}`
	// tasksMapping names every field: nothing but this program writes to that index.
	tasksMapping   = `{"dynamic":"strict","properties":{"successor_items":{"type":"keyword","index":false,"doc_values":false},` + itemFields + `}}`
	controlMapping = `{"dynamic":false,"properties":{
		"kind":{"type":"keyword"},"state":{"type":"keyword"},"holder":{"type":"keyword"},
		"expire":{"type":"date","format":"epoch_millis"},"createdAt":{"type":"date","format":"epoch_millis"},
		"updatedAt":{"type":"date","format":"epoch_millis"},"body":{"type":"object","enabled":false}}}`
)

// names returns the indices and aliases of a session.
func names(sess string) (items, itemsAlias, control, controlAlias string) {
	if sess != "" {
		sess = "_" + sess
	}
	return ".migrations_working_state" + sess, ".rfs_items" + sess, ".rfs_control" + sess, ".rfs_records" + sess
}

// apartNames returns the index of the items of shards that no other engine searches, and its alias. Both match `.rfs_items*`, for which
// roles grant access, and neither is an index or alias of another session.
func apartNames(sess string) (apart, apartAlias string) {
	if sess != "" {
		sess = "_" + sess
	}
	return ".rfs_items-shards" + sess, ".rfs_items-parts" + sess
}

// taskNames returns the index of the items of all other kinds than shards, and its alias. Their names have the properties of apartNames.
func taskNames(sess string) (tasks, tasksAlias string) {
	if sess != "" {
		sess = "_" + sess
	}
	return ".rfs_items-work" + sess, ".rfs_items-tasks" + sess
}

// OfKind finds or creates the index of all kinds but shards. It returns cms.ErrStoreGone when the index was deleted or replaced since its
// creation.
func (s *Store) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	if kind == s.kind {
		return s, nil
	}
	of := &Store{cfg: s.cfg, mode: s.mode, kind: kind, shards: s.shards, control: s.control}
	if kind == "" {
		of.items = s.shards
		return of, nil
	}
	var index string
	index, of.items = taskNames(s.cfg.Session)
	r, err := s.Record(ctx, tasksID)
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return nil, err
	}
	if err := of.incarnation(ctx, index, tasksID, r, err == nil); err != nil {
		return nil, err
	}
	return of, nil
}

// ControlIndex returns the name of the index that exists once a session has started.
func ControlIndex(session string) string {
	_, _, control, _ := names(session)
	return control
}

// Open finds or creates the indices of the session. It returns cms.ErrStoreGone when one of them was deleted or replaced since the session
// started.
func Open(ctx context.Context, cfg Config) (*Store, error) {
	if err := cms.CheckSession(cfg.Session); err != nil {
		return nil, err
	}
	if cfg.RequestTimeout <= 0 {
		cfg.RequestTimeout = 30 * time.Second
	}
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	items, itemsAlias, control, controlAlias := names(cfg.Session)
	s := &Store{cfg: cfg, items: itemsAlias, control: controlAlias, mode: cfg.Mode}
	// An index that another worker has just created answers 503 until its shard has started.
	if err := opening.Do(ctx, func(ctx context.Context) error { return s.open(ctx, items, control) }); err != nil {
		return nil, err
	}
	return s, nil
}

// opening limits how long Open waits for a cluster that does not answer, to 2 s.
var opening = retry.Policy{Tries: 11, First: 200 * time.Millisecond}

// open finds or creates the indices of the session, and sets the mode.
func (s *Store) open(ctx context.Context, items, control string) error {
	// Opening a known session costs no more requests than these, because thousands of workers do so repeatedly.
	r, err := s.Record(ctx, incarnationID)
	switch {
	case err == nil:
	case s.cfg.Join && errors.Is(err, cms.ErrNotFound):
		return fmt.Errorf("index %s does not know the session any more: %w", control, cms.ErrStoreGone)
	case s.cfg.Join:
		return err
	default:
		if err := s.create(ctx, items, control); err != nil {
			return err
		}
		r, err = s.Record(ctx, incarnationID)
	}
	if err != nil && !errors.Is(err, cms.ErrNotFound) {
		return err
	}
	known := err == nil
	if !known && s.cfg.Apart {
		if err := s.unclaimed(ctx, items); err != nil {
			return err
		}
		items, s.items = apartNames(s.cfg.Session)
	}
	if err := s.incarnation(ctx, items, incarnationID, r, known); err != nil {
		return err
	}
	s.shards = s.items
	if s.mode == Auto {
		return s.probe(ctx)
	}
	return nil
}

// create creates the index of the records and, at the same time, the index that other engines search.
func (s *Store) create(ctx context.Context, items, control string) error {
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.ensure(gctx, control, s.control, controlMapping) })
	if !s.cfg.Apart {
		g.Go(func() error { return s.ensure(gctx, items, s.items, itemsMapping) })
	}
	return g.Wait()
}

// unclaimed returns fault.ErrConfig when the index that other engines search exists.
func (s *Store) unclaimed(ctx context.Context, index string) error {
	switch _, err := s.request(ctx, http.MethodHead, "/"+index, nil, nil); {
	case errors.Is(err, cms.ErrNotFound), errors.Is(err, cms.ErrStoreGone):
		return nil
	case err != nil:
		return fmt.Errorf("coordination index %s: %w", index, err)
	}
	return notApart(index)
}

// notApart returns the error for a session whose items other engines can lease.
func notApart(index string) error {
	return fmt.Errorf("other tools can take work of this session (index %s exists), so its shards cannot be split (--split-shards-over); use a new session (--session-name): %w",
		index, fault.ErrConfig)
}

// Mode returns how this store applies transitions: Scripts or CAS.
func (s *Store) Mode() Mode { return s.mode }

// ensure creates the index unless it exists, and its alias.
func (s *Store) ensure(ctx context.Context, index, alias, mapping string) error {
	if _, err := s.request(ctx, http.MethodHead, "/"+index+"/_alias/"+alias, nil, nil); err == nil {
		return nil
	}
	_, err := s.request(ctx, http.MethodHead, "/"+index, nil, nil)
	if errors.Is(err, cms.ErrNotFound) || errors.Is(err, cms.ErrStoreGone) {
		body := `{"settings":{"index":{"number_of_shards":1,"number_of_replicas":1,"refresh_interval":"30s"}},"aliases":{"` + alias + `":{}},"mappings":` + mapping + `}`
		_, err = s.request(ctx, http.MethodPut, "/"+index, nil, []byte(body))
		if err == nil {
			return nil
		}
		if errors.Is(err, fault.ErrRejected) { // another process may have created it just now
			_, herr := s.request(ctx, http.MethodHead, "/"+index, nil, nil)
			if herr == nil {
				err = nil
			}
		}
	}
	if err != nil {
		return fmt.Errorf("coordination index %s: %w", index, err)
	}
	body, err := json.Marshal(map[string]any{"actions": []any{map[string]any{"add": map[string]string{"index": index, "alias": alias}}}})
	if err != nil {
		return fmt.Errorf("alias %s: %w", alias, err)
	}
	if _, err := s.request(ctx, http.MethodPost, "/_aliases", nil, body); err != nil {
		return fmt.Errorf("alias %s: %w", alias, err)
	}
	return nil
}

// incarnationID is the id of the record with the UUID of the items index, tasksID the id for the index of other kinds.
const (
	incarnationID = "incarnation"
	tasksID       = "incarnation:tasks"
)

// incarnationBody is the body of such a record. Index is "" for the index that other engines search.
type incarnationBody struct {
	UUID  string `json:"uuid"`
	Index string `json:"index,omitempty"`
}

// incarnation creates an index of items for a new session and records its UUID. If known, r is the session's record with that id, and the
// index must still have the UUID in it; else cms.ErrStoreGone is returned.
func (s *Store) incarnation(ctx context.Context, items, id string, r cms.Record, known bool) error {
	public, publicAlias, _, _ := names(s.cfg.Session)
	apart, apartAlias := apartNames(s.cfg.Session)
	if !known {
		mapping := tasksMapping
		if items == public {
			mapping = itemsMapping
		}
		if err := s.ensure(ctx, items, s.items, mapping); err != nil {
			return err
		}
		if err := s.checkMapping(ctx, items); err != nil {
			return err
		}
		uuid, err := s.uuid(ctx, items)
		if err != nil {
			return err
		}
		body := incarnationBody{UUID: uuid}
		if items == apart {
			body.Index = items
		}
		raw, err := json.Marshal(body)
		if err != nil {
			return fmt.Errorf("record %s: %w", id, err)
		}
		_, err = s.Put(ctx, cms.Record{ID: id, Kind: incarnationID, Body: raw})
		if err == nil || !errors.Is(err, cms.ErrConflict) {
			return err
		}
		if r, err = s.Record(ctx, id); err != nil {
			return err
		}
	}
	var body incarnationBody
	if err := r.Decode(&body); err != nil {
		return err
	}
	switch {
	case id != incarnationID:
	case body.Index == apart:
		items, s.items = apart, apartAlias
	case body.Index != "":
		return fmt.Errorf("record %s names the index %q: %w", id, body.Index, fault.ErrCorrupt)
	case s.cfg.Apart:
		return notApart(public)
	default:
		items, s.items = public, publicAlias
	}
	uuid, err := s.uuid(ctx, items)
	if err != nil {
		return err
	}
	if body.UUID != uuid {
		return fmt.Errorf("index %s is not the one this session started with (uuid %s, was %s): %w", items, uuid, body.UUID, cms.ErrStoreGone)
	}
	return nil
}

func (s *Store) uuid(ctx context.Context, index string) (string, error) {
	answer, err := s.request(ctx, http.MethodGet, "/"+index+"/_settings", url.Values{"filter_path": {"*.settings.index.uuid"}}, nil)
	if err != nil {
		return "", fmt.Errorf("settings of %s: %w", index, err)
	}
	var a map[string]struct {
		Settings struct {
			Index struct {
				UUID string `json:"uuid"`
			} `json:"index"`
		} `json:"settings"`
	}
	if err := json.Unmarshal(answer, &a); err != nil {
		return "", fmt.Errorf("settings of %s: %w: %w", index, err, fault.ErrUnavailable)
	}
	uuid := a[index].Settings.Index.UUID
	if uuid == "" || len(a) != 1 { // such as an alias
		return "", fmt.Errorf("settings of %s hold no uuid: %w", index, fault.ErrUnavailable)
	}
	return uuid, nil
}

// Incarnation returns the UUID of the control index.
func (s *Store) Incarnation(ctx context.Context) (string, error) {
	return s.uuid(ctx, ControlIndex(s.cfg.Session))
}

// probe sets the mode by running a script that changes nothing on the record of the incarnation.
func (s *Store) probe(ctx context.Context) error {
	body := []byte(`{"script":{"lang":"painless","source":"ctx.op = 'none'"}}`)
	_, err := s.request(ctx, http.MethodPost, "/"+s.control+"/_update/"+incarnationID, url.Values{"require_alias": {jsonTrue}}, body)
	switch {
	case err == nil, errors.Is(err, cms.ErrConflict):
		s.mode = Scripts
	case errors.Is(err, errScripts):
		s.mode = CAS
	default:
		return fmt.Errorf("probe of scripts: %w", err)
	}
	return nil
}
