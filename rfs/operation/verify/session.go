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
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/primitive"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Work locates the items of a comparison and their results. Any number of processes share it.
type Work struct {
	Store  cms.Store
	Clock  timing.Clock
	Holder string        // of this process, unique; the prefix of the names of the holders of its items
	Dead   []string      // holders of processes that are known to have ended, whose leases are released
	Lease  time.Duration // first lease of an item of the source; DefaultLease
	// Identity is the data that processes must agree on to share the work, in addition to the names of all units and
	// the options of the Verifier that determine the result.
	Identity string
	// Reuse returns the result of an ended comparison, unless the target was written to since.
	Reuse bool
}

// DefaultLease is the first lease of an item of the source.
const DefaultLease = time.Minute

// ErrNotShared means that the store cannot be used for this comparison: it rejects writes, or another comparison is in
// progress there. No lease is left.
var ErrNotShared = errors.New("the comparison cannot be shared")

const (
	stateID        = recordKind + ":state"
	stateVersion   = 1
	partVersion    = 4 // of encodeTallied; a comparison of another version is restarted
	stateRunning   = "running"
	stateCompleted = "completed"

	setupLock  = "verify/setup"
	setupLease = 30 * time.Second
	// batch is the number of groups in one item of the results.
	batch = 16
	// documentsPerSecond is the assumed minimum rate of reading a target. It determines the length of the first lease of a shard.
	documentsPerSecond = 2000
)

// state is the record of the comparison of a session.
type state struct {
	Version  int    `json:"v"`
	Run      string `json:"run"` // random letters, the suffix of the kinds of its items
	Identity string `json:"identity"`
}

// unitOf is a unit of one side in the comparison.
type unitOf struct {
	Unit
	root cms.Root               // the first item
	of   map[string]*comparison // its target indices
}

// grouped is a group in the comparison.
type grouped struct {
	Group
	all   map[string]*comparison
	units [2][]*unitOf
}

// session is the state of a comparison in this process.
type session struct {
	*Verifier
	records *cms.Leases
	groups  []*grouped
	state   state
	queues  [3]*cms.Coordinator
	roots   [3][]cms.Root
	byRoot  [2]map[cms.ItemID]*unitOf
	parts   [2]map[string]cms.Item
	turns   [3]turn
}

// results is the third queue, after the queues of both sides.
const results = 2

// kinds of the items, without the run.
var kinds = [3]string{"verifysource", "verifytarget", "verifyresult"}

// Compare compares all groups, together with every other process that compares them in the same session, and returns the results of
// the target indices, sorted by name. It returns only errors that leave the result unknown: from a target, repository or store that
// does not answer, and ErrNotShared. Permanently unreadable data is part of the result.
func (v *Verifier) Compare(ctx context.Context, groups []Group) ([]*Index, error) {
	s := &session{Verifier: v, records: cms.New(cms.Config{Store: v.Work.Store, Clock: v.Work.Clock}).Leases()}
	for i := range s.turns {
		s.turns[i].place = make(chan struct{}, 1)
	}
	if err := s.look(ctx, groups); err != nil {
		return nil, err
	}
	ended, err := s.join(ctx)
	if err != nil {
		return nil, err
	}
	if !ended {
		if err := s.work(ctx); err != nil {
			return nil, err
		}
	}
	return s.result(ctx)
}

// look queries the target indices, and prepares the first items of all units.
func (s *session) look(ctx context.Context, groups []Group) error {
	s.groups = make([]*grouped, len(groups))
	sorted := slices.SortedFunc(slices.Values(groups), func(a, b Group) int { return slices.Compare(a.Targets, b.Targets) })
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.Readers)
	for i, group := range sorted {
		g.Go(func() error {
			x := &grouped{Group: group, all: map[string]*comparison{}}
			s.groups[i] = x
			for _, name := range group.Targets {
				held, err := s.Target.Content(ctx, name)
				if err != nil {
					return fmt.Errorf("target index %s: %w", name, err)
				}
				x.all[name] = &comparison{held: held, result: &Index{Target: name}}
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	var most int64
	for _, x := range s.groups {
		for _, u := range x.Units {
			x.add(ofSource, u, u.Name, 0, x.all)
		}
		for _, name := range x.Targets {
			c := x.all[name]
			most = max(most, c.held.Documents)
			for _, u := range c.held.Units {
				exponent := exponentFor(s.Work.lease(), c.held.Documents/int64(len(c.held.Units)))
				x.add(ofTarget, u, name+" "+u.Name, exponent, map[string]*comparison{name: c})
			}
		}
	}
	exponent := exponentFor(s.Work.lease(), 2*most/int64(s.Readers)) // naming reads both sides of a group once more
	for i := range (len(s.groups) + batch - 1) / batch {
		s.roots[results] = append(s.roots[results], cms.Root{ID: cms.ItemID{Index: "groups", Shard: i}, Exponent: exponent})
	}
	return nil
}

// add adds a unit. The task of its items is a digest of its key.
func (x *grouped) add(side int, u Unit, name string, exponent int, of map[string]*comparison) {
	task := fmt.Sprintf(`{"key":"%x"}`, sha256.Sum256([]byte(u.Key)))
	x.units[side] = append(x.units[side], &unitOf{Unit: u, of: of, root: cms.Root{ID: cms.ItemID{Index: cms.IndexFor(name)}, Task: task, Exponent: exponent}})
}

// exponentFor returns the exponent of a lease that suffices to read the documents without interruption.
func exponentFor(initial time.Duration, documents int64) (k int) {
	for k < timing.MaxExponent && (initial<<k).Seconds()/2 < float64(documents)/documentsPerSecond {
		k++
	}
	return k
}

func (w Work) lease() time.Duration {
	if w.Lease <= 0 {
		return DefaultLease
	}
	return w.Lease
}

// identity returns a digest of the compared data and the options of the comparison.
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

// join starts a comparison, or joins the running one. ended reports whether the result is available.
func (s *session) join(ctx context.Context) (ended bool, err error) {
	// Others hold the lock for a moment: without Ask each of them would make all that wait sleep until the lease of a dead one is over.
	locks := &primitive.Locks{Store: s.Work.Store, Clock: s.Work.Clock, Ask: func() time.Duration { return idle.Pause(4) }}
	lock, err := locks.Acquire(ctx, setupLock, setupLease)
	if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
		return false, fmt.Errorf("%w: %w", ErrNotShared, err)
	}
	if err != nil {
		return false, fmt.Errorf("start to compare: %w", err)
	}
	err = lock.Run(ctx, func(ctx context.Context) (err error) {
		ended, err = s.prepare(ctx)
		return err
	})
	late, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastTimeout)
	defer cancel()
	return ended, errors.Join(err, lock.Unlock(late))
}

// prepare joins the recorded comparison, or starts a new one. Each step may be repeated.
func (s *session) prepare(ctx context.Context) (ended bool, err error) {
	r, err := s.Work.Store.Record(ctx, stateID)
	if errors.Is(err, cms.ErrNotFound) {
		return false, s.start(ctx)
	}
	if err != nil {
		return false, err
	}
	if err := r.Decode(&s.state); err != nil {
		return false, fmt.Errorf("state of the comparison: %w", err)
	}
	if s.state.Version != stateVersion {
		return false, fmt.Errorf("%w: another version of rfsd has started to compare in this session", ErrNotShared)
	}
	if err := s.open(ctx); err != nil {
		return false, err
	}
	is, err := s.readItems(ctx)
	if err != nil {
		return false, err
	}
	fits := s.state.Identity == s.identity() && is.fits(s.groups)
	changed := fits && s.follow(is)
	switch {
	case r.State == stateCompleted && s.Work.Reuse && fits && !changed:
		return true, nil
	case r.State == stateCompleted, !is.active && !fits, !is.active && changed && is.named: // some results may be from outdated readings
		return false, s.start(ctx)
	case !fits:
		return false, fmt.Errorf("%w: another comparison is in progress in this session, with other settings, failures or indices", ErrNotShared)
	}
	s.Log.InfoContext(ctx, "comparison continues", "done", is.done, "units", len(is.roots[ofSource])+len(is.roots[ofTarget]))
	return false, s.seed(ctx)
}

// start starts a new comparison, and removes the findings of the recorded one, if any: a process of that one which misses them finds the new
// one recorded. The items of the old one stay: no other comparison meets them.
func (s *session) start(ctx context.Context) error {
	former := s.state.Run
	letters := strings.Map(func(c rune) rune {
		if '2' <= c && c <= '7' {
			return 'a' + c - '2'
		}
		return c
	}, strings.ToLower(rand.Text()))
	s.state = state{Version: stateVersion, Run: letters[:12], Identity: s.identity()}
	body, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	if err := s.records.Put(ctx, cms.Record{ID: stateID, Kind: recordKind, State: stateRunning, Body: body}); err != nil {
		return err
	}
	s.forget(ctx, former, "")
	if err := s.open(ctx); err != nil {
		return err
	}
	s.follow(standing{})
	return s.seed(ctx)
}

// open opens the queues of the run.
func (s *session) open(ctx context.Context) error {
	for i := range s.queues {
		kind := kinds[i] + s.state.Run
		store, err := s.Work.Store.OfKind(ctx, kind)
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) {
			err = fmt.Errorf("%w: %w", ErrNotShared, err)
		}
		if err != nil {
			return err
		}
		// An item that ends processes is retried without limit: a comparison cannot lose data, and the log names the unit.
		s.queues[i] = cms.New(cms.Config{Store: store, Kind: kind, Clock: s.Work.Clock, Creator: s.Work.Holder, InitialLease: s.Work.lease(), MaxAttempts: 1 << 20})
	}
	return nil
}

// standing is the state of the items of a comparison.
type standing struct {
	roots  [2]map[string]cms.Root // the newest first item of each unit
	active bool                   // a process is working
	named  bool                   // work on the results has started
	done   int                    // completed items
}

// readItems returns the state of the items. It releases the leases of Work.Dead.
func (s *session) readItems(ctx context.Context) (is standing, err error) {
	now, _, err := s.records.Now(ctx)
	if err != nil {
		return is, err
	}
	is.roots = [2]map[string]cms.Root{{}, {}}
	for queue, c := range s.queues {
		for _, holder := range s.Work.Dead {
			if err := c.ReleaseDead(ctx, holder, cms.CauseKilled); err != nil {
				return is, err
			}
		}
		for it, err := range c.Items(ctx) {
			if err != nil {
				return is, err
			}
			if !it.Open() {
				is.done++
			}
			is.active = is.active || it.Open() && it.Expiration > now.Unix()
			if queue == results {
				is.named = is.named || it.AcquiredAt != 0
				continue
			}
			id, err := it.Range()
			if was, known := is.roots[queue][id.Index]; err == nil && id.Cursor == 0 && (!known || was.ID.Shard < id.Shard) {
				is.roots[queue][id.Index] = cms.Root{ID: id, Task: it.Task}
			}
		}
	}
	return is, nil
}

// fits reports whether the items are those for exactly these units.
func (is standing) fits(groups []*grouped) bool {
	for side, roots := range is.roots {
		n := 0
		for _, x := range groups {
			for _, u := range x.units[side] {
				if _, known := roots[u.root.ID.Index]; !known {
					return false
				}
				n++
			}
		}
		if n != len(roots) {
			return false
		}
	}
	return true
}

// follow adopts the existing first items. If no process is working, units whose content has changed since they were read, or
// may have, get new ones, with the next number as Shard. changed reports whether any unit did.
func (s *session) follow(is standing) (changed bool) {
	for side := range s.byRoot {
		s.roots[side], s.byRoot[side] = nil, map[cms.ItemID]*unitOf{}
		for _, x := range s.groups {
			for _, u := range x.units[side] {
				was, known := is.roots[side][u.root.ID.Index]
				u.root.ID.Shard = was.ID.Shard
				if known && (was.Task != u.root.Task || u.Key == "") {
					changed = true
					if !is.active {
						u.root.ID.Shard++
					}
				}
				s.roots[side], s.byRoot[side][u.root.ID] = append(s.roots[side], u.root), u
			}
		}
	}
	return changed
}

// seed creates the missing first items.
func (s *session) seed(ctx context.Context) error {
	for i, c := range s.queues {
		_, err := c.SeedRoots(ctx, slices.Values(s.roots[i]))
		if err == nil {
			err = c.SeedOnce(ctx, s.Work.Holder, func(context.Context) error { return nil }, nil)
		}
		if err != nil {
			return fmt.Errorf("create the items of the comparison: %w", err)
		}
	}
	return nil
}

func (s *session) resultID(i int) string { return fmt.Sprintf("%s:%s:%d", s.state.Run, resultPart, i) }

// resultPart distinguishes the ids of results from other records of a comparison.
const resultPart = "result"

// partID returns the id of the result of an item that ended at an ordinal.
func (s *session) partID(item string, end int64) string {
	h := sha256.New()
	_, _ = io.WriteString(h, fmt.Sprintf("%s %d", item, end))
	return s.state.Run + ":part:" + hex.EncodeToString(h.Sum(nil)[:16])
}
