package verify

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
)

// Work locates the items of a comparison and their results. Any number of processes share it.
type Work struct {
	Store  cms.Store
	Clock  cms.Clock
	Holder string        // of this process, unique; the prefix of the names of the holders of its items
	Dead   []string      // holders of processes that are known to have ended: their leases are not waited for
	Lease  time.Duration // of an item of the source, the first; DefaultLease
	// Identity is the data that processes must agree on to share the work, in addition to the names of all units and
	// the options of the Verifier that determine the result.
	Identity string
	// Reuse takes the result of a comparison that has ended, unless the target was written to since.
	Reuse bool
}

// DefaultLease is the first lease of an item of the source.
const DefaultLease = time.Minute

// ErrNotShared means that the store cannot be used for this comparison: it rejects writes, or another comparison is in
// progress there. Nothing was done.
var ErrNotShared = errors.New("the comparison cannot be shared")

const (
	stateID        = recordKind + ":state"
	stateVersion   = 1
	partVersion    = 3 // of encodeTallied; a comparison of another version is restarted
	stateRunning   = "running"
	stateCompleted = "completed"

	setupLock  = "verify/setup"
	setupLease = 30 * time.Second
	// batch is the number of groups in one item of the results.
	batch = 16
)

// state is the record of the comparison of a session.
type state struct {
	Version  int    `json:"v"`
	Run      string `json:"run"` // letters; ends the kinds of its items
	Identity string `json:"identity"`
	Plan     int    `json:"plan"` // the number of its plan, which changes when it continues after an interruption
	Batches  int    `json:"batches"`
}

// unitOf is a unit of one side in the comparison.
type unitOf struct {
	Unit
	plan     string // its name in the plan
	root     cms.ItemID
	exponent int
	of       map[string]*comparison // target indices that it may add to
}

// grouped is a group in the comparison.
type grouped struct {
	Group
	all   map[string]*comparison
	units [2][]*unitOf
}

// session is this process's part in a comparison.
type session struct {
	*Verifier
	groups []*grouped
	mine   plan
	state  state
	queues [3]*cms.Coordinator
	byRoot [2]map[string]*unitOf // by the name in ids of items
	parts  [2]map[string]cms.Item
	ended  bool // the result is there
	turns  [3]turn
}

// results is the third queue, after the queues of both sides.
const results = 2

// kinds of the items, without the run.
var kinds = [3]string{"verifysource", "verifytarget", "verifyresult"}

// Compare compares all groups, together with every other process that compares them in the same session, and returns their
// target indices, sorted by name. It returns only errors that leave the result unknown: a target, repository or store that
// does not answer; ErrNotShared. Permanently unreadable data is part of the result.
func (v *Verifier) Compare(ctx context.Context, groups []Group) ([]*Index, error) {
	s := &session{Verifier: v}
	for i := range s.turns {
		s.turns[i].place = make(chan struct{}, 1)
	}
	if err := s.look(ctx, groups); err != nil {
		return nil, err
	}
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	if !s.ended {
		if err := s.work(ctx); err != nil {
			return nil, err
		}
	}
	return s.result(ctx)
}

// look finds out what the target holds, and makes this process's plan.
func (s *session) look(ctx context.Context, groups []Group) error {
	s.mine = plan{Buckets: map[string]int{}, Units: map[string]planUnit{}}
	s.groups = make([]*grouped, len(groups))
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b Group) int { return slices.Compare(a.Targets, b.Targets) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.Readers)
	for i, group := range sorted {
		g.Go(func() error {
			x := &grouped{Group: group, all: map[string]*comparison{}}
			s.groups[i] = x
			for _, name := range group.Targets {
				held, err := s.Target.Look(ctx, name)
				if err != nil {
					return fmt.Errorf("target index %s: %w", name, err)
				}
				x.all[name] = &comparison{held: held, buckets: bucketsFor(held.Documents), result: &Index{Target: name}}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, x := range s.groups {
		for _, u := range x.Units {
			s.add(x, ofSource, &unitOf{Unit: u, plan: "source " + u.Name, of: x.all})
		}
		for _, name := range x.Targets {
			c := x.all[name]
			s.mine.Buckets[name] = c.buckets
			for _, u := range c.held.Units {
				s.add(x, ofTarget, &unitOf{Unit: u, plan: "target " + name + " " + u.Name, of: map[string]*comparison{name: c},
					exponent: exponentFor(s.Work.lease(), c.held.Documents/int64(len(c.held.Units)))})
			}
		}
	}
	return nil
}

func (s *session) add(x *grouped, side int, u *unitOf) {
	x.units[side] = append(x.units[side], u)
	s.mine.Units[u.plan] = planUnit{Key: u.Key, Exponent: u.exponent}
}

func (w Work) lease() time.Duration {
	if w.Lease <= 0 {
		return DefaultLease
	}
	return w.Lease
}

// identity identifies the compared data and the options of the comparison.
func (s *session) identity() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %q %g %s %d\n", partVersion, s.Work.Identity, float64(s.Sample), s.Failed.sum, s.Names)
	for _, x := range s.groups {
		fmt.Fprintf(h, "%q %q\n", x.Targets, x.Sources)
		for _, u := range x.units[ofSource] {
			fmt.Fprintf(h, "%q %q %d\n", u.Name, u.Key, u.Size)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// join starts a comparison, or participates in the running one.
func (s *session) join(ctx context.Context) error {
	locks := &primitive.Locks{Store: s.Work.Store, Clock: s.Work.Clock}
	lock, err := locks.Acquire(ctx, setupLock, setupLease)
	if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
		return fmt.Errorf("%w: %w", ErrNotShared, err)
	}
	if err != nil {
		return fmt.Errorf("start to compare: %w", err)
	}
	err = lock.Run(ctx, s.prepare)
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	return errors.Join(err, lock.Unlock(late))
}

// prepare makes the state fit this process, or the other way round. Each step may be repeated.
func (s *session) prepare(ctx context.Context) error {
	r, err := s.Work.Store.Record(ctx, stateID)
	if errors.Is(err, cms.ErrNotFound) {
		return s.begin(ctx)
	}
	if err != nil {
		return err
	}
	if err := r.Decode(&s.state); err != nil {
		return fmt.Errorf("state of the comparison: %w", err)
	}
	if s.state.Version != stateVersion {
		return fmt.Errorf("%w: another version of rfsd has started to compare in this session", ErrNotShared)
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	same := s.state.Identity == s.identity()
	known, err := s.plan(ctx)
	if err != nil {
		return err
	}
	if r.State == stateCompleted {
		if s.ended = same && s.Work.Reuse && known.settled(s.mine); s.ended {
			return nil
		}
		return s.again(ctx)
	}
	active, done, err := s.active(ctx)
	if err != nil {
		return err
	}
	fits := same && known.units(s.mine)
	switch {
	case !fits && active:
		return fmt.Errorf("%w: another comparison is in progress in this session, with other settings, failures or indices", ErrNotShared)
	case !fits:
		return s.again(ctx)
	case !active && known.renew(s.mine):
		named, err := s.queues[results].Seeded(ctx)
		if err != nil {
			return err
		}
		if named { // some results may come from data that was read before
			return s.again(ctx)
		}
		s.state.Plan++
		if err := s.record(ctx, known); err != nil {
			return err
		}
	}
	s.Log.InfoContext(ctx, "comparison continues", "done", done, "units", len(known.Units))
	s.adopt(known)
	return s.seed(ctx, true)
}

// again ends the existing comparison and starts a new one.
func (s *session) again(ctx context.Context) error {
	if err := s.forget(ctx); err != nil {
		return err
	}
	return s.begin(ctx)
}

// begin starts a comparison with this process's plan.
func (s *session) begin(ctx context.Context) error {
	letters := strings.Map(func(c rune) rune {
		if '2' <= c && c <= '7' {
			return 'a' + c - '2'
		}
		return c
	}, strings.ToLower(rand.Text()))
	s.state = state{Version: stateVersion, Run: letters[:12], Identity: s.identity(), Batches: (len(s.groups) + batch - 1) / batch}
	if err := s.record(ctx, s.mine); err != nil {
		return err
	}
	if err := s.open(ctx); err != nil {
		return err
	}
	s.adopt(s.mine)
	return s.seed(ctx, false)
}

// record writes a plan and the state that names it.
func (s *session) record(ctx context.Context, p plan) error {
	b, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := s.saveBlob(ctx, s.planID(), b); err != nil {
		return err
	}
	body, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	return s.changeRecord(ctx, stateID, func(r *cms.Record) (bool, error) {
		r.Body, r.State = body, stateRunning
		return true, nil
	})
}

func (s *session) kind(queue int) string { return kinds[queue] + s.state.Run }

// open opens the queues of the run.
func (s *session) open(ctx context.Context) (err error) {
	for i := range s.queues {
		if s.queues[i], err = s.queue(ctx, i, 0); err != nil {
			return err
		}
	}
	return nil
}

// queue opens one queue, to create items whose first lease has an exponent.
func (s *session) queue(ctx context.Context, i, exponent int) (*cms.Coordinator, error) {
	store, err := s.Work.Store.OfKind(ctx, s.kind(i))
	if err != nil {
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
			err = fmt.Errorf("%w: %w", ErrNotShared, err)
		}
		return nil, err
	}
	// An item that ends processes is retried without limit: no data is lost by it, and its unit is named in the log.
	return cms.New(cms.Config{Store: store, Kind: s.kind(i), Clock: s.Work.Clock, Creator: s.Work.Holder, InitialLease: s.Work.lease(), MaxAttempts: 1 << 20, MinExponent: exponent}), nil
}

// active reports whether a process is at work, and how many items are done. It releases leases of processes that are known
// to have ended.
func (s *session) active(ctx context.Context) (active bool, done int, err error) {
	now, _, err := s.Work.Store.Now(ctx)
	if err != nil {
		return false, 0, err
	}
	for _, c := range s.queues {
		for _, holder := range s.Work.Dead {
			if err := c.ReleaseDead(ctx, holder, cms.CauseKilled); err != nil {
				return false, 0, err
			}
		}
		for it, err := range c.Items(ctx) {
			if err != nil {
				return false, 0, err
			}
			if !it.Open() {
				done++
			}
			active = active || it.Open() && it.Expiration > now.Unix()
		}
	}
	return active, done, nil
}

// seed creates the first items of all units; more: a plan may have others than when that was done first.
func (s *session) seed(ctx context.Context, more bool) error {
	for side := range s.byRoot {
		all := func(ctx context.Context) error {
			by := map[int][]cms.ItemID{}
			for _, u := range s.byRoot[side] {
				by[u.exponent] = append(by[u.exponent], u.root)
			}
			for _, exponent := range slices.Sorted(maps.Keys(by)) {
				c, err := s.queue(ctx, side, exponent)
				if err != nil {
					return err
				}
				if _, err := c.SeedItems(ctx, slices.Values(by[exponent])); err != nil {
					return err
				}
			}
			return nil
		}
		err := s.queues[side].SeedOnce(ctx, s.Work.Holder, all, nil)
		if err == nil && more {
			err = all(ctx)
		}
		if err != nil {
			return fmt.Errorf("create the items of the comparison: %w", err)
		}
	}
	return nil
}

// forget removes what the comparison of the state has found, also what an item found that was not ended. Its items stay: no
// other comparison meets them.
func (s *session) forget(ctx context.Context) error {
	var found []cms.Record
	for r, err := range s.Work.Store.List(ctx, recordKind) {
		if err != nil {
			return err
		}
		if strings.HasPrefix(r.ID, recordKind+":"+s.state.Run+":") {
			r.Body = nil
			found = append(found, r)
		}
	}
	for _, r := range found {
		s.dropRecord(ctx, r)
	}
	return nil
}

func (s *session) resultID(i int) string { return fmt.Sprintf("%s:result:%d", s.state.Run, i) }

// partID returns the id of the result of an item that ended at an ordinal.
func (s *session) partID(item string, end int64) string {
	h := sha256.New()
	_, _ = io.WriteString(h, fmt.Sprintf("%s %d", item, end))
	return s.state.Run + ":part:" + hex.EncodeToString(h.Sum(nil)[:16])
}
