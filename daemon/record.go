package daemon

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/cms/timing"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// Record is one line of JSON that a worker writes to its status pipe: its holder at the start, each lease, periodic samples, and as the
// last line its result (with Exit).
type Record struct {
	Holder string          `json:"holder,omitempty"` // prefix of the holders of all its leases
	Lease  *Lease          `json:"lease,omitempty"`
	Phase  *WorkerPhase    `json:"phase,omitempty"` // at each change of the worker's phase or state
	Sample *metrics.Sample `json:"sample,omitempty"`

	Exit    *int       `json:"exit,omitempty"` // exit code of the process
	Outcome string     `json:"outcome,omitempty"`
	Item    string     `json:"item,omitempty"`
	Counts  cms.Counts `json:"counts,omitzero"`
	Error   string     `json:"error,omitempty"`
	Gone    bool       `json:"gone,omitempty"` // no worker can continue: the store was deleted, or rfsctl undo removed what the session created
	// Next are the successors of the item, which can be continued without a search.
	Next []string `json:"next,omitempty"`
	// Rate is the number of the last rate command that the worker follows.
	Rate     int64 `json:"rate,omitempty"`
	ReadRate int64 `json:"read_rate,omitempty"` // the same for the rate of reading
	// NextMs is set with code 4: the time in ms, by the store's clock, until an item may become free.
	NextMs int64 `json:"next_ms,omitempty"`
}

// WorkerPhase is the phase in which a worker is, and the state of the phase's record.
type WorkerPhase struct {
	Name  string `json:"name"`
	State string `json:"state"`
}

// Lease is the lease of a worker: an item of a migration or a window of an import. An empty Item means that the worker has no lease at
// present.
type Lease struct {
	Item   string `json:"item"`
	Holder string `json:"holder"`
	Index  string `json:"index,omitempty"`
	Shard  int    `json:"shard,omitempty"`
	// LeftMs is the remaining time of the lease when the record is written, in ms, as the store granted it.
	LeftMs int64 `json:"left_ms"`
}

// subject returns the lease's name for messages, and the item's id for commands, or "".
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

// WorkerCommand is one line of JSON that the daemon writes to a worker: first the options, later changes. A closed pipe means that the
// daemon has ended: the worker hands off and ends.
type WorkerCommand struct {
	Options  map[string][]string `json:"options,omitempty"`   // name of a flag → its values
	Round    json.RawMessage     `json:"round,omitempty"`     // with the options: the round of a followed cluster
	Holder   string              `json:"holder,omitempty"`    // with the options: the prefix of the holders of all leases; "": the worker chooses one
	Prefer   []string            `json:"prefer,omitempty"`    // with the options: items to try before a search
	Exponent int                 `json:"exponent,omitempty"`  // with the options: minimum lease exponent of new items
	Rate     *RateCommand        `json:"rate,omitempty"`      // for sending; absent in the first command: no limit
	ReadRate *RateCommand        `json:"read_rate,omitempty"` // for reading the repository, likewise
	Pace     *Pace               `json:"pace,omitempty"`
	Set      *session.Limits     `json:"set,omitempty"`       // the operator's limits, from which a worker uses the target's latency
	LogLevel string              `json:"log_level,omitempty"` // debug, info, warn, error
	Slot     int                 `json:"slot,omitempty"`      // with the options: number of the worker's slot
	Every    time.Duration       `json:"sample_ns,omitempty"` // with the options: interval of samples
	Tries    int                 `json:"tries,omitempty"`     // with the options: maximum number of items of a search to try; 0: all
	Record   time.Duration       `json:"record_ns,omitempty"` // with the options: interval at which progress is recorded; 0: the default
}

// RateCommand limits the rate at which a worker sends or reads. The worker follows the command with the highest number, and reports that
// number.
type RateCommand struct {
	Number         int64 `json:"number"`
	BytesPerSecond int64 `json:"bytes_per_second"` // 0: nothing; primitive.Unlimited: no limit
	// LeftMs and Until limit the validity of the command: ms after it was read, and epoch ms by the machine's clock. The earlier one
	// applies. Without Until, the command has no end.
	LeftMs int64 `json:"left_ms,omitempty"`
	Until  int64 `json:"until,omitempty"`
}

// Left returns a function for the remaining validity of the command, counted from now, or nil if it has no end.
func (c RateCommand) Left(clock timing.Clock) func() time.Duration {
	if c.Until == 0 {
		return nil
	}
	end := clock.Read().Boot + time.Duration(c.LeftMs)*time.Millisecond
	return func() time.Duration {
		return min(end-clock.Read().Boot, time.Until(time.UnixMilli(c.Until)))
	}
}

// Pace is the share of its connections to the target, and of its read-ahead requests to the repository, that a worker may use, between 0
// and 1. At least one may always be used.
type Pace struct {
	Target     float64 `json:"target"`
	Repository float64 `json:"repository"`
}

// Exit codes of a worker; cmd/exit has their meanings.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitTimeout    = 2 // the lease ended first; only valid with a final record
	ExitNoneLeft   = 3
	ExitNoneFree   = 4
	ExitUnreadable = 5
)

// End describes how a worker ended; its process is known to be dead.
type End struct {
	Code   int      // exit code; -1 if a signal ended it
	Signal string   // name of the signal; "" if it exited
	Last   *Record  // its final record, or nil
	Stderr []string // last lines, without JSON of level INFO
	OOM    bool     // the kernel killed a process for lack of memory meanwhile
}

// isClean reports whether the worker ended by itself with a final record.
func (e End) isClean() bool { return e.Last != nil && e.Last.Exit != nil && e.Signal == "" }

// goneError is the reason of a worker whose session cannot continue, in its own words. It is a cms.ErrStoreGone.
type goneError string

func (e goneError) Error() string { return cmp.Or(string(e), cms.ErrStoreGone.Error()) }

func (goneError) Unwrap() error { return cms.ErrStoreGone }
