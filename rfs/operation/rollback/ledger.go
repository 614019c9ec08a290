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

	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/session"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
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
	object           // UUID and aliases only
	marked    bool   // it has the mark of the session
	otherName string // otherwise: of the session in a mark that has its token
}

// read returns the current object on the target.
func read(ctx context.Context, api rest.API, mark objects.Mark, kind, name string, scratch bool) (found, error) {
	if kind == Index || kind == DataStream {
		p, err := look(ctx, api, kind, name)
		as := kind
		if scratch && kind == Index {
			as = objects.ScratchMark
		}
		is := marked(mark, as, name, p.meta)
		is.object = object{UUID: p.uuid, Aliases: p.aliases}
		return is, err
	}
	b, err := readObject(ctx, api, metadata.Kind(kind), name)
	return marked(mark, kind, name, b), err
}

// marked returns what the mark of an object shows.
func marked(mark objects.Mark, kind, name string, object json.RawMessage) found {
	if mark.Matches(kind, name, object) {
		return found{marked: true}
	}
	return found{otherName: mark.OtherName(kind, name, object)}
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
