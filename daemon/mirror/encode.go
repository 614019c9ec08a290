package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Part is one hint of a mirror.
type Part struct {
	Key     string
	Payload json.RawMessage
	TTL     time.Duration
}

const (
	headKey = "head"
	// rowsPerBucket is about how many items and records one bucket has: a change of one is written with the others of its bucket.
	rowsPerBucket = 4
	maxBuckets    = 1 << 16
	// chunkSize is how many compressed bytes one hint has, which are a third more as text.
	chunkSize = 2900
	maxChunks = 256
	maxBytes  = 24 << 20  // of all payloads, so that other hints have room
	maxPlain  = 192 << 20 // of all buckets, unpacked
	maxBucket = 8 << 20   // of one bucket, unpacked
	maxShards = 1 << 20   // that the sum of a reading lists
	// partTTL is how long a bucket lasts that does not change; renewBefore is when it is written again.
	partTTL     = 24 * time.Hour
	renewBefore = 12 * time.Hour
	// headTTL is for how long the reading of a leader that is gone is used.
	headTTL = 10 * time.Minute
)

// head is written after all buckets. It says what they have to be.
type head struct {
	At         int64           `json:"at"` // epoch ms by the store's clock
	Kind       string          `json:"kind,omitempty"`
	Seeded     bool            `json:"seeded,omitempty"`
	Buckets    int             `json:"buckets"`
	Items      int             `json:"items"`
	Digest     string          `json:"digest"` // SHA-256 over the SHA-256 of each bucket
	Intent     progress.Intent `json:"intent"`
	Repository string          `json:"repository,omitempty"`
	Snapshot   string          `json:"snapshot,omitempty"`
}

// chunk is the payload of one hint of a bucket.
type chunk struct {
	Sum   string `json:"s"` // the first bytes of the SHA-256 of the bucket, so that chunks of two versions are not mixed
	Count int    `json:"c"`
	Data  []byte `json:"d"`
}

// bucket has some items and records, sorted by id.
type bucket struct {
	Items   []row        `json:"i,omitempty"`
	Indices []cms.Record `json:"x,omitempty"` // with their ids in Kind
	Phases  []cms.Record `json:"p,omitempty"` // likewise
	Again   []cms.Record `json:"r,omitempty"` // what was re-driven, likewise
}

// row is an item with what its sum and its listing are made of.
type row struct {
	ID          string       `json:"i"`
	Creator     string       `json:"b,omitempty"`
	Holder      string       `json:"h,omitempty"`
	Expiration  int64        `json:"e,omitempty"`
	Exponent    cms.Exponent `json:"x,omitempty"`
	CompletedAt int64        `json:"d,omitempty"`
	Successors  string       `json:"n,omitempty"`
	Status      string       `json:"s,omitempty"`
	Failure     string       `json:"f,omitempty"`
	Attempts    int          `json:"a,omitempty"`
	AcquiredAt  int64        `json:"q,omitempty"`
	ReportedAt  int64        `json:"g,omitempty"`
	Watermark   int64        `json:"w,omitempty"`
	Counts      []int64      `json:"c,omitempty"`
	SetupMs     int64        `json:"u,omitempty"`
	ReleasedFor string       `json:"r,omitempty"`
	Ordinals    int64        `json:"o,omitempty"` // of the shard, as its checks say
	Live        int64        `json:"l,omitempty"` // likewise
	Task        string       `json:"t,omitempty"`
	End         int64        `json:"k,omitempty"`
}

// numbers returns pointers to the counts, in the order in which a row has them.
func numbers(c *cms.Counts) []*int64 {
	return []*int64{&c.Ordinals, &c.Live, &c.Indexed, &c.Failed, &c.Filtered, &c.Bytes, &c.Kept, &c.Reduced, &c.Rebuilt, &c.KeptLast,
		&c.Retried, &c.Resent, &c.Replaced, &c.Rewrites, &c.Moved}
}

func rowOf(it cms.Item) row {
	r := row{
		ID: it.ID, Creator: it.CreatorID, Holder: it.Holder, Expiration: it.Expiration, Exponent: it.Exponent, CompletedAt: it.CompletedAt,
		Successors: it.Successors, Status: it.Status, Failure: it.Failure, Attempts: it.Attempts, AcquiredAt: it.AcquiredAt, ReportedAt: it.ReportedAt,
		Watermark: it.Watermark, SetupMs: it.SetupMs, ReleasedFor: it.ReleasedFor, End: it.End, Task: it.Task,
	}
	r.Ordinals, r.Live = progress.ShardSize(it)
	if it.Counts != (cms.Counts{}) {
		for _, n := range numbers(&it.Counts) {
			r.Counts = append(r.Counts, *n)
		}
	}
	return r
}

func (r row) item() cms.Item {
	it := cms.Item{
		ID: r.ID, CreatorID: r.Creator, Holder: r.Holder, Expiration: r.Expiration, Exponent: r.Exponent, CompletedAt: r.CompletedAt,
		Successors: r.Successors, Status: r.Status, Failure: r.Failure, Attempts: r.Attempts, AcquiredAt: r.AcquiredAt, ReportedAt: r.ReportedAt,
		Watermark: r.Watermark, SetupMs: r.SetupMs, ReleasedFor: r.ReleasedFor, Task: r.Task, End: r.End,
	}
	for i, n := range numbers(&it.Counts) {
		if i < len(r.Counts) {
			*n = r.Counts[i]
		}
	}
	if r.Ordinals > 0 || r.Live > 0 {
		it.Checks = fmt.Sprintf(`[{"ordinals":%d,"live":%d}]`, r.Ordinals, r.Live)
	}
	return it
}

// bucketsOf returns how many buckets a number of rows is kept in: a power of two, was as long as it is not too far off.
func bucketsOf(rows, was int) int {
	if was > 0 && rows >= was*rowsPerBucket/4 && rows <= was*rowsPerBucket*2 {
		return was
	}
	n := 1
	for n*rowsPerBucket < rows {
		n *= 2
	}
	return n
}

// fill distributes a reading over buckets by the hashes of ids, and returns each as JSON.
func fill(r *progress.Reading, count int) ([][]byte, error) {
	buckets := make([]bucket, count)
	of := func(id string) *bucket {
		h := fnv.New32a()
		_, _ = h.Write([]byte(id))
		return &buckets[int(h.Sum32())&(count-1)]
	}
	for _, it := range r.Items {
		b := of(it.ID)
		b.Items = append(b.Items, rowOf(it))
	}
	for _, rec := range r.Indices {
		b := of(rec.ID)
		b.Indices = append(b.Indices, recordOf(rec))
	}
	for _, rec := range r.Phases {
		b := of(rec.ID)
		b.Phases = append(b.Phases, recordOf(rec))
	}
	for _, rec := range r.Redriven {
		b := of(rec.ID)
		b.Again = append(b.Again, recordOf(rec))
	}
	all := make([][]byte, count)
	byKind := func(a, b cms.Record) int { return strings.Compare(a.Kind, b.Kind) }
	for i, b := range buckets {
		slices.SortFunc(b.Items, func(a, b row) int { return strings.Compare(a.ID, b.ID) })
		slices.SortFunc(b.Indices, byKind)
		slices.SortFunc(b.Phases, byKind)
		slices.SortFunc(b.Again, byKind)
		var err error
		if all[i], err = json.Marshal(b); err != nil {
			return nil, fmt.Errorf("mirror of the coordination store: %w", err)
		}
	}
	return all, nil
}

// recordOf returns what travels of a record: its id instead of its kind.
func recordOf(r cms.Record) cms.Record { r.Kind, r.ID = r.ID, ""; return r }

// Changes returns the parts that make a mirror equal to r when those of c are there already, the head last. It returns
// fault.ErrUnsupported if r is too large for a mirror.
func (c *Copy) Changes(r *progress.Reading, now time.Time) ([]Part, error) {
	r = r.Compact()
	rows, was := len(r.Items)+len(r.Indices)+len(r.Phases)+len(r.Redriven), 0
	if c.head != nil {
		was = c.head.Buckets
	}
	count := bucketsOf(rows, was)
	if count > maxBuckets || r.Shards() > maxShards {
		return nil, fmt.Errorf("%d items and records are too many for a mirror: %w", rows, fault.ErrUnsupported)
	}
	filled, err := fill(r, count)
	if err != nil {
		return nil, err
	}
	z, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1), zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		return nil, err
	}
	defer func() { _ = z.Close() }() // it writes nowhere
	var parts []Part
	digest, size := sha256.New(), int64(0)
	for n, plain := range filled {
		sum := sha256.Sum256(plain)
		_, _ = digest.Write(sum[:])
		if b := c.buckets[n]; b != nil && b.sum == sum && b.expires.After(now.Add(renewBefore)) {
			size += b.size
			continue
		}
		some, err := split(n, sum, z.EncodeAll(plain, nil))
		if err != nil {
			return nil, err
		}
		for _, p := range some {
			size += int64(len(p.Payload))
		}
		parts = append(parts, some...)
	}
	if size > maxBytes {
		return nil, fmt.Errorf("%d bytes are too many for a mirror: %w", size, fault.ErrUnsupported)
	}
	b, err := json.Marshal(head{
		At: r.At.UnixMilli(), Kind: r.Kind, Seeded: r.Seeded, Buckets: count, Items: len(r.Items), Digest: hex.EncodeToString(digest.Sum(nil)),
		Intent: r.Intent, Repository: r.Repository, Snapshot: r.Snapshot,
	})
	if err != nil {
		return nil, err
	}
	return append(parts, Part{Key: headKey, Payload: b, TTL: headTTL}), nil
}

// split divides a compressed bucket into hints.
func split(n int, sum [sha256.Size]byte, data []byte) (parts []Part, err error) {
	count := max(1, (len(data)+chunkSize-1)/chunkSize)
	if count > maxChunks {
		return nil, fmt.Errorf("an item or record of %d bytes is too large for a mirror: %w", len(data), fault.ErrUnsupported)
	}
	for i := range count {
		c := chunk{Sum: hex.EncodeToString(sum[:8]), Count: count, Data: data[i*chunkSize : min((i+1)*chunkSize, len(data))]}
		b, err := json.Marshal(c)
		if err != nil {
			return nil, err
		}
		parts = append(parts, Part{Key: partKey(n, i), Payload: b, TTL: partTTL})
	}
	return parts, nil
}

func partKey(bucket, chunk int) string { return fmt.Sprintf("%x.%x", bucket, chunk) }
