package cms

import (
	"strconv"
	"strings"
)

// StatusReplaced marks a completed item of another engine whose range is done by items of this program.
const StatusReplaced = "REPLACED"

// Another engine counts ordinals in its own way, so a cursor that it chose means
// nothing here. Whether it did is told by each document alone: these transitions
// may be repeated, come late, and be asked for by several at a time.

// foreignCursor reports whether another engine chose the item's cursor. Every shard begins at 0.
func (it Item) foreignCursor() bool {
	id, err := it.Range()
	return err == nil && id.Cursor > 0 && it.Engine != engine
}

// foreignSuccessors reports whether another engine handed the item off. This program stores
// the cursor of the first successor as the watermark, in the same write.
func (it Item) foreignSuccessors() bool {
	if it.Successors == "" {
		return false
	}
	first, _, _ := strings.Cut(it.Successors, ",")
	_, cursor, ok := cutRight(first)
	return !ok || it.Watermark <= 0 || cursor != strconv.FormatInt(it.Watermark, 10)
}

// foreignHolder reports whether a worker of another engine holds the item: an item that no
// worker of ours ever held, or a holder named by a UUID, as the Java tool's are.
func (it Item) foreignHolder() bool {
	return it.Holder != "" && (it.Engine != engine || endsInUUID(it.Holder))
}

// endsInUUID reports whether s is "<something>_<8-4-4-4-12 hex digits>".
func endsInUUID(s string) bool {
	const form = "_xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx"
	if len(s) < len(form) {
		return false
	}
	s = s[len(s)-len(form):]
	for i := range len(form) {
		hex := s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'f' || s[i] >= 'A' && s[i] <= 'F'
		if form[i] == 'x' && !hex || form[i] != 'x' && s[i] != form[i] {
			return false
		}
	}
	return true
}

// Restart opens an item that another engine handed off, to do its range again from
// its cursor, or from a watermark that this program recorded.
type Restart struct {
	GraceMs int64 `json:"graceMs"`
}

// Name is "restart".
func (Restart) Name() string { return "restart" }

// Apply takes back the successors. An item that names those of this program stays as it is.
func (r Restart) Apply(it Item, now int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case !it.foreignSuccessors():
		return it, Already
	case it.Open() && it.Holder != "" && it.Expiration*1000+r.GraceMs >= now:
		return it, Held
	}
	it.CompletedAt, it.Status, it.Failure, it.Successors = 0, "", "", ""
	it.Holder, it.Expiration, it.Exponent = "", 0, 0
	it.Engine = engine
	return acquitted(it), Applied
}

// Replace ends an open item in mid-shard whose cursor another engine chose.
type Replace struct {
	GraceMs int64 `json:"graceMs"`
}

// Name is "replace".
func (Replace) Name() string { return "replace" }

// Apply ends the item. It has no holder then: a worker of the other engine that comes
// back finds that it lost it. A root, and an item of this program, stay as they are.
func (r Replace) Apply(it Item, now int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case !it.Open():
		return it, Done
	case !it.foreignCursor():
		return it, Already
	case it.Holder != "" && it.Expiration*1000+r.GraceMs >= now:
		return it, Held
	}
	it.Holder, it.Expiration = "", 0
	it.CompletedAt, it.Status = max(1, now/1000), StatusReplaced
	return it, Applied
}

// ClaimForeign makes an item of this program of one that exists already under the id of a
// successor: another engine may have begun at the same ordinal. What was done there
// is done again, because it may end elsewhere.
type ClaimForeign struct {
	Creator  string `json:"creator"`
	Exponent int    `json:"exponent"`
	End      int64  `json:"end"`
}

// Name is "claim foreign".
func (ClaimForeign) Name() string { return "claim foreign" }

// Apply begins the item anew, also when it is leased. An item of this program stays as it is.
func (a ClaimForeign) Apply(it Item, _ int64) (Item, Result) {
	switch {
	case it.ScriptVersion != ScriptVersion:
		return it, Foreign
	case !it.foreignCursor():
		return it, Already
	}
	return newOf(it.ID, Root{End: a.End}, a.Creator, a.Exponent), Applied
}

// takeover is what has to be done so that a shard's chain is this program's, in this
// order: nothing is ended before what does its range again is open.
type takeover struct {
	Restart      []string // handed off by another engine
	ClaimForeign []string // named by this program, made by another engine
	Replace      []string // open, and in mid-shard
}

func (t takeover) empty() bool { return len(t.Restart)+len(t.ClaimForeign)+len(t.Replace) == 0 }

// planTakeover looks at all items of a shard. A complete chain stays as it is,
// of either engine; in any other, what another engine began is done again.
func planTakeover(root string, items map[string]Item) (t takeover) {
	type step struct {
		id      string
		trusted bool // named by this program, or the root
	}
	incomplete := false
	reached := map[string]bool{}
	for next := []step{{root, true}}; len(next) > 0; next = next[1:] {
		at := next[0]
		if reached[at.id] {
			continue
		}
		reached[at.id] = true
		it, ok := items[at.id]
		if !ok || it.Open() || it.Status == StatusReplaced {
			incomplete = true
		}
		if !ok {
			continue
		}
		switch foreign := it.foreignSuccessors(); {
		case !at.trusted:
		case it.foreignCursor():
			if it.Open() || it.Status == StatusReplaced || foreign {
				t.ClaimForeign = append(t.ClaimForeign, it.ID)
			}
		case foreign:
			t.Restart = append(t.Restart, it.ID)
		}
		for _, s := range it.SuccessorIDs() {
			next = append(next, step{s, at.trusted && !it.foreignSuccessors()})
		}
	}
	if !incomplete {
		t = takeover{}
	}
	claimed := map[string]bool{}
	for _, id := range t.ClaimForeign {
		claimed[id] = true
	}
	for id, it := range items {
		if it.Open() && it.foreignCursor() && !claimed[id] {
			t.Replace = append(t.Replace, id)
		}
	}
	return t
}
