package daemon

import (
	"time"

	"github.com/rfsd/rfsd/daemon/metrics"
	"github.com/rfsd/rfsd/rfs/cms"
)

// Record is one line of JSON that a worker writes to its status pipe: who it is at its begin, the
// lease when it has one, a sample now and then, and how it ended (Exit set) as the last line.
type Record struct {
	Holder string          `json:"holder,omitempty"` // prefix of the holders of all its leases
	Lease  *Lease          `json:"lease,omitempty"`
	Sample *metrics.Sample `json:"sample,omitempty"`

	Exit    *int       `json:"exit,omitempty"` // code with which the process is going to end
	Outcome string     `json:"outcome,omitempty"`
	Item    string     `json:"item,omitempty"`
	Counts  cms.Counts `json:"counts,omitzero"`
	Error   string     `json:"error,omitempty"`
	// Next are the items that the lease left behind: to go on with them costs no search.
	Next []string `json:"next,omitempty"`
	// NextMs says with code 4 in how many ms, by the store's clock, work may be free.
	NextMs int64 `json:"next_ms,omitempty"`
}

// Lease is the lease of a worker: an item of a migration or a window of an import. One without Item says that the
// worker has none for now.
type Lease struct {
	Item   string `json:"item"`
	Holder string `json:"holder"`
	Index  string `json:"index,omitempty"`
	Shard  int    `json:"shard,omitempty"`
	// LeftMs is how long the lease lasts from this record on, in ms, as the store granted it.
	LeftMs int64 `json:"left_ms"`
}

// subject names what the lease is about to people, and returns the id that commands take, "" when there is none.
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

// Order is one line of JSON that the daemon writes to a worker: the options as the first, changes
// later. The end of the pipe means that the daemon is gone: the worker hands off and ends.
type Order struct {
	Options  map[string][]string `json:"options,omitempty"`  // name of a flag → its values
	Prefer   []string            `json:"prefer,omitempty"`   // with the options: items to try before a search
	Exponent int                 `json:"exponent,omitempty"` // with the options: least lease exponent of new items
	MaxRate  *int64              `json:"max_rate,omitempty"` // bytes per second; 0: no limit
	Pace     *Pace               `json:"pace,omitempty"`
	LogLevel string              `json:"log_level,omitempty"` // debug, info, warn, error
	Slot     int                 `json:"slot,omitempty"`      // with the options: which of the node's workers it is
	Slots    int                 `json:"slots,omitempty"`     // with the options: how many the node wants
	Node     string              `json:"node,omitempty"`      // with the options: the node's name
	Every    time.Duration       `json:"sample_ns,omitempty"` // with the options: interval of samples
	Tries    int                 `json:"tries,omitempty"`     // with the options: most items of a search that are tried; 0: all
	Record   time.Duration       `json:"record_ns,omitempty"` // with the options: interval in which progress is recorded; 0: the default
}

// Pace is which part of its connections a worker may use, between 0 and 1: of those to the target, and of the requests that read
// ahead in the repository. One is always left.
type Pace struct {
	Target     float64 `json:"target"`
	Repository float64 `json:"repository"`
}

// Exit codes of a worker, as `rfsd worker --help` states them.
const (
	ExitDone       = 0
	ExitFailed     = 1
	ExitTimeout    = 2 // the lease ended first; to be believed only with a final record
	ExitNoneLeft   = 3
	ExitNoneFree   = 4
	ExitUnreadable = 5
)

// End is how a worker ended; the process is proven dead.
type End struct {
	Code   int      // exit code; -1 when a signal ended it
	Signal string   // name of the signal; "" when it exited
	Last   *Record  // its final record; nil when it gave none
	Stderr []string // last lines, without what is JSON of level INFO
	OOM    bool     // the kernel killed a process for lack of memory meanwhile
}

// isClean says that the worker ended as it meant to.
func (e End) isClean() bool { return e.Last != nil && e.Last.Exit != nil && e.Signal == "" }
