package sim

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/boltcms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/s3cms"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/rfs/destination/export"
	"github.com/rfsd/rfsd/rfs/document/doc"
	"github.com/rfsd/rfsd/rfs/migration/engine"
	"github.com/rfsd/rfsd/rfs/migration/phase"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/migration/shards"
	"github.com/rfsd/rfsd/rfs/migration/worker"
)

// restartAfter is the delay after which the supervisor restarts an ended process.
const restartAfter = 5 * time.Second

// seat runs processes in sequence until one ends because everything is done.
type seat struct {
	w      *world
	number int
	dir    string // directory of the coordination file

	mu  sync.Mutex
	now *machine
}

// machine returns the running process; nil if none is running.
func (s *seat) machine() *machine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.now
}

func (s *seat) set(m *machine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.now = m
}

// end kills the running process.
func (s *seat) end() {
	if m := s.machine(); m != nil {
		m.kill()
	}
}

func (s *seat) run() {
	var last error
	right := false // the clock has been set
	for born := 0; ; born++ {
		select {
		case <-s.w.over:
			if last != nil && s.w.quiet() {
				s.w.bad("the last end of process %d: %v", s.number, last)
			}
			return
		default:
		}
		m := newMachine(fmt.Sprintf("w%d.%d", s.number, born), s.w.dice)
		ctx, stop := context.WithCancel(context.Background())
		m.stop = stop
		if s.w.cfg.Skew > 0 && !right && !s.w.quiet() {
			m.setSkew(s.w.randomSkew())
		}
		s.set(m)
		done, err := s.process(ctx, m)
		s.set(nil)
		killed := m.isDead()
		m.kill() // also ends goroutines that it left behind
		if done && !killed {
			return
		}
		last = err
		if killed {
			s.w.count(&s.w.report.Kills)
			if s.w.cfg.Crash {
				s.w.disk.crash()
			}
		}
		if errors.Is(err, cms.ErrClockSkew) {
			s.w.count(&s.w.report.Skewed)
			s.w.pause(5 * time.Minute)
			right = true
		}
		s.w.pause(restartAfter)
	}
}

// process runs one process to its end and reports whether everything is done.
func (s *seat) process(ctx context.Context, m *machine) (done bool, err error) {
	session, close, err := s.session(m)
	if err != nil {
		return false, err
	}
	defer close()
	if s.w.cfg.Migrate {
		sum, err := (&worker.Migration{Session: session, Slots: 2, Unavailable: 2 * time.Minute}).Run(ctx)
		return err == nil && sum.Complete || ctx.Err() == nil && err == nil && len(s.w.deadly) > 0, err
	}
	for ctx.Err() == nil {
		if s.w.cfg.Hints {
			session.Prefer = s.hints(m)
		}
		var lease *cms.Lease
		begin := time.Now()
		outcome, _, err := session.RunOne(ctx, func(l *cms.Lease) {
			lease, begin = l, time.Now()
			s.w.count(&s.w.report.Leases)
		})
		if lease != nil && outcome == engine.Lost {
			s.w.count(&s.w.report.Lost)
			if !m.hurtSince(begin) && !s.w.storeWrong() && s.w.target.now() == fair {
				s.w.bad("%s lost the lease of %s after %v without a cause: %v", m.name, lease.Item.ID, time.Since(begin), err)
			}
		}
		var none *cms.NoneAvailable
		switch {
		case errors.Is(err, cms.ErrAllDone):
			return true, nil
		case errors.As(err, &none):
			_ = m.Sleep(ctx, 5*time.Second)
		case errors.Is(err, cms.ErrClockSkew), errors.Is(err, errDead), ctx.Err() != nil:
			return false, err
		case err != nil:
			_ = m.Sleep(ctx, 5*time.Second)
		}
	}
	return false, ctx.Err()
}

// storeWrong reports whether the store's clock or memory is faulty in this world.
func (w *world) storeWrong() bool { return w.cfg.Jump > 0 || w.cfg.Lose > 0 }

// hints proposes items as a fleet does: some are leased, done, or do not exist.
func (s *seat) hints(m *machine) []string {
	ids := s.w.server.ids()
	r := m.about("hints")
	r.Shuffle(len(ids), func(a, b int) { ids[a], ids[b] = ids[b], ids[a] })
	return append(ids[:min(3, len(ids))], "i000__0__7")
}

// session assembles the parts of a process as the program does.
func (s *seat) session(m *machine) (*phase.Session, func(), error) {
	w := s.w
	store, destination, close, err := s.stores(m)
	if err != nil {
		return nil, nil, err
	}
	r := w.dice.about("process", m.name)
	c := cms.New(cms.Config{
		Store: store, Clock: m, Creator: m.name, InitialLease: w.cfg.Lease, SkewTolerance: w.cfg.Tolerance,
		Rand: rand.New(rand.NewPCG(r.Uint64(), 7)),
	})
	log := slog.New(slog.DiscardHandler)
	flying := 1 + r.IntN(4)
	if w.cfg.Flying > 0 {
		flying = w.cfg.Flying
	}
	if w.cfg.File { // files are written in order
		flying = 1
	}
	session := &phase.Session{
		Coordinator: c, Holder: m.name, Log: log, Phases: phase.Phases{phase.PhaseDocuments}, Settings: map[string]string{"snapshot": "snap1"}, Jitter: m.jitter,
		Source: phase.Source{Plan: func(context.Context, string) (*plan.Plan, error) { return w.plan, nil }},
		Transfer: phase.Transfer{SplitOver: w.cfg.Split, Order: func(items []cms.Item) { w.order(m, items) }, Shards: shards.Reader{
			Repo: memory{w.blobs(), m}, Log: log,
			Edit: func(index string) shards.DocumentEditor { return w.editor(m, index) },
		}, Runner: &engine.Runner{
			Destination: destination, Failed: recorder{w, m}, Meter: engine.NewMeter(), Clock: m, Log: log,
			Bulk: bulk.Options{
				MaxDocs: w.cfg.Documents, MaxInFlight: flying, Breaker: bulk.NewBreaker(math.MaxInt64), StallTimeout: 2 * time.Minute,
				Pause: m.Sleep, Jitter: m.jitter, Recovery: &bulk.Recovery{},
			},
		}},
	}
	if !w.cfg.File {
		session.Targets = connection{w.target, m}
	}
	return session, close, nil
}

// order shuffles candidates; the result does not depend on their original order.
func (w *world) order(m *machine, items []cms.Item) {
	slices.SortFunc(items, func(a, b cms.Item) int { return strings.Compare(a.ID, b.ID) })
	m.about("order").Shuffle(len(items), func(a, b int) { items[a], items[b] = items[b], items[a] })
}

// stores opens the coordination store and the destination of a process.
func (s *seat) stores(m *machine) (cms.Store, engine.Destination, func(), error) {
	w := s.w
	if !w.cfg.File {
		var store cms.Store = &network{m, w.server}
		if w.cfg.Bucket {
			var err error
			if store, err = s3cms.Open(context.Background(), s3cms.Config{Bucket: bucket{&network{m, w.server}}}); err != nil {
				return nil, nil, nil, err
			}
		}
		return store, engine.ToCluster(connection{w.target, m}, engine.Limits{Connections: 8}), func() {}, nil
	}
	dir, err := export.OpenOn(mount{w.disk, m}, "/out", m.name, export.None)
	if err != nil {
		return nil, nil, nil, err
	}
	store, err := boltcms.Open(filepath.Join(s.dir, "cms.db"), func() time.Time { return m.Read().Wall })
	if err != nil {
		return nil, nil, nil, errors.Join(err, dir.Close())
	}
	close := func() {
		if err := errors.Join(store.Close(), dir.Close()); err != nil {
			w.bad("close the files of %s: %v", m.name, err)
		}
	}
	return &file{store, w, m}, slowFiles{engine.ToFiles(dir), w, m}, close, nil
}

// editor applies the rules of the world; a deadly document kills the process.
func (w *world) editor(m *machine, index string) shards.DocumentEditor {
	e := editor{w: w, m: m}
	if w.rules != nil {
		if d := w.rules.Documents(index); d != nil {
			e.rules = d
		}
	}
	return e
}

type editor struct {
	w     *world
	m     *machine
	rules shards.DocumentEditor
}

func (e editor) Edit(d *doc.Document, _ int64) (bool, error) {
	e.w.count(&e.w.report.Read)
	if e.w.deadly[key{string(d.Index), string(d.ID)}] {
		e.m.kill()
	}
	if d := e.w.cfg.Think; d > 0 {
		_ = e.m.wait(context.Background(), between(e.m.about("think"), 0, d)) // if the process was killed, the caller finds out
	}
	if e.rules == nil {
		return true, nil
	}
	return e.rules.Edit(d, 0)
}

func (e editor) Forget() {
	if e.rules != nil {
		e.rules.Forget()
	}
}

// recorder records failed documents of a live process.
type recorder struct {
	w *world
	m *machine
}

// Record records failures.
func (r recorder) Record(_ context.Context, failures []doc.Failure) error {
	if r.m.isDead() {
		return errDead
	}
	r.w.mu.Lock()
	defer r.w.mu.Unlock()
	for _, f := range failures {
		r.w.recorded[key{f.Index, f.ID}] = f
	}
	return nil
}

// Sync fails if the process is dead.
func (r recorder) Sync(context.Context) error {
	if r.m.isDead() {
		return errDead
	}
	return nil
}

// slowFiles is a Destination of files whose writes take time.
type slowFiles struct {
	engine.Destination
	w *world
	m *machine
}

// Open starts the output of an item.
func (f slowFiles) Open(ctx context.Context, id cms.ItemID, mayStart func() error) (engine.Output, error) {
	out, err := f.Destination.Open(ctx, id, mayStart)
	return slowOutput{out, f.w, f.m}, err
}

type slowOutput struct {
	engine.Output
	w *world
	m *machine
}

// Send writes a body.
func (o slowOutput) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	r := o.m.about("write", fingerprint(body))
	if err := o.m.wait(ctx, between(r, o.w.cfg.Trip/20, o.w.cfg.Trip)); err != nil {
		return bulk.Result{}, err
	}
	return o.Output.Send(ctx, body, n)
}

// Commit commits the output after a delay.
func (o slowOutput) Commit(ctx context.Context) error {
	if err := o.m.wait(ctx, between(o.m.about("commit"), time.Millisecond, o.w.cfg.Trip)); err != nil {
		return err
	}
	return o.Output.Commit(ctx)
}

// file is the coordination file of one process. Writes after the death of the process have no effect.
type file struct {
	cms.Store
	w *world
	m *machine
}

// Create adds items.
func (f *file) Create(ctx context.Context, items []cms.Item) (int, error) {
	if err := f.pass(ctx, "create"); err != nil {
		return 0, err
	}
	return f.Store.Create(ctx, items)
}

// Apply changes an item.
func (f *file) Apply(ctx context.Context, id string, t cms.Transition) (cms.Item, cms.Result, error) {
	if err := f.pass(ctx, t.Name()+id); err != nil {
		return cms.Item{}, 0, err
	}
	it, v, err := f.Store.Apply(ctx, id, t)
	if err == nil && (v == cms.Applied || v == cms.Exhausted) && it.FailedItem() {
		f.w.itemFailed(it)
	}
	return it, v, err
}

// Put writes a record.
func (f *file) Put(ctx context.Context, r cms.Record) (cms.Revision, error) {
	if err := f.pass(ctx, "put"+r.ID); err != nil {
		return cms.Revision{}, err
	}
	return f.Store.Put(ctx, r)
}

// Delete removes a record.
func (f *file) Delete(ctx context.Context, r cms.Record) error {
	if err := f.pass(ctx, "delete"+r.ID); err != nil {
		return err
	}
	return f.Store.Delete(ctx, r)
}

func (f *file) pass(ctx context.Context, what string) error {
	f.w.request()
	if err := f.m.wait(ctx, between(f.m.about("file", what), time.Millisecond, 20*time.Millisecond)); err != nil {
		return firstError(ctx.Err(), err, fault.ErrUnavailable)
	}
	return nil
}
