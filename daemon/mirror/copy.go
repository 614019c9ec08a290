package mirror

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// Copy is what a node holds of a mirror. Hints of others fill it: all is bounded, and what cannot be read is left out, so that
// count and digest do not match. The zero value is empty; its methods are for one goroutine at a time.
type Copy struct {
	head    *head
	buckets map[int]*held
	bytes   int64 // of all payloads
	plain   int64 // of all buckets, unpacked
	unzip   *zstd.Decoder
}

// held is a bucket in a Copy.
type held struct {
	sum     [sha256.Size]byte // of the unpacked bucket; zero while chunks are missing
	count   int
	chunks  map[int]chunk
	expires time.Time // of the chunk that came last
	size    int64     // of the payloads
	plain   int64
	items   []cms.Item // once they were asked for
	indices []cms.Record
	phases  []cms.Record
	again   []cms.Record
	read    bool
}

// Put takes a hint. One that is not part of a mirror, or is beyond its bounds, is left out.
func (c *Copy) Put(key string, payload json.RawMessage, expires time.Time) {
	if key == headKey {
		var h head
		if json.Unmarshal(payload, &h) == nil && h.Buckets > 0 && h.Buckets <= maxBuckets && h.Buckets&(h.Buckets-1) == 0 {
			c.head = &h
		}
		return
	}
	n, i, ok := parseKey(key)
	var ch chunk
	if !ok || json.Unmarshal(payload, &ch) != nil || ch.Count < 1 || ch.Count > maxChunks || i >= ch.Count {
		return
	}
	if c.buckets == nil {
		c.buckets = map[int]*held{}
	}
	b := c.buckets[n]
	if b == nil || b.count != ch.Count || b.chunks[0].Sum != "" && b.chunks[0].Sum != ch.Sum || b.chunks[i].Sum != "" && b.chunks[i].Sum != ch.Sum {
		c.drop(n)
		b = &held{count: ch.Count, chunks: map[int]chunk{}}
		c.buckets[n] = b
	}
	size := int64(len(payload))
	if _, again := b.chunks[i]; again { // the same, to last longer
		size = 0
	}
	if c.bytes+size > maxBytes {
		return
	}
	b.chunks[i], b.expires = ch, expires
	b.size, c.bytes = b.size+size, c.bytes+size
	if size > 0 {
		c.complete(b)
	}
}

// parseKey returns bucket and chunk of a key.
func parseKey(key string) (n, i int, ok bool) {
	first, second, ok := strings.Cut(key, ".")
	a, aerr := strconv.ParseUint(first, 16, 16)
	b, berr := strconv.ParseUint(second, 16, 16)
	return int(a), int(b), ok && aerr == nil && berr == nil && partKey(int(a), int(b)) == key
}

func (c *Copy) drop(n int) {
	if b := c.buckets[n]; b != nil {
		c.bytes, c.plain = c.bytes-b.size, c.plain-b.plain
		delete(c.buckets, n)
	}
}

// complete sets the sum of a bucket of which all chunks are there.
func (c *Copy) complete(b *held) {
	for i := range b.count {
		if b.chunks[i].Sum == "" || b.chunks[i].Sum != b.chunks[0].Sum {
			return
		}
	}
	plain, err := c.unpack(b)
	if err != nil || c.plain-b.plain+int64(len(plain)) > maxPlain {
		return
	}
	sum := sha256.Sum256(plain)
	if hex.EncodeToString(sum[:8]) != b.chunks[0].Sum {
		return
	}
	c.plain += int64(len(plain)) - b.plain
	b.sum, b.plain, b.read = sum, int64(len(plain)), false
}

// unpack returns the JSON of a bucket.
func (c *Copy) unpack(b *held) ([]byte, error) {
	if c.unzip == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxBucket))
		if err != nil {
			return nil, err
		}
		c.unzip = z
	}
	var packed []byte
	for i := range b.count {
		packed = append(packed, b.chunks[i].Data...)
	}
	return c.unzip.DecodeAll(packed, nil)
}

// ErrIncomplete means that a mirror is not there, or not whole: a leader may be writing it.
var ErrIncomplete = fmt.Errorf("the mirror of the coordination store is not complete: %w", fault.ErrUnavailable)

// At returns the time of the reading that the head is of, by the store's clock; zero without a head.
func (c *Copy) At() time.Time {
	if c.head == nil {
		return time.Time{}
	}
	return time.UnixMilli(c.head.At)
}

// Reading returns the leader's reading. It returns ErrIncomplete unless count and digest of the head are those of what c holds.
func (c *Copy) Reading() (*progress.Reading, error) {
	if c.head == nil {
		return nil, ErrIncomplete
	}
	h := c.head
	digest := sha256.New()
	for n := range h.Buckets {
		b := c.buckets[n]
		if b == nil || b.sum == [sha256.Size]byte{} {
			return nil, ErrIncomplete
		}
		_, _ = digest.Write(b.sum[:])
	}
	if hex.EncodeToString(digest.Sum(nil)) != h.Digest {
		return nil, ErrIncomplete
	}
	r := &progress.Reading{At: c.At(), Kind: h.Kind, Seeded: h.Seeded, Intent: h.Intent, Repository: h.Repository, Snapshot: h.Snapshot}
	for n := range h.Buckets {
		b := c.buckets[n]
		if err := c.decode(b); err != nil {
			return nil, errors.Join(ErrIncomplete, err)
		}
		r.Items, r.Indices, r.Phases = append(r.Items, b.items...), append(r.Indices, b.indices...), append(r.Phases, b.phases...)
		r.Redriven = append(r.Redriven, b.again...)
	}
	if len(r.Items) != h.Items || r.Shards() > maxShards {
		return nil, ErrIncomplete
	}
	return r, nil
}

func (c *Copy) decode(b *held) error {
	if b.read {
		return nil
	}
	plain, err := c.unpack(b)
	if err != nil {
		return err
	}
	var all bucket
	if err := json.Unmarshal(plain, &all); err != nil {
		return err
	}
	b.items = make([]cms.Item, 0, len(all.Items))
	for _, r := range all.Items {
		b.items = append(b.items, r.item())
	}
	b.indices, b.phases, b.read = withIDs(all.Indices), withIDs(all.Phases), true
	b.again = withIDs(all.Again)
	return nil
}

func withIDs(all []cms.Record) []cms.Record {
	for i := range all {
		all[i].ID, all[i].Kind = all[i].Kind, ""
	}
	return all
}
