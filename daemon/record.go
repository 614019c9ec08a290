package daemon

import (
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Record is one line of JSON that a worker writes to its status pipe: its holder at the start, its
// lease when it has one, periodic samples, and its result (with Exit) as the last line.
type Record struct {
	Holder string          `json:"holder,omitempty"` // prefix of the holders of all its leases
	Lease  *Lease          `json:"lease,omitempty"`
	Phase  *WorkerPhase    `json:"phase,omitempty"` // on each change of the worker's phase or state
	Sample *metrics.Sample `json:"sample,omitempty"`

	Exit    *int       `json:"exit,omitempty"` // exit code of the process
	Outcome string     `json:"outcome,omitempty"`
	Item    string     `json:"item,omitempty"`
	Counts  cms.Counts `json:"counts,omitzero"`
	Error   string     `json:"error,omitempty"`
	Gone    bool       `json:"gone,omitempty"` // the coordination store was deleted: another worker would start over
	// Next are the successors of the item, which can be continued without a search.
	Next []string `json:"next,omitempty"`
	// Rate is the number of the last command of a rate that the worker follows.
	Rate     int64 `json:"rate,omitempty"`
	ReadRate int64 `json:"read_rate,omitempty"` // the same of the rate of reading
	// NextMs is set with code 4: the time in ms, by the store's clock, until an item may become free.
	NextMs int64 `json:"next_ms,omitempty"`
}

// WorkerPhase is the phase that a worker acts on, and the state of the phase's record.
type WorkerPhase struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Lease is the lease of a worker: an item of a migration or a window of an import. Without Item the worker
// has none for now.
type Lease struct {
	Item   string `json:"item"`
	Holder string `json:"holder"`
	Index  string `json:"index,omitempty"`
	Shard  int    `json:"shard,omitempty"`
	// LeftMs is the remaining time of the lease when the record is written, in ms, as the store granted it.
	LeftMs int64 `json:"left_ms"`
}

// subject returns the lease's name for messages, and the item's id for commands, "" without one.
func (l *Lease) subject() (name, item string) {
	if l == nil || l.Item == "" {
		return "worker", ""
	}
	if id, err := cms.ParseID(l.Item); err == nil {
		return id.Name(), l.Item
	}
	if l.Index != "" {
		return "file " + l.Index + " window " + l.Item, l.Item
	}
	return l.Item, l.Item
}

// WorkerCommand is one line of JSON that the daemon writes to a worker: first the options, later
// changes. When the pipe is closed the daemon has ended: the worker hands off and ends.
type WorkerCommand struct {
	Options  map[string][]string `json:"options,omitempty"`   // name of a flag → its values
	Round    json.RawMessage     `json:"round,omitempty"`     // with the options: the round of a cluster that is followed
	Holder   string              `json:"holder,omitempty"`    // with the options: the prefix of the holders of all leases; "": the worker chooses one
	Prefer   []string            `json:"prefer,omitempty"`    // with the options: items to try before a search
	Exponent int                 `json:"exponent,omitempty"`  // with the options: least lease exponent of new items
	Rate     *RateCommand        `json:"rate,omitempty"`      // of sending; absent at first: no limit
	ReadRate *RateCommand        `json:"read_rate,omitempty"` // of reading the repository, likewise
	Pace     *Pace               `json:"pace,omitempty"`
	Set      *session.Limits     `json:"set,omitempty"`       // limits that an operator has set; a worker takes the latency of the target from them
	LogLevel string              `json:"log_level,omitempty"` // debug, info, warn, error
	Slot     int                 `json:"slot,omitempty"`      // with the options: which of the node's workers it is
	Every    time.Duration       `json:"sample_ns,omitempty"` // with the options: interval of samples
	Tries    int                 `json:"tries,omitempty"`     // with the options: most items of a search that are tried; 0: all
	Record   time.Duration       `json:"record_ns,omitempty"` // with the options: interval in which progress is recorded; 0: the default
}

// RateCommand is the rate that a worker may send with, or read with. The worker follows the command with the highest number, and reports that number.
type RateCommand struct {
	Number         int64 `json:"number"`
	BytesPerSecond int64 `json:"bytes_per_second"` // 0: nothing; primitive.Unlimited: no limit
	// LeftMs and Until limit the command, whichever comes first: ms from when the command is read, and epoch ms by the
	// machine's clock. Without Until, the command has no end.
	LeftMs int64 `json:"left_ms,omitempty"`
	Until  int64 `json:"until,omitempty"`
}

// Left returns a function that returns the time that is left of the command, from now on; nil: it has no end.
func (c RateCommand) Left(clock timing.Clock) func() time.Duration {
	if c.Until == 0 {
		return nil
	}
	end := clock.Read().Boot + time.Duration(c.LeftMs)*time.Millisecond
	return func() time.Duration {
		return min(end-clock.Read().Boot, time.Until(time.UnixMilli(c.Until)))
	}
}

// Pace is the share of its connections that a worker may use, between 0 and 1: of those to the target, and of the read-ahead
// requests to the repository. At least one may always be used.
type Pace struct {
	Target     float64 `json:"target"`
	Repository float64 `json:"repository"`
}

// Exit codes of a worker; cmd/exit has their meanings.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitTimeout    = 2 // the lease ended first; valid only with a final record
	ExitNoneLeft   = 3
	ExitNoneFree   = 4
	ExitUnreadable = 5
)

// End describes how a worker ended; its process is known to be dead.
type End struct {
	Code   int      // exit code; -1 when a signal ended it
	Signal string   // name of the signal; "" when it exited
	Last   *Record  // its final record; nil without one
	Stderr []string // last lines, without JSON of level INFO
	OOM    bool     // the kernel killed a process for lack of memory meanwhile
}

// isClean reports whether the worker ended by itself with a final record.
func (e End) isClean() bool { return e.Last != nil && e.Last.Exit != nil && e.Signal == "" }
