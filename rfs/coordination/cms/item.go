// Package cms coordinates workers: which worker works on which part of the migration, and until when.
//
// A shard of the snapshot is a chain of items. An item covers the ordinals of its shard from its cursor to the cursor of its successor, or
// to the end. One worker at a time leases an item; a worker that ends early leaves a successor or a recorded watermark behind. The rules
// are pure functions (transition.go); stores apply them atomically under their own clock (boltcms, oscms, s3cms); workers use the
// Coordinator.
package cms

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// SetupID is the item whose completion records that all items of shards are seeded; SetupOf returns the id for other kinds.
const SetupID = "shard_setup"

// SetupOf returns the id of the item whose completion records that all items of a kind are seeded.
func SetupOf(kind string) string {
	if kind == "" {
		return SetupID
	}
	return kind + setupSuffix
}

const setupSuffix = ":setup"

// IsSetup reports whether an id belongs to a setup of any kind.
func IsSetup(id string) bool { return id == SetupID || strings.HasSuffix(id, setupSuffix) }

// ScriptVersion is the version of the wire documents this package reads and writes.
const ScriptVersion = "3.0"

// StatusFailed marks a completed item whose range did not arrive.
const StatusFailed = "FAILED"

// MaxIDLength is the longest id, in bytes, that Elasticsearch and OpenSearch accept.
const MaxIDLength = 512

// ItemID identifies a range by its first ordinal, in a shard or in the subject of an item of another kind.
type ItemID struct {
	Kind   string // "" for shards; else lower-case letters
	Index  string // name in the snapshot, UTF-8; for other kinds, such as an import, the name of the file
	Shard  int    // for an import the part of the file
	Cursor int64  // first ordinal, or byte, of the range
}

// String returns the wire id: base64url of the name without padding, shard and
// cursor in decimal, joined by "__". Ids of other kinds start with the kind and a colon.
func (id ItemID) String() string {
	kind := ""
	if id.Kind != "" {
		kind = id.Kind + ":"
	}
	return kind + NameKey(id.Index) + "__" + strconv.Itoa(id.Shard) + "__" + strconv.FormatInt(id.Cursor, 10)
}

// Name returns the range for display: index and shard, and its first ordinal unless it starts with the shard.
func (id ItemID) Name() string {
	if id.Kind != "" {
		return fmt.Sprintf("%s of %s from %d", id.Kind, id.Index, id.Cursor)
	}
	if id.Cursor == 0 {
		return fmt.Sprintf("index %s shard %d", id.Index, id.Shard)
	}
	return fmt.Sprintf("index %s shard %d from document number %d", id.Index, id.Shard, id.Cursor)
}

// ItemName returns the Name of the item with a wire id, and "item ID" for an id that names no range, such as SetupID.
func ItemName(id string) string {
	if x, err := ParseID(id); err == nil {
		return x.Name()
	}
	return "item " + id
}

// NameKey returns the unpadded base64url of a name, as ids of items and records contain it.
func NameKey(index string) string { return base64.RawURLEncoding.EncodeToString([]byte(index)) }

// longName is the longest name that IndexFor keeps, in bytes of base64.
const longName = 400

// IndexFor returns the name that the ids of items have for a file or another subject than an index: a digest if the name does not fit.
func IndexFor(name string) string {
	if utf8.ValidString(name) && base64.RawURLEncoding.EncodedLen(len(name)) <= longName {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return "sha256-" + hex.EncodeToString(sum[:])
}

// ParseID parses a wire id. It splits from the right: the encoded name may itself end in "_", shard and cursor never contain one. It
// returns a fault.ErrCorrupt for any other id.
func ParseID(s string) (ItemID, error) {
	if len(s) > MaxIDLength {
		return ItemID{}, fmt.Errorf("work item id of %d bytes: %w", len(s), fault.ErrCorrupt)
	}
	kind, rest, other := strings.Cut(s, ":")
	if !other {
		kind, rest = "", s
	} else if !isKind(kind) {
		return ItemID{}, badID(s)
	}
	head, cursor, ok := cutRight(rest)
	if !ok {
		return ItemID{}, badID(s)
	}
	name, shard, ok := cutRight(head)
	if !ok {
		return ItemID{}, badID(s)
	}
	raw, err := base64.RawURLEncoding.Strict().DecodeString(name)
	if err != nil || len(raw) == 0 || !utf8.Valid(raw) {
		return ItemID{}, badID(s)
	}
	sh, err := strconv.ParseInt(shard, 10, 32)
	if err != nil || sh < 0 {
		return ItemID{}, badID(s)
	}
	cur, err := strconv.ParseInt(cursor, 10, 64)
	if err != nil || cur < 0 {
		return ItemID{}, badID(s)
	}
	id := ItemID{Kind: kind, Index: string(raw), Shard: int(sh), Cursor: cur}
	if id.String() != s { // leading zeros, signs: not an id of this program
		return ItemID{}, badID(s)
	}
	return id, nil
}

// isKind reports whether s is a valid name of a kind of items.
func isKind(s string) bool {
	return s != "" && len(s) <= 32 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz") == ""
}

func cutRight(s string) (before, after string, ok bool) {
	i := strings.LastIndex(s, "__")
	if i < 0 {
		return "", "", false
	}
	return s[:i], s[i+2:], true
}

func badID(s string) error {
	return fmt.Errorf("%q is not a work item id: %w", s, fault.ErrCorrupt)
}

// Counts holds the outcomes of the ordinals of a range. Indexed, Kept, Failed and Filtered add up to Live.
type Counts struct {
	Ordinals int64 `json:"ordinals"` // ordinals passed: documents, deleted ones, children
	Live     int64 `json:"live"`     // live root documents among them
	Indexed  int64 `json:"indexed"`  // acknowledged by the target
	Failed   int64 `json:"failed"`   // recorded as failed documents
	Filtered int64 `json:"filtered"` // left out on purpose
	Bytes    int64 `json:"bytes"`    // bytes of the sources that were indexed, kept or failed
	// Kept counts documents whose id the target already had, and that stayed unchanged there.
	Kept int64 `json:"kept,omitempty"`
	// Deleted counts the deletions among Live.
	Deleted int64 `json:"deleted,omitempty"`
	// Reduced counts the documents among Indexed whose source may lack indexed parts that were not stored.
	Reduced int64 `json:"reduced,omitempty"`
	// Rebuilt counts the documents among Indexed and Failed whose source was not stored and was rebuilt from other fields.
	Rebuilt int64 `json:"rebuilt,omitempty"`
	// KeptLast counts the documents among Indexed and Failed that had duplicate keys; the last value was kept.
	KeptLast int64 `json:"duplicate_keys,omitempty"`
	// Retried counts documents that were sent again in a retry, Resent documents that a later holder sent again after an earlier one had
	// delivered them, once per time. Replaced counts the documents among Indexed that replaced a document from before the first holder.
	Retried  int64 `json:"retried,omitempty"`
	Resent   int64 `json:"resent,omitempty"`
	Replaced int64 `json:"replaced,omitempty"`
	// Rewrites counts the writes of the target beyond one per document of Indexed, by the versions in its answers.
	Rewrites int64 `json:"rewrites,omitempty"`
	// Moved counts the documents among Indexed to which an ingest pipeline gave another index or id.
	Moved int64 `json:"moved,omitempty"`
}

// Add returns the sum of both.
func (c Counts) Add(o Counts) Counts {
	return Counts{
		Ordinals: c.Ordinals + o.Ordinals, Live: c.Live + o.Live, Indexed: c.Indexed + o.Indexed,
		Failed: c.Failed + o.Failed, Filtered: c.Filtered + o.Filtered, Bytes: c.Bytes + o.Bytes,
		Reduced: c.Reduced + o.Reduced, Rebuilt: c.Rebuilt + o.Rebuilt, KeptLast: c.KeptLast + o.KeptLast, Kept: c.Kept + o.Kept, Deleted: c.Deleted + o.Deleted,
		Retried: c.Retried + o.Retried, Resent: c.Resent + o.Resent, Replaced: c.Replaced + o.Replaced,
		Rewrites: c.Rewrites + o.Rewrites, Moved: c.Moved + o.Moved,
	}
}

// Written returns how many sequence numbers the documents used in an index that only this session writes to.
func (c Counts) Written() int64 { return c.Indexed - c.Moved + c.Rewrites }

// Item is the wire document of a work item. The first fields are read by every engine on the queue; the others are ours, which other
// engines preserve but never change.
type Item struct {
	ID string `json:"-"`

	ScriptVersion string   `json:"scriptVersion"`
	IndexName     string   `json:"indexName,omitempty"` // only on seeded items, for display
	CreatorID     string   `json:"creatorId,omitempty"`
	Holder        string   `json:"leaseHolderId,omitempty"`      // kept after completion
	Expiration    int64    `json:"expiration"`                   // epoch seconds of the store's clock; 0 = free
	Exponent      Exponent `json:"nextAcquisitionLeaseExponent"` // the next lease lasts 2^this × the initial lease
	CompletedAt   int64    `json:"completedAt,omitempty"`        // epoch seconds; 0 = open
	Successors    string   `json:"successor_items,omitempty"`    // ids joined by ","; written once
	Status        string   `json:"status,omitempty"`             // "" or StatusFailed

	Failure       string   `json:"failure,omitempty"`           // reason why it is FAILED
	Attempts      int      `json:"attempts,omitempty"`          // consecutive acquisitions without progress and without a cause
	Reached       int64    `json:"reached,omitempty"`           // every ordinal below was handled once, by a holder whose output is durable only at its end
	AloneAt       int64    `json:"aloneAt,omitempty"`           // position of the holder that works on nothing else: ordinal + 1; 0: none
	AloneDied     int64    `json:"aloneDied,omitempty"`         // where the last such holder died: ordinal + 1
	AloneDeaths   int      `json:"aloneDeaths,omitempty"`       // such holders in a row that died there
	AcquiredAt    int64    `json:"acquiredAt,omitempty"`        // epoch ms of the last acquisition
	ReportedAt    int64    `json:"reportedAt,omitempty"`        // epoch ms of the last progress
	LeaseExponent Exponent `json:"leaseExponent,omitempty"`     // exponent of the last acquisition
	HandExponent  Exponent `json:"successorExponent,omitempty"` // exponent for the successors
	Watermark     int64    `json:"watermark,omitempty"`         // every ordinal below is durably done
	Counts        Counts   `json:"counts,omitzero"`             // of the ordinals from the cursor to Watermark or the end
	Checks        string   `json:"checks,omitempty"`            // JSON array, one opaque element per acquisition that did a part
	SetupMs       int64    `json:"setupMs,omitempty"`           // from acquisition to the first document read, in ms; 0 unknown
	ReleasedFor   string   `json:"releasedFor,omitempty"`       // cause of the last release, also while it is leased again
	Engine        string   `json:"engine,omitempty"`            // "go" when this program acquired it, or created it in mid-shard
	Kind          string   `json:"kind,omitempty"`              // "" for shards
	Task          string   `json:"task,omitempty"`              // for other kinds: the task, as JSON that only this kind reads
	End           int64    `json:"end,omitempty"`               // for a part of a split shard: the first ordinal after it; 0 = the end of the shard
}

// Exponent is a small non-negative integer. Any other stored value reads as 0.
type Exponent int

// UnmarshalJSON reads a number; missing, negative, fractional or foreign values are 0.
func (e *Exponent) UnmarshalJSON(b []byte) error {
	*e = 0
	var f float64
	if json.Unmarshal(b, &f) == nil && f > 0 && f == math.Trunc(f) && f < 1<<20 {
		*e = Exponent(f)
	}
	return nil
}

// NewItem returns a free item that was never leased, for seeding or for a successor.
func NewItem(id string, creator string, exponent int) Item {
	return Item{ID: id, ScriptVersion: ScriptVersion, CreatorID: creator, Exponent: Exponent(max(0, exponent))}
}

// engine marks the items that this program acquired or created in mid-shard.
const engine = "go"

// newSuccessor is NewItem for an item in the middle of a shard. It marks the item, because its cursor counts ordinals as this program does.
func newSuccessor(id, creator string, exponent int) Item {
	it := NewItem(id, creator, exponent)
	it.Engine = engine
	return it
}

// MaxTask is the longest task of an item, in bytes.
const MaxTask = 16 << 10

// Root is the first item of a chain.
type Root struct {
	ID   ItemID
	Task string // for other kinds than shards
	End  int64  // for a part of a split shard, as Item.End
	// Exponent is the minimum exponent of the first lease, for other kinds than shards.
	Exponent int
}

// newOf is newSuccessor for an item of the chain of a root: it has the root's kind, task and end.
func newOf(id string, of Root, creator string, exponent int) Item {
	it := newSuccessor(id, creator, exponent)
	it.Kind, it.Task, it.End = of.ID.Kind, of.Task, of.End
	return it
}

// Range parses the item's id. It returns an error for SetupID.
func (it Item) Range() (ItemID, error) { return ParseID(it.ID) }

// Open reports whether the item is not completed.
func (it Item) Open() bool { return it.CompletedAt == 0 }

// FailedItem reports whether the item was given up.
func (it Item) FailedItem() bool { return it.CompletedAt != 0 && it.Status == StatusFailed }

// SuccessorIDs returns the stored successors, or nil.
func (it Item) SuccessorIDs() []string {
	if it.Successors == "" {
		return nil
	}
	return strings.Split(it.Successors, ",")
}

// Begin returns the ordinal at which the next holder starts: the recorded watermark or the cursor.
func (it Item) Begin() int64 {
	id, err := it.Range()
	if err != nil {
		return it.Watermark
	}
	return max(id.Cursor, it.Watermark)
}
