package cms

import "github.com/rfsd/rfsd/rfs/coordination/cms/timing"

// Result is the outcome of a transition.
type Result uint8

// Results. Only Applied and Exhausted mean that the document changed.
const (
	// Applied: the document changed as requested.
	Applied Result = iota + 1
	// Already: the document was already so, because of a repeated request or because nothing had to change.
	Already
	// Held: another holder's lease is running.
	Held
	// Done: the item is completed.
	Done
	// Exhausted: a phase was tried too often and is now FAILED. Items never return it: see Lease.Condemned.
	Exhausted
	// Lost: the caller does not hold the item, or no longer.
	Lost
	// Mismatch: other successors than the caller's are stored.
	Mismatch
	// NoSuccessors: a hand-off cannot be completed before its successors are stored.
	NoSuccessors
	// Skewed: the caller's clock differs too much from the store's.
	Skewed
	// Foreign: the document has another version than ScriptVersion.
	Foreign
	// Short: a completion elsewhere than at the item's end, or a hand-off at or after it.
	Short
)

var verdictNames = [...]string{"", "applied", "already", "held", "done", "exhausted", "lost", "mismatch", "unset", "skewed", "foreign", "short"}

// String returns the name of the result.
func (v Result) String() string {
	if int(v) < len(verdictNames) && v > 0 {
		return verdictNames[v]
	}
	return "no result"
}

// ParseResult is the reverse of String; ok is false for an unknown name.
func ParseResult(s string) (v Result, ok bool) {
	for i, n := range verdictNames {
		if i > 0 && n == s {
			return Result(i), true
		}
	}
	return 0, false
}

// Transition is a change of one item with its arguments. Its JSON form is the parameters of a script. Times are epoch milliseconds.
type Transition interface {
	// Name returns the stable name of the kind of transition.
	Name() string
	// Apply returns the document after the transition, unchanged unless the result is Applied or Exhausted.
	Apply(it Item, nowMs int64) (Item, Result)
}

// Acquire leases a free or expired item.
type Acquire struct {
	Holder      string `json:"holder"`      // unique to the acquisition
	InitialMs   int64  `json:"initialMs"`   // lease of exponent 0
	MaxMs       int64  `json:"maxMs"`       // maximum length of a lease
	GraceMs     int64  `json:"graceMs"`     // a lease is taken over only this long after its end
	MaxAttempts int    `json:"maxAttempts"` // consecutive acquisitions without progress after which the item is leased alone; 0 = no limit
	ClientMs    int64  `json:"clientMs"`    // the caller's clock
	ToleranceMs int64  `json:"toleranceMs"` // allowed difference to the store's clock; 0 = any
}

// Name returns "acquire".
func (Acquire) Name() string { return "acquire" }

// Apply leases the item. It counts an attempt in advance, because a holder that dies cannot; releases with a cause and progress take it
// back. After MaxAttempts the lease is to work on alone (see attempts.go).
func (a Acquire) Apply(it Item, now int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case a.ToleranceMs > 0 && abs(a.ClientMs-now) > a.ToleranceMs:
		return it, Skewed
	case !it.Open():
		return it, Done
	case it.Expiration*1000+a.GraceMs >= now && it.Holder == a.Holder:
		return it, Already
	case it.Expiration*1000+a.GraceMs >= now:
		return it, Held
	}
	before := it.Attempts
	it = attempt(it, a.MaxAttempts)
	k, next := min(it.Exponent, timing.MaxExponent), Exponent(1)
	if aloneAfter(it.Attempts, a.MaxAttempts) {
		// These leases start at the initial length and do not grow with each death: no work is done while a dead holder's lease runs.
		next = 0
		if before <= a.MaxAttempts {
			k = 0
		}
	}
	it.Holder = a.Holder
	it.Expiration = ceilSeconds(now + timing.LeaseMs(a.InitialMs, int(k), a.MaxMs))
	it.LeaseExponent, it.Exponent = k, k+next
	it.AcquiredAt = now
	it.Engine = engine
	return it, Applied
}

// Progress records the holder's progress. It also serves as the poll that notices a lost lease.
type Progress struct {
	Holder    string `json:"holder"`
	Begin     int64  `json:"begin"` // start of this acquisition
	Watermark int64  `json:"watermark"`
	Counts    Counts `json:"counts"` // from the cursor to Watermark
	Checks    string `json:"checks"`
	SetupMs   int64  `json:"setupMs"`
	Reached   int64  `json:"reached"` // every ordinal below was handled, durably or not; 0: use Watermark
	Alone     bool   `json:"alone"`   // the lease is to work on alone, and its holder waits for the result
}

// Name returns "progress".
func (Progress) Name() string { return "progress" }

// Apply stores watermark and counts. A late request behind the stored progress changes nothing. Progress beyond the start of the
// acquisition, or beyond every ordinal reached before if nothing is durable yet, resets the attempts and makes the next lease shorter: this
// one was long enough, and repeated deaths must not lead to leases of hours.
func (p Progress) Apply(it Item, now int64) (Item, Result) {
	if v := holds(it, p.Holder); v != Applied {
		return it, v
	}
	if it.Successors != "" {
		return it, Mismatch
	}
	durable, further := p.Watermark > max(it.Watermark, p.Begin), p.Reached > max(it.Reached, it.Watermark, p.Begin)
	position := max(p.Begin, p.Watermark, p.Reached) + 1
	alone := p.Alone && position > it.AloneAt
	if !durable && !further && !alone {
		return it, Already
	}
	if durable {
		it.Watermark, it.Counts, it.Checks, it.SetupMs = p.Watermark, p.Counts, p.Checks, p.SetupMs
	}
	if further {
		it.Reached = p.Reached
	}
	if durable || further {
		it.Exponent = max(0, it.LeaseExponent-1)
		it.ReportedAt = now
	}
	if p.Alone {
		it.AloneAt = max(it.AloneAt, position) // leases to work on alone follow until the item makes other progress
	} else {
		it.Attempts = 0
	}
	return it, Applied
}

// SetSuccessors is the second step of a hand-off: after it any worker can finish the hand-off.
type SetSuccessors struct {
	Holder       string `json:"holder"`
	Successors   string `json:"successors"` // ids joined by ","
	HandExponent int    `json:"successorExponent"`
	Watermark    int64  `json:"watermark"` // cursor of the first successor
	Counts       Counts `json:"counts"`    // from the cursor to Watermark
	Checks       string `json:"checks"`
	SetupMs      int64  `json:"setupMs"`
}

// Name returns "successors".
func (SetSuccessors) Name() string { return "successors" }

// Apply stores the successors once. For the same successors again it returns Already, for others Mismatch, and Short unless they start
// before the item's end.
func (s SetSuccessors) Apply(it Item, _ int64) (Item, Result) {
	if v := holds(it, s.Holder); v != Applied {
		if v == Done && it.Successors == s.Successors {
			return it, Already
		}
		return it, v
	}
	if it.Successors != "" {
		if it.Successors == s.Successors {
			return it, Already
		}
		return it, Mismatch
	}
	if it.End != 0 && s.Watermark >= it.End {
		return it, Short
	}
	it.Successors, it.HandExponent = s.Successors, Exponent(max(0, s.HandExponent))
	it.Watermark, it.Counts, it.Checks, it.SetupMs = s.Watermark, s.Counts, s.Checks, s.SetupMs
	return acquitted(it), Applied
}

// Complete ends an item. With successors it is the last step of a hand-off and asserts that they are stored; without, the range was done to
// its end, which is asserted if the item records its end.
type Complete struct {
	Holder     string `json:"holder"`
	Successors string `json:"successors"`
	Watermark  int64  `json:"watermark"` // without successors: end of the range
	Counts     Counts `json:"counts"`    // without successors: counts of the whole range
	Checks     string `json:"checks"`
	SetupMs    int64  `json:"setupMs"`
}

// Name returns "complete".
func (Complete) Name() string { return "complete" }

// Apply completes the item. The time of the first completion is kept. An expired lease is accepted while no other worker took the item.
func (c Complete) Apply(it Item, now int64) (Item, Result) {
	if v := holds(it, c.Holder); v != Applied {
		if v == Done && it.Status == "" && it.Successors == c.Successors {
			return it, Already
		}
		return it, v
	}
	switch {
	case c.Successors != "" && it.Successors == "":
		return it, NoSuccessors
	case it.Successors != c.Successors:
		return it, Mismatch
	}
	if c.Successors == "" && it.End != 0 && max(it.Watermark, c.Watermark) != it.End {
		return it, Short
	}
	if c.Successors == "" {
		it.Watermark, it.Counts, it.Checks, it.SetupMs = max(it.Watermark, c.Watermark), c.Counts, c.Checks, c.SetupMs
	}
	it.CompletedAt = max(1, now/1000)
	return acquitted(it), Applied
}

// Release releases the item before its lease ends.
type Release struct {
	Holder  string `json:"holder"`
	Cause   string `json:"cause"`
	Counted bool   `json:"counted"` // the acquisition counts as one without progress
	Longer  bool   `json:"longer"`  // the lease was too short: the next one is longer, also when the acquisition does not count

	// The durable progress, as in Progress; a Watermark not beyond Begin records nothing.
	Begin     int64  `json:"begin"`
	Watermark int64  `json:"watermark"`
	Counts    Counts `json:"counts"`
	Checks    string `json:"checks"`
	SetupMs   int64  `json:"setupMs"`
}

// Name returns "release".
func (Release) Name() string { return "release" }

// Apply frees the item. An uncounted release takes back the acquisition's attempt and, unless Longer, its effect on the length of the next
// lease.
func (r Release) Apply(it Item, _ int64) (Item, Result) {
	if v := holds(it, r.Holder); v != Applied {
		return it, v
	}
	it.Holder, it.Expiration, it.ReleasedFor = "", 0, r.Cause
	switch durable := it.Successors == "" && r.Watermark > max(it.Watermark, r.Begin); {
	case durable:
		it.Watermark, it.Counts, it.Checks, it.SetupMs = r.Watermark, r.Counts, r.Checks, r.SetupMs
		it = acquitted(it)
		it.Exponent = it.LeaseExponent
	case !r.Counted:
		it.Attempts, it.AloneAt, it.Exponent = max(0, it.Attempts-1), 0, it.LeaseExponent
	}
	if r.Longer {
		it.Exponent = max(it.Exponent, min(it.LeaseExponent+1, timing.MaxExponent))
	}
	return it, Applied
}

// Reclaim frees an item whose holder is proven dead. The acquisition counts as an attempt, because the item may have killed the holder. The
// next lease is as long as the last, because the holder did not lack time.
type Reclaim struct{}

// Name returns "reclaim".
func (Reclaim) Name() string { return "reclaim" }

// Apply frees the item.
func (Reclaim) Apply(it Item, _ int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case !it.Open():
		return it, Done
	case it.Holder == "" && it.Expiration == 0:
		return it, Already
	}
	it.Holder, it.Expiration, it.ReleasedFor = "", 0, "owner died"
	it.Exponent = it.LeaseExponent
	return it, Applied
}

// Fail marks an item FAILED: by its holder, or by any worker when no lease is running.
type Fail struct {
	Holder  string `json:"holder"`
	Reason  string `json:"reason"`
	GraceMs int64  `json:"graceMs"`
	Checks  string `json:"checks"` // "": the checks of the item stay
}

// Name returns "fail".
func (Fail) Name() string { return "fail" }

// Apply marks the item FAILED unless it is completed, or another holder's lease is running.
func (f Fail) Apply(it Item, now int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case it.FailedItem():
		return it, Already
	case !it.Open():
		return it, Done
	case it.Successors != "":
		return it, Mismatch
	case it.Holder != f.Holder && it.Expiration*1000+f.GraceMs >= now:
		return it, Held
	}
	if f.Checks != "" {
		it.Checks = f.Checks
	}
	return failed(it, f.Reason, now), Applied
}

// Reopen opens a FAILED item again, on an operator's command.
type Reopen struct{}

// Name returns "reopen".
func (Reopen) Name() string { return "reopen" }

// Apply opens the item with attempts reset; watermark and counts stay.
func (Reopen) Apply(it Item, _ int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case it.Open():
		return it, Already
	case it.Status != StatusFailed:
		return it, Done
	}
	it.CompletedAt, it.Status, it.Failure = 0, "", ""
	it.Holder, it.Expiration, it.Exponent = "", 0, 0
	return acquitted(it), Applied
}

// holds returns Applied when holder has the open item, and else the reason why not.
func holds(it Item, holder string) Result {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return Foreign
	case holder == "" || it.Holder != holder:
		return Lost
	case !it.Open():
		return Done
	}
	return Applied
}

func failed(it Item, reason string, now int64) Item {
	it.CompletedAt = max(1, now/1000)
	it.Status, it.Failure = StatusFailed, reason
	return it
}

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func ceilSeconds(ms int64) int64 { return (ms + 999) / 1000 }
