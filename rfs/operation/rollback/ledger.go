package rollback

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// Ledger records the objects that a session creates on its target: the name of an object that the target does not have,
// before the object is created, and its UUID afterwards. A process that dies in between leaves an intent,
// whose outcome is determined from the target.
type Ledger struct {
	API      rest.API
	Records  Records
	Identity Identity
	Session  string // its name
	Log      *slog.Logger

	mu   sync.Mutex
	mark objects.Mark
}

// NewLedger returns the Ledger of the session with a name, whose coordinator is c.
func NewLedger(api rest.API, c *cms.Coordinator, name string, log *slog.Logger) *Ledger {
	return &Ledger{API: api, Records: session.CreatedOf(c), Identity: session.IdentityOf(c), Session: name, Log: log}
}

// Mark returns the mark of the session's objects. It reads the token once.
func (l *Ledger) Mark(ctx context.Context) (objects.Mark, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mark.Token == "" {
		token, err := l.Identity.Mark(ctx)
		if err != nil {
			return objects.Mark{}, err
		}
		l.mark = objects.Mark{Session: l.Session, Token: token}
	}
	return l.mark, nil
}

// Owns reports whether an index or data stream has the mark of the session; false if it does not exist.
func (l *Ledger) Owns(ctx context.Context, name string) (bool, error) {
	for _, scratch := range []bool{false, true} {
		is, err := l.read(ctx, Index, name, scratch)
		if err == nil && is.marked {
			return true, nil
		}
		if err != nil && !errors.Is(err, errAbsent) && !errors.Is(err, errOther) {
			return false, err
		}
	}
	stream, err := objects.FindStream(ctx, l.API, name)
	if err != nil || stream == nil {
		return false, err
	}
	is, err := l.read(ctx, DataStream, name, false)
	if errors.Is(err, errAbsent) || errors.Is(err, errOther) {
		return false, nil
	}
	return is.marked, err
}

// Intend records that the session is about to create an object that the target does not have. It returns session.ErrUndone if the
// session is being undone.
func (l *Ledger) Intend(ctx context.Context, kind, name string) error {
	return l.intend(ctx, kind, name, object{})
}

// intend records an object that is about to be created, with its known properties.
func (l *Ledger) intend(ctx context.Context, kind, name string, o object) error {
	if err := l.Identity.CheckUndone(ctx); err != nil {
		return err
	}
	_, err := l.Records.Change(ctx, kind, name, func(c session.Creation, now time.Time) (session.Creation, bool) {
		c.Since = earlier(c, now)
		c.State, c.Body = session.CreationIntended, o.encode()
		return c, true
	})
	return err
}

// earlier returns the time of a pending intent, else now.
func earlier(c session.Creation, now time.Time) time.Time {
	if c.State == session.CreationIntended {
		return c.Since
	}
	return now
}

// Withdraw removes an intent whose object was not created. A confirmed object stays.
func (l *Ledger) Withdraw(ctx context.Context, kind, name string) error {
	c, err := l.Records.Read(ctx, kind, name)
	switch {
	case errors.Is(err, cms.ErrNotFound):
		return nil
	case err != nil:
		return err
	case c.State != session.CreationIntended:
		return nil
	}
	return l.Records.Forget(ctx, kind, name)
}

// Decide completes the intent of an object that exists with the mark of the session, or removes the intent if the object lacks the
// mark. Other records stay.
func (l *Ledger) Decide(ctx context.Context, kind, name string) error {
	c, err := l.Records.Read(ctx, kind, name)
	if errors.Is(err, cms.ErrNotFound) {
		return nil
	}
	if err != nil || c.State != session.CreationIntended {
		return err
	}
	was, err := decodeObject(c)
	if err != nil {
		return err
	}
	is, err := l.read(ctx, kind, name, was.Scratch)
	switch {
	case errors.Is(err, errAbsent), err == nil && !is.marked && kind == DataStream: // List shows these
		return nil
	case errors.Is(err, errOther), err == nil && !is.marked && objects.CanCarry(kind):
		l.Log.InfoContext(ctx, "object is not this session's", "kind", kind, "name", name)
		return l.Records.Forget(ctx, kind, name)
	case err != nil:
		return err
	}
	return l.confirm(ctx, kind, name, is.object)
}

// Confirm completes the record of an object after the target has acknowledged its creation.
func (l *Ledger) Confirm(ctx context.Context, kind, name string) error {
	return l.confirmAs(ctx, kind, name, false)
}

func (l *Ledger) confirmAs(ctx context.Context, kind, name string, scratch bool) error {
	is, err := l.read(ctx, kind, name, scratch)
	switch {
	case errors.Is(err, errAbsent), errors.Is(err, errOther):
		return nil // removed since
	case err != nil:
		return err
	case !is.marked && objects.CanCarry(kind):
		l.Log.WarnContext(ctx, "a created object does not carry the mark of the session: `rfsctl undo` will not remove it", "kind", kind, "name", name)
		return nil
	}
	return l.confirm(ctx, kind, name, is.object)
}

func (l *Ledger) read(ctx context.Context, kind, name string, scratch bool) (found, error) {
	mark, err := l.Mark(ctx)
	if err != nil {
		return found{}, err
	}
	return read(ctx, l.API, mark, kind, name, scratch)
}

func (l *Ledger) confirm(ctx context.Context, kind, name string, is object) error {
	_, err := l.Records.Change(ctx, kind, name, func(c session.Creation, _ time.Time) (session.Creation, bool) {
		was, err := decodeObject(c)
		if c.State == session.CreationDone && err == nil && was.UUID == is.UUID && is.UUID != "" {
			return c, false // another process of the session was faster
		}
		is.Scratch = was.Scratch
		c.State, c.Body = session.CreationDone, is.encode()
		return c, true
	})
	return err
}

// found is an object on the target.
type found struct {
	object      // UUID and aliases only
	marked bool // it has the mark of the session
}

// read returns the current object on the target.
func read(ctx context.Context, api rest.API, mark objects.Mark, kind, name string, scratch bool) (found, error) {
	if kind == Index || kind == DataStream {
		p, err := look(ctx, api, kind, name)
		as := kind
		if scratch && kind == Index {
			as = objects.ScratchMark
		}
		return found{object{UUID: p.uuid, Aliases: p.aliases}, mark.Matches(as, name, p.meta)}, err
	}
	b, err := readObject(ctx, api, metadata.Kind(kind), name)
	return found{marked: mark.Matches(kind, name, b)}, err
}

// readObject returns the current definition of an object other than an index.
func readObject(ctx context.Context, api rest.API, kind metadata.Kind, name string) (json.RawMessage, error) {
	if err := objects.CheckName(string(kind), name); err != nil {
		return nil, err
	}
	var b json.RawMessage
	if err := get(ctx, api, objects.ObjectPath(kind, name), nil, &b); err != nil {
		return nil, err
	}
	return objects.Object(kind, name, b)
}

// Discard removes an index with a UUID that the session created, and its record, under the conditions of an undo. It returns false if
// the session has no record of it, and fault.ErrConfig with the reason if an undo would not remove it.
func (l *Ledger) Discard(ctx context.Context, index, uuid string) (bool, error) {
	c, err := l.Records.Read(ctx, Index, index)
	if errors.Is(err, cms.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if was, err := decodeObject(c); err != nil || was.UUID != uuid {
		return false, err
	}
	mark, err := l.Mark(ctx)
	if err != nil {
		return false, err
	}
	return true, (&Undo{API: l.API, Records: l.Records, Mark: mark}).discard(ctx, c)
}

// IntendAliases records aliases that are about to be set on an index of the session.
func (l *Ledger) IntendAliases(ctx context.Context, index string, aliases json.RawMessage) error {
	var all map[string]json.RawMessage
	if err := json.Unmarshal(aliases, &all); err != nil {
		return nil //nolint:nilerr // the target rejects them
	}
	return l.change(ctx, index, func(o *object) {
		o.Aliases = slices.Compact(slices.Sorted(slices.Values(slices.AppendSeq(o.Aliases, maps.Keys(all)))))
	})
}

// change edits the record of a confirmed index.
func (l *Ledger) change(ctx context.Context, index string, f func(*object)) error {
	_, err := l.Records.Change(ctx, Index, index, func(c session.Creation, _ time.Time) (session.Creation, bool) {
		o, err := decodeObject(c)
		if c.State != session.CreationDone || err != nil {
			return c, false
		}
		f(&o)
		c.Body = o.encode()
		return c, true
	})
	return err
}

// IntendRepository records that a repository is about to be registered on the source. first is false if an earlier process
// of the session has recorded it.
func (l *Ledger) IntendRepository(ctx context.Context, name string) (first bool, err error) {
	return l.Records.Change(ctx, Repository, name, func(c session.Creation, now time.Time) (session.Creation, bool) {
		if c.State != "" {
			return c, false
		}
		c.State, c.Since = session.CreationIntended, now
		return c, true
	})
}

// RegisteredRepository records that the session registered a repository, or removes the intent if the source already had it.
func (l *Ledger) RegisteredRepository(ctx context.Context, name string, first, registered bool) error {
	switch {
	case registered:
		_, err := l.Records.Change(ctx, Repository, name, func(c session.Creation, _ time.Time) (session.Creation, bool) {
			c.State = session.CreationDone
			return c, true
		})
		return err
	case first:
		return l.Withdraw(ctx, Repository, name)
	}
	return nil
}

// Own is the number of operations of documents of the session.
type Own struct {
	Targets    []string // indices that received only these documents
	Operations int64    // sequence numbers that the documents used in all of these indices
}

// Seal records the sequence numbers of the created indices at the end of the migration: higher numbers are later writes. A
// recorded number is never replaced, so Seal may be repeated. If own has fewer operations than the indices have used,
// Seal records the difference as operations of other clients, in the same change: a process killed between two changes leaves no
// index with recorded numbers but without the operations of other clients. Numbers that cannot be read stay unknown.
func (l *Ledger) Seal(ctx context.Context, own ...Own) error {
	var all []reading
	used := map[string]int64{}
	open := func(c session.Creation, was object) bool {
		used[c.Name] = operations(was.Sequence) - was.Beside
		return was.Sequence == nil
	}
	err := l.sequences(ctx, open, func(c session.Creation, was object, is map[string]int64) error {
		used[c.Name] = operations(is) - was.Beside
		all = append(all, reading{c, was, is})
		return nil
	})
	if err != nil {
		return err
	}
	foreign := map[string]int64{}
	for _, o := range own {
		n, known := -o.Operations, true
		for _, name := range o.Targets {
			now, read := used[name]
			n, known = n+now, known && read
		}
		for _, name := range o.Targets {
			if known && n > 0 {
				foreign[name] = n
			}
		}
	}
	for _, r := range all {
		err := l.record(ctx, r.c, r.was, func(o object) (object, bool) {
			if o.Touched || o.Sequence != nil {
				return o, false
			}
			o.Sequence, o.Foreign = r.is, foreign[r.c.Name]
			return o, true
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// sealed returns a function that reports whether the sequence numbers of an index are recorded, and its name is in names or names is
// empty.
func sealed(names []string) func(session.Creation, object) bool {
	named := map[string]bool{}
	for _, name := range names {
		named[name] = true
	}
	return func(c session.Creation, was object) bool {
		return was.Sequence != nil && (len(names) == 0 || named[c.Name])
	}
}

// Written returns the indices, by name, that were written to after the migration ended, with a description of the difference. It
// leaves out indices that the session did not create, and indices that an earlier Unseal has marked.
func (l *Ledger) Written(ctx context.Context, names []string) (map[string]string, error) {
	written := map[string]string{}
	if len(names) == 0 {
		return written, nil
	}
	is := sealed(names)
	return written, l.sequences(ctx, func(c session.Creation, was object) bool { return is(c, was) && !was.Touched }, func(c session.Creation, was object, is map[string]int64) error {
		if d := since(was.Sequence, is); d != "" {
			written[c.Name] = d
		}
		return nil
	})
}

// Unseal must be called before documents are sent to the named indices after the migration has ended; without names, to any created
// index. It marks indices that were written to since the end, since later sequence numbers cannot be attributed.
func (l *Ledger) Unseal(ctx context.Context, names ...string) error {
	return l.each(ctx, sealed(names), func(_ session.Creation, was object, is map[string]int64) (object, bool) {
		switch {
		case was.Sequence == nil:
			return was, false
		case since(was.Sequence, is) != "":
			was.Touched = true // Sequence stays
			return was, true
		}
		was.Sequence = nil
		return was, !was.Touched
	})
}

// Around runs work that sends documents of the session outside its phases. Afterwards it seals indices again that had no
// other writes since the migration ended. If the process is killed, the former seal stays, and the documents count as
// written after the migration.
func (l *Ledger) Around(ctx context.Context, work func() error) error {
	untouched := map[string]map[string]int64{}
	err := l.each(ctx, sealed(nil), func(c session.Creation, was object, is map[string]int64) (object, bool) {
		switch {
		case was.Sequence == nil || was.Touched:
			return was, false
		case since(was.Sequence, is) != "":
			was.Touched = true
			return was, true
		}
		untouched[c.Name] = was.Sequence
		return was, false
	})
	if err != nil {
		return err
	}
	err = work()
	return errors.Join(err, l.each(ctx, func(c session.Creation, _ object) bool { return untouched[c.Name] != nil }, func(c session.Creation, was object, is map[string]int64) (object, bool) {
		before := untouched[c.Name]
		if before == nil || was.Touched || !maps.Equal(before, was.Sequence) {
			return was, false
		}
		was.Beside += operations(is) - operations(before)
		was.Sequence = is
		return was, true
	}))
}

// operations returns the number of used sequence numbers, given the highest one of each shard.
func operations(sequence map[string]int64) (n int64) {
	for _, highest := range sequence {
		n += highest + 1
	}
	return n
}

// each changes the record of each wanted index, given its current sequence numbers.
func (l *Ledger) each(ctx context.Context, wanted func(session.Creation, object) bool, f func(c session.Creation, was object, is map[string]int64) (object, bool)) error {
	return l.sequences(ctx, wanted, func(c session.Creation, was object, is map[string]int64) error {
		return l.record(ctx, c, was, func(o object) (object, bool) { return f(c, o, is) })
	})
}

// sequenceReaders limits the concurrent requests for sequence numbers.
const sequenceReaders = 8

// reading is the record of an index, with its current sequence numbers.
type reading struct {
	c   session.Creation
	was object
	is  map[string]int64
}

// sequences calls f sequentially with the record of each wanted confirmed index and its current sequence numbers,
// unless they cannot be read.
func (l *Ledger) sequences(ctx context.Context, wanted func(session.Creation, object) bool, f func(c session.Creation, was object, is map[string]int64) error) error {
	var all []reading
	for c, err := range l.Records.All(ctx) {
		if err != nil {
			return err
		}
		if (c.Kind != Index && c.Kind != DataStream) || c.State != session.CreationDone {
			continue
		}
		was, err := decodeObject(c)
		if err != nil {
			return err
		}
		if wanted(c, was) {
			all = append(all, reading{c: c, was: was})
		}
	}
	g, gctx := errgroup.WithContext(ctx)
	g.SetLimit(sequenceReaders)
	for i := range all {
		g.Go(func() (err error) {
			all[i].is, err = Sequence(gctx, l.API, all[i].c.Name)
			switch {
			case errors.Is(err, errAbsent), errors.Is(err, target.ErrNotAnswered): // an undo states the reason
				return nil
			case errors.Is(err, fault.ErrConfig), errors.Is(err, fault.ErrRejected):
				l.Log.WarnContext(ctx, "sequence numbers are unknown; `rfsctl undo` will refuse the index", "index", all[i].c.Name, "reason", err.Error())
				return nil
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, r := range all {
		if r.is == nil {
			continue
		}
		if err := f(r.c, r.was, r.is); err != nil {
			return err
		}
	}
	return nil
}

// record changes the record of a confirmed index, unless another index has its name now. was is the record when it was read.
func (l *Ledger) record(ctx context.Context, c session.Creation, was object, f func(object) (object, bool)) error {
	if _, changed := f(was); !changed {
		return nil
	}
	_, err := l.Records.Change(ctx, c.Kind, c.Name, func(c session.Creation, _ time.Time) (session.Creation, bool) {
		o, err := decodeObject(c)
		if err != nil || c.State != session.CreationDone || o.UUID != was.UUID {
			return c, false
		}
		o, changed := f(o)
		c.Body = o.encode()
		return c, changed
	})
	return err
}
