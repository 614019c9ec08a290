package consume_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/stream/consume"
	"github.com/rfsd/rfsd/testing/cmstest"
	"github.com/rfsd/rfsd/testing/failedtest"
)

// topic is a stream in memory.
type topic struct {
	mu        sync.Mutex
	id        string
	parts     [][]consume.Message
	begins    []int64
	committed map[int]int64
	away      bool
	ahead     func(partition int, offset int64) string // what is wrong with a commit
	wrong     string
}

func (s *topic) add(partition int, key, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := consume.Message{Offset: int64(len(s.parts[partition])), Key: []byte(key), Value: []byte(value)}
	if value == "" {
		m.Value = nil
	}
	s.parts[partition] = append(s.parts[partition], m)
}

// view is the stream as one process sees it; a process that was killed sees nothing.
type view struct {
	*topic
	killed *atomic.Bool
}

func (v view) check() error {
	if v.killed.Load() || v.away {
		return fmt.Errorf("no broker: %w", fault.ErrUnavailable)
	}
	return nil
}

func (v view) Describe(context.Context) (d consume.Description, err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	d.ID = v.id
	for p := range v.parts {
		d.Partitions = append(d.Partitions, consume.Range{Begin: v.begins[p], End: int64(len(v.parts[p]))})
	}
	return d, v.check()
}

func (v view) Committed(context.Context) (map[int]int64, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := map[int]int64{}
	for p, o := range v.committed {
		all[p] = o
	}
	return all, v.check()
}

func (v view) Commit(_ context.Context, offsets map[int]int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.check(); err != nil {
		return err
	}
	for p, o := range offsets {
		if was := v.committed[p]; o < was && v.wrong == "" {
			v.wrong = fmt.Sprintf("the committed offset of partition %d went from %d back to %d", p, was, o)
		}
		v.committed[p] = o
		if v.wrong == "" && v.ahead != nil {
			v.wrong = v.ahead(p, o)
		}
	}
	return nil
}

func (v view) Open(_ context.Context, partition int, from int64) (consume.Messages, error) {
	return &cursor{v, partition, from}, v.check()
}

type cursor struct {
	view
	partition int
	at        int64
}

func (c *cursor) Next(ctx context.Context) ([]consume.Message, error) {
	for range 2 {
		c.mu.Lock()
		all := c.parts[c.partition]
		err := c.check()
		c.mu.Unlock()
		if rest := all[c.at:]; err == nil && len(rest) > 0 {
			n := min(len(rest), 7)
			c.at += int64(n)
			return rest[:n], nil
		}
		if err := (cmstest.Clock{}).Sleep(ctx, 250*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (c *cursor) Close() {}

// landing is a target in memory, which takes a moment for each request, and one for each document: those one after the other.
type landing struct {
	mu    sync.Mutex
	docs  map[string]string
	sent  int
	takes time.Duration
	each  time.Duration
	free  time.Time // when it has done what it was sent
}

// work waits until the documents that were sent before and n more are done; a target goes on with those of a sender that has gone.
func (l *landing) work(ctx context.Context, n int) error {
	l.mu.Lock()
	if now := time.Now(); l.free.Before(now) {
		l.free = now
	}
	l.free = l.free.Add(time.Duration(n) * l.each)
	d := time.Until(l.free)
	l.mu.Unlock()
	return cmstest.Clock{}.Sleep(ctx, d)
}

func (l *landing) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	if err := l.work(ctx, n); err != nil {
		return bulk.Result{}, err
	}
	if err := (cmstest.Clock{}).Sleep(ctx, l.takes); err != nil {
		return bulk.Result{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for range n {
		var line []byte
		line, body, _ = bytes.Cut(body, []byte("\n"))
		var a map[string]struct {
			ID string `json:"_id"`
		}
		if err := json.Unmarshal(line, &a); err != nil {
			return bulk.Result{}, err
		}
		l.sent++
		if x, ok := a["delete"]; ok {
			delete(l.docs, x.ID)
			continue
		}
		line, body, _ = bytes.Cut(body, []byte("\n"))
		l.docs[a["index"].ID] = string(line)
	}
	return bulk.Result{}, nil
}

func (l *landing) has(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.docs[id]
	return ok
}

// count returns how many documents it was sent.
func (l *landing) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.sent
}

func (l *landing) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.docs)
}

type anyIndex struct{}

func (anyIndex) Ensure(context.Context, []byte) error { return nil }

// cutStore is the store as a process sees it that may be killed. A store that hangs answers nothing for 20 s, or
// until the context ends.
type cutStore struct {
	cms.Store
	killed, hangs *atomic.Bool
}

func (s cutStore) reach(ctx context.Context) error {
	if s.hangs.Load() {
		if err := (cmstest.Clock{}).Sleep(ctx, 20*time.Second); err != nil {
			return err
		}
		return fmt.Errorf("no answer: %w", fault.ErrUnavailable)
	}
	if s.killed.Load() {
		return fmt.Errorf("killed: %w", fault.ErrUnavailable)
	}
	return nil
}

func (s cutStore) OfKind(ctx context.Context, kind string) (cms.Store, error) {
	of, err := s.Store.OfKind(ctx, kind)
	return cutStore{of, s.killed, s.hangs}, err
}

func (s cutStore) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if err := s.reach(ctx); err != nil {
		return cms.Item{}, 0, err
	}
	return s.Store.Apply(ctx, id, t)
}

func (s cutStore) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := s.reach(ctx); err != nil {
		return cms.Revision{}, err
	}
	return s.Store.Put(ctx, r)
}

// world is a stream, a store and a target, in virtual time.
type world struct {
	t       *testing.T
	store   cms.Store
	topic   *topic
	target  *landing
	failed  *failedtest.Recorder
	started int
	hangs   atomic.Bool // the store answers nothing
}

// process is a process of the session.
type process struct {
	*consume.Task
	killed  atomic.Bool
	stop    context.CancelFunc
	done    chan struct{}
	account consume.Account
	err     error
}

func inBubble(t *testing.T, partitions int, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store, err := boltcms.OpenTemporary(filepath.Join(t.TempDir(), "cms.db"), time.Now)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		f(&world{
			t: t, store: store, target: &landing{docs: map[string]string{}, takes: 20 * time.Millisecond}, failed: &failedtest.Recorder{},
			topic: &topic{id: "first", parts: make([][]consume.Message, partitions), begins: make([]int64, partitions), committed: map[int]int64{}},
		})
	})
}

func (w *world) start(change ...func(*consume.Task)) *process {
	w.t.Helper()
	p := &process{done: make(chan struct{})}
	store := cutStore{w.store, &p.killed, &w.hangs}
	w.started++
	token := fmt.Sprintf("p%d", w.started)
	c := cms.New(cms.Config{Store: store, Creator: token, Clock: cmstest.Clock{Start: time.Now()}})
	p.Task = &consume.Task{
		Stream: view{w.topic, &p.killed}, Name: "topic", Group: "group", Store: store, Session: session.IdentityOf(c), Intent: session.OrdersOf(c).Intent, Clock: cmstest.Clock{Start: time.Now()}, Log: slog.New(slog.DiscardHandler),
		Indices: anyIndex{}, Destination: engine.ToCluster(w.target, engine.Limits{Connections: 4}), Failed: w.failed, Bulk: bulk.Options{MaxDocs: 10, MaxInFlight: 3},
		Index: "topic", Lease: 10 * time.Second, Unavailable: 2 * time.Minute, Token: token,
	}
	for _, f := range change {
		f(p.Task)
	}
	ctx, stop := context.WithCancel(w.t.Context())
	p.stop = stop
	go func() {
		defer close(p.done)
		p.account, p.err = p.Run(ctx)
	}()
	return p
}

// kill ends the process as SIGKILL does: it gives nothing back.
func (p *process) kill() {
	p.killed.Store(true)
	p.stop()
	<-p.done
}

func (p *process) end() {
	p.stop()
	<-p.done
}

func (w *world) account() consume.Account {
	w.t.Helper()
	c := cms.New(cms.Config{Store: w.store, Clock: cmstest.Clock{Start: time.Now()}})
	a, err := consume.Read(w.t.Context(), c)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}
