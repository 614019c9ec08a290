package cms

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
)

// Config of a Coordinator. Zero values of durations and counts mean the defaults.
type Config struct {
	Store Store
	Clock timing.Clock
	// Kind is the kind of the items in Store; "" for shards.
	Kind string
	// SetupTask is the task of the setup item if this process creates it: settings that all seeding processes share. "": none.
	SetupTask string
	// Creator is written into the items that this process creates.
	Creator       string
	InitialLease  time.Duration // default 10 min
	MaxLease      time.Duration // default 6 h
	MaxAttempts   int           // in a row without progress, after which an item is leased to work on alone; default 5
	SkewTolerance time.Duration // 0 = off
	// MinExponent is the minimum lease exponent of the items that this process creates. It keeps the hand-offs of big fleets from loading
	// the store. 0 = none.
	MinExponent int
	// Tries limits the candidates of one search that AcquireNext tries before it returns a *NoneAvailable; 0: all, of several searches.
	Tries int
	// Rand is the source of jitter; nil means a fresh seed.
	Rand *rand.Rand
}

// Coordinator applies the protocol for one process. It is safe for concurrent use
// by several slots; each acquisition gets a holder id of its own.
type Coordinator struct {
	store   Store
	clock   timing.Clock
	cfg     Config
	grace   time.Duration
	seq     atomic.Int64
	seeded  atomic.Bool
	retries retrier
	store95 timing.Latencies
	debts   debts
	ended   endedItems
	leases  *Leases
}

// New returns a Coordinator.
func New(cfg Config) *Coordinator {
	if cfg.InitialLease <= 0 {
		cfg.InitialLease = timing.DefaultInitialLease
	}
	if cfg.MaxLease <= 0 {
		cfg.MaxLease = timing.DefaultMaxLease
	}
	cfg.MaxLease = max(cfg.MaxLease, cfg.InitialLease)
	if cfg.MaxAttempts <= 0 {
		cfg.MaxAttempts = timing.DefaultMaxAttempts
	}
	if cfg.Clock == nil {
		cfg.Clock = timing.SystemClock()
	}
	c := &Coordinator{store: cfg.Store, clock: cfg.Clock, cfg: cfg, grace: timing.Grace(cfg.InitialLease)}
	c.retries = retrier{clock: cfg.Clock, rand: newJitter(cfg.Rand), contended: cfg.Tries > 0}
	c.leases = &Leases{store: cfg.Store, clock: cfg.Clock, retries: c.retries, budget: readBudget}
	return c
}

// Store returns the store of the items.
func (c *Coordinator) Store() Store { return c.store }

// Leases returns the records of the store and their leases.
func (c *Coordinator) Leases() *Leases { return c.leases }

// Config returns the configuration with the defaults applied.
func (c *Coordinator) Config() Config { return c.cfg }

// Kind returns the kind of the items; "" for shards.
func (c *Coordinator) Kind() string { return c.cfg.Kind }

// OfKind returns a Coordinator of the items of another kind of the same session.
func (c *Coordinator) OfKind(ctx context.Context, kind string) (*Coordinator, error) {
	store, err := c.store.OfKind(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("items of kind %q: %w", kind, err)
	}
	cfg := c.cfg
	cfg.Store, cfg.Kind, cfg.SetupTask = store, kind, ""
	return New(cfg), nil
}

func (c *Coordinator) setup() string { return SetupOf(c.cfg.Kind) }

// SeedItems creates the items that do not exist yet and returns how many it created.
func (c *Coordinator) SeedItems(ctx context.Context, ids iter.Seq[ItemID]) (created int, err error) {
	return c.SeedRoots(ctx, func(yield func(Root) bool) {
		for id := range ids {
			if !yield(Root{ID: id}) {
				return
			}
		}
	})
}

// SeedRoots is SeedItems with the task and the end of each item.
func (c *Coordinator) SeedRoots(ctx context.Context, roots iter.Seq[Root]) (created int, err error) {
	return c.createAll(ctx, func(yield func(Item) bool) {
		for r := range roots {
			r.ID.Kind = c.cfg.Kind
			it := NewItem(r.ID.String(), c.cfg.Creator, c.cfg.MinExponent)
			if c.cfg.Kind != "" || r.End != 0 {
				it = newOf(it.ID, r, c.cfg.Creator, max(r.Exponent, c.cfg.MinExponent))
			}
			it.IndexName = r.ID.Index
			if !yield(it) {
				return
			}
		}
	})
}

func (c *Coordinator) create(ctx context.Context, items []Item) (created int, err error) {
	err = c.retries.do(ctx, createBudget, func(ctx context.Context) error {
		n, err := c.timedCreate(ctx, items)
		created += n
		return err
	})
	if err != nil {
		return created, fmt.Errorf("create %d work items: %w", len(items), err)
	}
	return created, nil
}

// AcquireSetup leases the right to seed. It returns ErrSetupDone when seeding is complete, ErrForeign when another tool did it, and a
// *NoneAvailable with the holder and the end of its lease while another process seeds.
func (c *Coordinator) AcquireSetup(ctx context.Context, holder string) (*Lease, error) {
	c.repay(ctx)
	it, err := c.get(ctx, c.setup())
	if errors.Is(err, ErrNotFound) {
		it := NewItem(c.setup(), c.cfg.Creator, 0)
		it.Kind, it.Task = c.cfg.Kind, c.cfg.SetupTask
		if _, err := c.create(ctx, []Item{it}); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, fmt.Errorf("read %s: %w", c.setup(), err)
	}
	if err := it.foreign(); err != nil {
		return nil, err
	}
	if !it.Open() {
		return nil, ErrSetupDone
	}
	l, it, v, err := c.acquire(ctx, c.setup(), holder, timing.SetupLease(c.cfg.InitialLease), 0)
	switch {
	case err != nil:
		return nil, err
	case v == Done:
		return nil, ErrSetupDone
	case v == Held:
		return nil, &NoneAvailable{Holder: it.Holder, NextExpiry: time.Unix(it.Expiration, 0).Add(c.grace), Open: 1}
	}
	return l, nil
}

// CheckSetup returns ErrForeign for a queue that another tool created, and ErrSchemaMismatch for another version of the protocol.
func (c *Coordinator) CheckSetup(ctx context.Context) error {
	it, err := c.get(ctx, SetupID)
	switch {
	case errors.Is(err, ErrNotFound):
		return nil
	case err != nil:
		return fmt.Errorf("read %s: %w", SetupID, err)
	case it.ScriptVersion != ScriptVersion:
		return fmt.Errorf("%s has version %q: %w", SetupID, it.ScriptVersion, ErrSchemaMismatch)
	}
	return it.foreign()
}

// SeedOnce runs seed in one process at a time until one has completed it, and returns when it is completed. waiting, if not nil, is called
// repeatedly with the holder of the lease while another process seeds. When seed fails, SeedOnce releases the lease and returns the error.
// It returns ErrForeign for a queue that another tool seeded.
func (c *Coordinator) SeedOnce(ctx context.Context, holder string, seed func(context.Context) error, waiting func(*NoneAvailable)) error {
	return c.SeedLeased(ctx, holder, func(ctx context.Context, _ *Lease) error { return seed(ctx) }, waiting)
}

// SeedLeased is SeedOnce with a seed that gets the lease it works under.
func (c *Coordinator) SeedLeased(ctx context.Context, holder string, seed func(context.Context, *Lease) error, waiting func(*NoneAvailable)) error {
	for {
		l, err := c.AcquireSetup(ctx, holder)
		var busy *NoneAvailable
		switch {
		case errors.Is(err, ErrSetupDone):
			c.seeded.Store(true)
			return nil
		case errors.As(err, &busy):
			if waiting != nil {
				waiting(busy)
			}
			if err := c.clock.Sleep(ctx, c.retries.rand.between(500*time.Millisecond, 1500*time.Millisecond)); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		if err := seed(ctx, l); err != nil {
			rctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
			defer cancel() //nolint:revive // the function returns here
			return errors.Join(err, l.Release(rctx, CauseDrain))
		}
		if err := l.Complete(ctx, Work{}); err != nil && !errors.Is(err, fault.ErrLeaseLost) {
			return err
		}
	}
}

// Event stores an event once; emitted reports whether this call did. A subject that is the id of a work item is shown as its
// index and shard.
func (c *Coordinator) Event(ctx context.Context, subject, code, detail string) (emitted bool, err error) {
	r, err := eventRecord(subject, code, detail)
	if err != nil {
		return false, err
	}
	return c.leases.Create(ctx, r)
}

func eventRecord(subject, code, detail string) (Record, error) {
	shown := map[string]string{"subject": subject, "code": code, "detail": detail}
	if id, err := ParseID(subject); err == nil {
		shown["subject"], shown["item"] = id.Name(), subject
	}
	body, err := json.Marshal(shown)
	if err != nil {
		return Record{}, fmt.Errorf("event %s: %w", code, err)
	}
	return Record{ID: KindEvent + ":" + EventKey(subject) + ":" + code, Kind: KindEvent, State: code, Body: body}, nil
}

// EventKey returns the part of an event's id that identifies its subject: base64url, or
// a hash when that would make the id too long.
func EventKey(subject string) string {
	if k := NameKey(subject); len(k) <= 320 {
		return k
	}
	sum := sha256.Sum256([]byte(subject))
	return hex.EncodeToString(sum[:])
}

// Pending counts the open items.
func (c *Coordinator) Pending(ctx context.Context) (int64, error) {
	o, err := c.open(ctx)
	return o.Items, err
}

// Items yields every work item, without SetupID.
func (c *Coordinator) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for it, err := range c.scan(ctx) {
			if err == nil && IsSetup(it.ID) {
				continue
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// Item reads one work item as it is now.
func (c *Coordinator) Item(ctx context.Context, id ItemID) (Item, error) {
	return c.get(ctx, id.String())
}

// SetupTask returns the task of the setup as the process that created it has stored it, or ErrNotFound.
func (c *Coordinator) SetupTask(ctx context.Context) (string, error) {
	it, err := c.get(ctx, c.setup())
	if err != nil {
		return "", fmt.Errorf("read %s: %w", c.setup(), err)
	}
	return it.Task, nil
}

// Seeded reports whether every item has been created. If the store has lost that record, later acquisitions treat the items as unseeded.
func (c *Coordinator) Seeded(ctx context.Context) (bool, error) {
	it, err := c.get(ctx, c.setup())
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, fmt.Errorf("read %s: %w", c.setup(), err)
	}
	seeded := err == nil && !it.Open()
	c.seeded.Store(seeded) // the store may have lost what it acknowledged
	return seeded, nil
}

// Reopen opens a FAILED item of any kind again and records it as an event.
func (c *Coordinator) Reopen(ctx context.Context, id ItemID, operator string) error {
	if id.Kind != c.cfg.Kind {
		of, err := c.OfKind(ctx, id.Kind)
		if err != nil {
			return err
		}
		return of.Reopen(ctx, id, operator)
	}
	it, v, err := c.apply(ctx, readBudget, id.String(), Reopen{})
	switch {
	case err != nil:
		return fmt.Errorf("retry %s (item %s): %w", id.Name(), id, err)
	case v == Foreign:
		return ErrSchemaMismatch
	case v != Applied:
		return fmt.Errorf("%s (item %s) is not FAILED (%s): %w", id.Name(), id, v, fault.ErrConfig)
	}
	return c.audited(ctx, it.ID, "retried", operator)
}

// Cancel marks an open item of any kind FAILED on an operator's command and records it as an event, so that the migration can end without
// it. Reopen opens it again. Cancel returns fault.ErrConfig while the item is leased, after its end, and in the middle of a hand-off.
func (c *Coordinator) Cancel(ctx context.Context, id ItemID, operator string) error {
	if id.Kind != c.cfg.Kind {
		of, err := c.OfKind(ctx, id.Kind)
		if err != nil {
			return err
		}
		return of.Cancel(ctx, id, operator)
	}
	it, v, err := c.apply(ctx, readBudget, id.String(), Fail{Reason: "cancelled by " + operator, GraceMs: c.grace.Milliseconds()})
	switch {
	case err != nil:
		return fmt.Errorf("cancel %s (item %s): %w", id.Name(), id, err)
	case v == Foreign:
		return ErrSchemaMismatch
	case v == Held: // stores do not return an item that they did not change
		if it, err = c.Item(ctx, id); err != nil {
			return fmt.Errorf("cancel %s: %w", id.Name(), err)
		}
		return fmt.Errorf("%s (item %s) is leased by %s: pause the migration, or end that worker, and cancel it then: %w", id.Name(), id, it.Holder, fault.ErrConfig)
	case v == Mismatch:
		return fmt.Errorf("%s (item %s) is in the middle of a hand-off: the next worker ends it, cancel its successor then: %w", id.Name(), id, fault.ErrConfig)
	case v != Applied:
		return fmt.Errorf("%s (item %s) is not open (%s): %w", id.Name(), id, v, fault.ErrConfig)
	}
	return c.audited(ctx, it.ID, "cancelled", operator)
}

// audited records what an operator did to an item.
func (c *Coordinator) audited(ctx context.Context, id, did, operator string) error {
	now, _, err := c.store.Now(ctx)
	if err != nil {
		return fmt.Errorf("record that %s was %s: %w", ItemName(id), did, err)
	}
	_, err = c.Event(ctx, id, did+"-"+strconv.FormatInt(now.UnixMilli(), 10), operator)
	return err
}

// ReleaseHolder releases the lease of a process that is proven dead, such as a child after its parent waited for its exit.
func (c *Coordinator) ReleaseHolder(ctx context.Context, id, holder string, cause Cause) error {
	_, v, err := c.apply(ctx, readBudget, id, Release{Holder: holder, Cause: string(cause), Counted: cause.counted()})
	if err != nil {
		return fmt.Errorf("release %s: %w", ItemName(id), err)
	}
	if v == Foreign {
		return ErrSchemaMismatch
	}
	return nil
}

// FailIndex marks every open item of an index FAILED unless a running lease holds it, and returns how many it marked. The holders of the
// others notice by themselves.
func (c *Coordinator) FailIndex(ctx context.Context, index, reason string) (failed int, err error) {
	for it, err := range c.Items(ctx) {
		if err != nil {
			return failed, fmt.Errorf("fail items of %s: %w", index, err)
		}
		id, perr := it.Range()
		if perr != nil || id.Index != index || !it.Open() {
			continue
		}
		_, v, err := c.apply(ctx, readBudget, it.ID, Fail{Reason: reason, GraceMs: c.grace.Milliseconds()})
		if err != nil {
			return failed, fmt.Errorf("fail %s: %w", id.Name(), err)
		}
		if v == Applied {
			failed++
			if _, err := c.Event(ctx, it.ID, "failed", reason); err != nil {
				return failed, err
			}
		}
	}
	return failed, nil
}

func (c *Coordinator) get(ctx context.Context, id string) (it Item, err error) {
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		it, err = c.store.Get(ctx, id)
		return err
	})
	return it, err
}

func (c *Coordinator) open(ctx context.Context) (o Open, err error) {
	err = c.retries.do(ctx, readBudget, func(ctx context.Context) error {
		o, err = c.store.Open(ctx)
		return err
	})
	if err != nil {
		return o, fmt.Errorf("count open work items: %w", err)
	}
	return o, nil
}

// apply retries a transition that is safe to repeat.
func (c *Coordinator) apply(ctx context.Context, b retry.Policy, id string, t Transition) (it Item, v Result, err error) {
	err = c.retries.do(ctx, b, func(ctx context.Context) error {
		begin := c.clock.Read().Mono
		it, v, err = c.store.Apply(ctx, id, t)
		c.store95.Add(c.clock.Read().Mono - begin)
		return err
	})
	return it, v, err
}

func (c *Coordinator) timedCreate(ctx context.Context, items []Item) (created int, err error) {
	begin := c.clock.Read().Mono
	created, err = c.store.Create(ctx, items)
	c.store95.Add(c.clock.Read().Mono - begin)
	return created, err
}
