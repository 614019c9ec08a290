package sim

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/document/doc"
)

// key names a document of the target.
type key struct{ index, id string }

// shardKey names a shard of the snapshot.
type shardKey struct {
	index string
	shard int
}

// truth is the expected outcome of a document.
type truth struct {
	shard   shardKey
	ordinal int64
	source  string
	refused *bulk.Refusal // how the target rejects it permanently; nil: it does not
}

// refusals are permanent rejections by a target; the last one is by a pipeline that drops the document.
var refusals = []bulk.Refusal{
	{Status: 400, Type: "mapper_parsing_exception", Reason: "not a date"},
	{Status: 500, Type: "illegal_state_exception", Reason: "the field is not what it was"},
	{Status: 500, Type: "fail_processor_exception", Reason: "no"},
	{Status: 200, Type: string(doc.Dropped), Reason: "an ingest pipeline of the target dropped it"},
}

// expect sets the expected outcomes of the documents of a shard.
func (w *world) expect(index, target string, shard int, t shardTruth) {
	k := shardKey{index, shard}
	w.ends[k] = t.end
	var edit func(d *doc.Document, most int64) (bool, error)
	if w.rules != nil {
		if e := w.rules.Documents(w.base(index)); e != nil {
			edit = e.Edit
		}
	}
	for _, x := range t.docs {
		source := x.source
		if edit != nil {
			d := doc.Document{Index: []byte(target), ID: []byte(x.id), Source: []byte(x.source)}
			if keep, err := edit(&d, 0); err != nil || !keep {
				continue
			}
			source = string(d.Source)
		}
		name := key{target, x.id}
		var refused *bulk.Refusal
		switch r := w.dice.about("refused", target, x.id); {
		case chance(r, w.cfg.Refuses):
			refused = &refusals[r.IntN(len(refusals))]
		case chance(r, w.cfg.Drops):
			refused = &refusals[len(refusals)-1]
		}
		w.truth[name] = truth{k, x.ordinal, source, refused}
	}
}

// weather is a fault of a target or a store that lasts for some time.
type weather uint8

const (
	fair      weather = iota
	away              // connections are refused
	hangs             // no response arrives
	busy              // 429 for every request
	busyItems         // 429 for most items of a request
)

// cluster is the target. It records what arrived.
type cluster struct {
	w *world

	mu     sync.Mutex
	uuids  map[string]string
	docs   map[key]string
	copies map[key]int64 // how often each document was accepted
	// versions are external versions, including those of deleted documents, which are forgotten after forgets; 0: never.
	versions map[key]int64
	forgets  time.Duration
	made     int
	weather  weather
	sends    []sent
	taken    int
	hot      string // overloaded index: 429 for each of its documents; "": none
	blocked  string // index that blocks writes; "": none
	asked    int    // requests for hot
}

// sent is a request that was started.
type sent struct {
	at      time.Time
	machine string
}

func newCluster(w *world) *cluster {
	return &cluster{w: w, uuids: map[string]string{}, docs: map[key]string{}, copies: map[key]int64{}, versions: map[key]int64{}}
}

func (t *cluster) create(index string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	t.uuids[index] = fmt.Sprintf("uuid-%d", t.made)
}

func (t *cluster) set(is weather) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.weather = is
}

// trouble makes one index overloaded and another one block writes; "" ends it.
func (t *cluster) trouble(hot, blocked string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hot, t.blocked = hot, blocked
}

// missing returns the number of documents of healthy indices that the target lacks.
func (t *cluster) missing() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k, x := range t.w.truth {
		if _, there := t.docs[k]; !there && x.refused == nil && k.index != t.hot && k.index != t.blocked {
			n++
		}
	}
	return n
}

func (t *cluster) now() weather {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.weather == fair && t.hot+t.blocked != "" {
		return busyItems
	}
	return t.weather
}

// requests returns the number of bulk requests started.
func (t *cluster) requests() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.sends)
}

// connection is one machine's connection to the target.
type connection struct {
	t *cluster
	m *machine
}

// trip returns the latency of a request.
func (c connection) trip(what string) time.Duration {
	r := c.m.about("trip", what)
	cfg := c.t.w.cfg
	if chance(r, cfg.Slow) {
		return between(r, cfg.Trip, 10*cfg.Trip) // other requests overtake it
	}
	return between(r, cfg.Trip/20, cfg.Trip)
}

// noAnswer is the timeout of requests to the target.
const noAnswer = 2 * time.Minute

// IndexUUID returns the UUID of an index.
func (c connection) IndexUUID(ctx context.Context, name string) (string, error) {
	stood, err := c.m.pass()
	if err != nil {
		return "", err
	}
	if err := c.m.wait(ctx, c.trip("uuid "+name)/10); err != nil {
		return "", err
	}
	if is := c.t.now(); stood || is == away || is == hangs {
		return "", fmt.Errorf("GET %s: %w", name, fault.ErrUnavailable)
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	if uuid := c.t.uuids[name]; uuid != "" {
		return uuid, nil
	}
	return "", fmt.Errorf("index %s: %w", name, fs.ErrNotExist)
}

// pair is a document of a bulk body. Its source is only valid while the body is.
type pair struct {
	key
	source []byte
	kept   string // a copy of it

	deletes bool
	version int64 // external; 0: none
}

// pairs parses a bulk body.
func pairs(body []byte) (all []pair, err error) {
	for len(body) > 0 {
		action, rest, _ := bytes.Cut(body, []byte("\n"))
		type named struct {
			Index   string `json:"_index"`
			ID      string `json:"_id"`
			Version int64  `json:"version"`
		}
		var a struct{ Index, Delete named }
		if err := json.Unmarshal(action, &a); err != nil {
			return nil, err
		}
		if a.Delete.Index != "" {
			all, body = append(all, pair{key: key{a.Delete.Index, a.Delete.ID}, deletes: true, version: a.Delete.Version}), rest
			continue
		}
		source, next, _ := bytes.Cut(rest, []byte("\n"))
		all = append(all, pair{key: key{a.Index.Index, a.Index.ID}, source: source, version: a.Index.Version})
		body = next
	}
	return all, nil
}

// fingerprint identifies a body by its length and its first action.
func fingerprint(body []byte) string {
	action, _, _ := bytes.Cut(body, []byte("\n"))
	return fmt.Sprintf("%s %d", action, len(body))
}

// Send accepts a bulk body. The body may be applied even if the sender gets no response or has died.
func (c connection) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	var none bulk.Result
	lost := fmt.Errorf("POST _bulk: no answer: %w", fault.ErrUnavailable)
	stood, err := c.m.pass()
	switch {
	case err != nil:
		return none, err
	case stood: // the connection broke while the machine was paused
		return none, lost
	}
	all, err := pairs(body)
	if err != nil || len(all) != n {
		c.t.w.bad("a body of %d pairs for %d: %v", len(all), n, err)
		return none, fault.ErrRejected
	}
	for i := range all { // the body is reused; documents with the expected source need no copy
		if t := c.t.w.truth[all[i].key]; string(all[i].source) == t.source {
			all[i].kept = t.source
		} else {
			all[i].kept = string(all[i].source)
		}
	}
	c.t.w.checkHolder(c.m, all)
	what := fingerprint(body)
	r := c.m.about("bulk", what)
	c.t.mu.Lock()
	c.t.sends = append(c.t.sends, sent{time.Now(), c.m.name})
	is, hot, blocked := c.t.weather, c.t.hot, c.t.blocked
	if all[0].index == hot {
		c.t.asked++
	}
	c.t.mu.Unlock()
	trip := c.trip(what)
	switch is {
	case away:
		return none, firstError(c.m.wait(ctx, between(r, 5*time.Millisecond, 80*time.Millisecond)), lost)
	case hangs:
		return none, firstError(c.m.wait(ctx, noAnswer), lost)
	case busy:
		return bulk.Result{RetryAfter: time.Second}, firstError(c.m.wait(ctx, trip/4), fmt.Errorf("429: %w", fault.ErrUnavailable))
	}
	faults := c.t.w.currentFaults()
	if n > 1 && chance(r, faults.TooLarge) {
		return none, firstError(c.m.wait(ctx, trip/4), bulk.ErrTooLarge)
	}
	if chance(r, faults.Bulk) {
		if chance(r, 0.5) { // it arrives, but its response is lost
			late := between(r, trip/2, cmp.Or(c.t.w.cfg.Held, 2*noAnswer))
			time.AfterFunc(late, func() { c.t.apply(all, nil, new(bulk.Result)) })
		}
		return none, firstError(c.m.wait(ctx, between(r, trip, noAnswer)), lost)
	}
	res := &bulk.Result{}
	for i, p := range all {
		switch {
		case p.index == blocked:
			res.Refused = append(res.Refused, bulk.Refusal{Pos: i, Status: 403, Type: "cluster_block_exception", Reason: "index [" + blocked + "] blocked by: [FORBIDDEN/8/index write (api)];"})
		case p.index == hot:
			res.Refused = append(res.Refused, bulk.Refusal{Pos: i, Status: 429, Type: "rejected_execution_exception", Reason: "queue of its node is full"})
		case c.t.w.truth[p.key].refused != nil:
			refusal := *c.t.w.truth[p.key].refused
			refusal.Pos = i
			res.Refused = append(res.Refused, refusal)
		case is == busyItems && chance(r, 0.8), chance(r, faults.Items):
			res.Refused = append(res.Refused, bulk.Refusal{Pos: i, Status: 429, Type: "es_rejected_execution_exception", Reason: "queue is full"})
		}
	}
	time.AfterFunc(trip*9/10, func() { c.t.apply(all, res.Refused, res) })
	if err := c.m.wait(ctx, trip); err != nil {
		return none, err
	}
	c.t.mu.Lock()
	defer c.t.mu.Unlock()
	return *res, nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// apply stores the documents that are not rejected, and records in res which of them existed.
func (t *cluster) apply(all []pair, refused []bulk.Refusal, res *bulk.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var conflicts []bulk.Refusal
	for i, p := range all {
		if len(refused) > 0 && refused[0].Pos == i {
			refused = refused[1:]
			continue
		}
		if t.uuids[p.index] == "" || t.w.truth[p.key].refused != nil {
			continue
		}
		if p.version != 0 && !t.accepts(p) {
			conflicts = append(conflicts, bulk.Refusal{Pos: i, Status: 409, Type: "version_conflict_engine_exception", Reason: "a higher version is there"})
			continue
		}
		if t.taken++; p.deletes {
			delete(t.docs, p.key)
			continue
		}
		t.docs[p.key] = p.kept
		if t.copies[p.key]++; t.copies[p.key] > 1 {
			res.Replaced = append(res.Replaced, bulk.Replacement{Pos: i, Copies: t.copies[p.key] - 1})
		}
	}
	res.Refused = append(res.Refused, conflicts...)
	slices.SortFunc(res.Refused, func(a, b bulk.Refusal) int { return a.Pos - b.Pos })
}

// accepts reports whether an operation's external version is not lower than the last one of its document, and records the version.
func (t *cluster) accepts(p pair) bool {
	if t.versions[p.key] > p.version {
		return false
	}
	t.versions[p.key] = p.version
	if p.deletes && t.forgets > 0 {
		time.AfterFunc(t.forgets, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			if t.versions[p.key] == p.version {
				delete(t.versions, p.key)
			}
		})
	}
	return true
}
