// Package importer brings NDJSON files, as exports and the bulk interface have them, into a cluster:
// the first kind of generic partitioned tasks. A leader cuts the files into windows and keeps a partition
// record for each that is due; workers of any number of processes claim them by position, and
// whoever dies is replaced when its claim runs out.
package importer

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/rfsd/rfsd/rfs/budget"
	"github.com/rfsd/rfsd/rfs/bulk"
	"github.com/rfsd/rfsd/rfs/cms"
	"github.com/rfsd/rfsd/rfs/cms/primitive"
)

// Defaults of an Import.
const (
	DefaultWindow      = 64 << 20
	DefaultLease       = time.Minute
	DefaultMaxAttempts = 10
)

// Types says what becomes of mapping types in action lines; _doc means none.
type Types string

// What is done with types.
const (
	RefuseTypes Types = "AUTO" // documents that have one fail
	EmitTypes   Types = "ON"   // sent as they are, for targets that know types
	DropTypes   Types = "OFF"  // left out: documents of two types with one id become one
)

// Indices is asked before the first document goes to an index.
type Indices interface {
	Ensure(ctx context.Context, name []byte) error
}

// Import is one process's part in an import. All fields but those with a default are needed.
type Import struct {
	Source  Source
	Store   primitive.Store
	Session Session
	Clock   cms.Clock
	Log     *slog.Logger
	Indices Indices
	// Identity binds the session to its destination and to what else two processes must agree on.
	Identity map[string]string
	// Output gives what a window sends through; mayStart is asked before each request.
	Output func(mayStart func() error) (bulk.Sender, error)
	Failed bulk.Recorder
	Bulk   bulk.Options // bounds of one worker's bodies; Sender, Recorder and MayStart are set here

	Workers     int           // windows at the same time; 1
	Window      int64         // bytes of a window of an uncompressed file; DefaultWindow
	Lease       time.Duration // for which a window is claimed; DefaultLease
	MaxAttempts int           // in a row that end without progress; DefaultMaxAttempts
	Unavailable time.Duration // how long the store may not answer; bulk.DefaultGiveUp
	Types       Types         // RefuseTypes
	MaxSource   int64         // the longest source that the target takes, in bytes; 0: not known
	// Memory bounds what long lines hold, beside what else the process holds; nil: a budget of the import's own.
	Memory *budget.Budget
	// Frames bounds how far zstd frames of all slots look back, of MaxBack bytes; nil: a budget of the import's own.
	Frames        *budget.Budget
	IncludeSystem bool // import into indices whose names begin with a dot, too; .ds-… always are

	// AllowPartial imports what there is of an export that is not complete, or of which files lack or differ.
	AllowPartial bool

	// Token names this process and begins the names of all holders of its windows; a random one when empty.
	Token string
	// Place is where this process stands when several on one machine share an entry in the list of nodes.
	Place Place
	// Tell is called whenever a window is claimed, held on to or ended; nil: nobody is told.
	Tell func(Hold)

	locks    *primitive.Locks
	nodes    *primitive.Nodes
	parts    *primitive.Partitions
	claiming chan struct{} // holds who claims
	seen     seen
	files    []file
	digest   string
	digests  []expected // of files that a manifest describes
	exports  exports
	bound    bool
}

// Place is one of the processes that a machine runs side by side. The first of them speaks for all in the list of nodes.
type Place struct {
	Node  string // the machine's entry in the list; the process's own when empty
	Slot  int    // of this process, from 0
	Slots int    // processes of the machine; 1 when 0
}

// Hold is a window that this process has. Left is 0 when it has it no more.
type Hold struct {
	Window string // its number
	Holder string
	File   string
	Number int           // of the file in the sorted list
	Left   time.Duration // for which the store has granted it, from now
}

// seen is what this process did and learned.
type seen struct {
	documents, failed, bytes, windows atomic.Int64
	fleet                             atomic.Pointer[Status]
}

// Status is how far the import of all processes is, as this one saw it last.
type Status struct {
	Totals
	Complete bool      `json:"complete"`
	Problems []Problem `json:"problems"`
}

// Own is what this process did; documents of windows that were lost count, too.
type Own struct {
	Documents int64 // read
	Failed    int64 // of them, those recorded as failed
	Bytes     int64 // of their sources
	Windows   int64
}

// Seen gives the state of the import as of the last look; the zero value before the first.
func (m *Import) Seen() Status {
	if s := m.seen.fleet.Load(); s != nil {
		return *s
	}
	return Status{}
}

// Own gives what this process did.
func (m *Import) Own() Own {
	return Own{Documents: m.seen.documents.Load(), Failed: m.seen.failed.Load(), Bytes: m.seen.bytes.Load(), Windows: m.seen.windows.Load()}
}

func (m *Import) see(s *state) {
	m.seen.fleet.Store(&Status{Totals: s.Totals, Complete: s.complete(), Problems: append([]Problem{}, s.Problems...)})
}

// Run takes part until the import is complete, ctx ends (no error then), or this process cannot go on. It may
// be called once.
func (m *Import) Run(outer context.Context) (Status, error) {
	m.prepare()
	if err := m.survey(outer); err != nil {
		return m.Seen(), unlessEnded(outer, err)
	}
	if err := m.join(outer); err != nil || m.Seen().Complete {
		m.tidy(outer)
		return m.Seen(), unlessEnded(outer, err)
	}
	var all errgroup.Group
	ctx, stop := context.WithCancel(outer)
	defer stop()
	work, ctxWork := errgroup.WithContext(ctx)
	for range m.Workers {
		work.Go(func() error { return m.work(ctxWork) })
	}
	all.Go(func() error {
		defer stop() // who has no work left leads nobody
		return work.Wait()
	})
	all.Go(func() error {
		err := m.lead(ctx)
		if err != nil {
			stop()
		}
		return err
	})
	all.Go(func() error {
		for m.Clock.Sleep(ctx, nodeBeat) == nil {
			if err := m.advertise(ctx); err != nil && ctx.Err() == nil {
				m.Log.Warn("this node could not be advertised", "error", err)
			}
		}
		return nil
	})
	err := all.Wait()
	m.tidy(outer)
	return m.Seen(), unlessEnded(outer, err)
}

// survey lists the files, and refuses what is no whole export.
func (m *Import) survey(ctx context.Context) error {
	s, err := list(ctx, m.Source)
	if err != nil {
		return err
	}
	m.files, m.digest = s.files, digest(s.files)
	var partial []finding
	if m.digests, partial, err = m.judge(ctx, s); err != nil {
		return err
	}
	m.exports = s.exports
	return m.refuse(partial)
}

// unlessEnded drops the error of who was asked to stop.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// join binds the session to this import, reads how far it is and advertises this node, as soon as the store answers.
func (m *Import) join(ctx context.Context) error {
	for silence := m.newSilence(); ; {
		err := m.bind(ctx)
		if err == nil {
			err = m.look(ctx)
		}
		if err == nil && !m.Seen().Complete {
			err = m.advertise(ctx)
		}
		if err == nil {
			return nil
		}
		if err := silence.judge(err); err != nil {
			return err
		}
		if err := m.Clock.Sleep(ctx, firstPause); err != nil {
			return err
		}
	}
}

// tidy removes what is left of partitions when the import is complete: a leader may have died, or been
// stopped, before it did. What stays in spite of that does no harm.
func (m *Import) tidy(ctx context.Context) {
	if !m.Seen().Complete || ctx.Err() != nil {
		return
	}
	all, err := m.parts.List(ctx)
	for i := 0; err == nil && i < len(all); i++ {
		err = m.parts.Remove(ctx, all[i])
	}
	if err != nil {
		m.Log.Warn("records of windows are left in the store", "error", err)
	}
}

func (m *Import) prepare() {
	m.Workers = max(m.Workers, 1)
	if m.Window <= 0 {
		m.Window = DefaultWindow
	}
	if m.Lease <= 0 {
		m.Lease = DefaultLease
	}
	if m.MaxAttempts <= 0 {
		m.MaxAttempts = DefaultMaxAttempts
	}
	if m.Unavailable <= 0 {
		m.Unavailable = bulk.DefaultStallTimeout
	}
	if m.Types == "" {
		m.Types = RefuseTypes
	}
	m.Bulk.EmitType = m.Types == EmitTypes
	if m.Memory == nil {
		m.Memory = budget.New(maxLine, 0)
	}
	if m.Frames == nil {
		m.Frames = budget.New(MaxBack, 0)
	}
	if m.Token == "" {
		m.Token = primitive.Token()
	}
	if m.Place.Node == "" {
		m.Place = Place{Node: m.Token}
	}
	m.Place.Slots = max(m.Place.Slots, 1)
	if m.Tell == nil {
		m.Tell = func(Hold) {}
	}
	m.claiming = make(chan struct{}, 1)
	m.locks = &primitive.Locks{Store: m.Store, Clock: m.Clock}
	m.nodes = &primitive.Nodes{Store: m.Store, Clock: m.Clock}
	m.parts = &primitive.Partitions{Locks: m.locks, Prefix: prefix}
}

func (m *Import) advertise(ctx context.Context) error {
	if m.Place.Slot > 0 {
		return nil
	}
	return m.nodes.Advertise(ctx, primitive.Node{Token: m.Place.Node, Workers: m.Workers * m.Place.Slots, Task: kind})
}
