package verify

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// Sum is a sum of document digests modulo 2^128. It does not depend on the order of the documents, and, unlike with XOR, duplicates do
// not cancel out.
type Sum struct{ hi, lo uint64 }

func (s *Sum) add(digest *[sha256.Size]byte) {
	s.merge(Sum{binary.BigEndian.Uint64(digest[:8]), binary.BigEndian.Uint64(digest[8:16])})
}

func (s *Sum) merge(o Sum) {
	var carry uint64
	s.lo, carry = bits.Add64(s.lo, o.lo, 0)
	s.hi, _ = bits.Add64(s.hi, o.hi, carry)
}

func (s *Sum) remove(o Sum) {
	var borrow uint64
	s.lo, borrow = bits.Sub64(s.lo, o.lo, 0)
	s.hi, _ = bits.Sub64(s.hi, o.hi, borrow)
}

// String returns the sum as 32 hexadecimal digits.
func (s Sum) String() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], s.hi)
	binary.BigEndian.PutUint64(b[8:], s.lo)
	return hex.EncodeToString(b[:])
}

// MarshalJSON returns String as JSON.
func (s Sum) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }

// UnmarshalJSON parses the form of MarshalJSON.
func (s *Sum) UnmarshalJSON(b []byte) error {
	var text string
	if err := json.Unmarshal(b, &text); err != nil {
		return err
	}
	raw, err := hex.DecodeString(text)
	if err != nil || len(raw) != 16 {
		return fmt.Errorf("%q is not a sum of 32 hexadecimal digits", text)
	}
	s.hi, s.lo = binary.BigEndian.Uint64(raw[:8]), binary.BigEndian.Uint64(raw[8:])
	return nil
}

// Tally describes a set of documents. Equal sets have equal tallies in any order of reading.
type Tally struct {
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`  // of their sources
	Keys      Sum   `json:"keys"`   // over (id, routing)
	Exact     Sum   `json:"exact"`  // over (id, routing, bytes of the source)
	Values    Sum   `json:"values"` // over (id, routing, canonical source)
}

func (t *Tally) merge(o *Tally) {
	t.Documents += o.Documents
	t.Bytes += o.Bytes
	t.Keys.merge(o.Keys)
	t.Exact.merge(o.Exact)
	t.Values.merge(o.Values)
}

func (t *Tally) add(d *digests, size int) {
	t.Documents++
	t.Bytes += int64(size)
	t.Keys.add(&d.key)
	t.Exact.add(&d.exact)
	t.Values.add(&d.values)
}

// digests are the digests of one document.
type digests struct{ key, exact, values [sha256.Size]byte }

// hasher computes digests of documents. It is used by one goroutine.
type hasher struct {
	canonical *Canonical
	h         hash.Hash
	head      []byte
	d         digests
}

func newHasher() *hasher { return &hasher{canonical: NewCanonical(), h: sha256.New()} }

// digest returns the digests of a document; they are valid until the next call.
func (h *hasher) digest(d *Document) *digests {
	h.head = binary.AppendUvarint(h.head[:0], uint64(len(d.ID)))
	h.head = append(h.head, d.ID...)
	h.head = append(h.head, d.Routing...)
	h.sum(&h.d.key, h.head)
	h.sum(&h.d.exact, h.d.key[:], d.Source)
	if canonical, exact := h.canonical.encode(d.Source); exact {
		h.sum(&h.d.values, h.d.key[:], canonical)
	} else {
		h.sum(&h.d.values, h.d.key[:], opaque, d.Source)
	}
	return &h.d
}

func (h *hasher) sum(into *[sha256.Size]byte, parts ...[]byte) {
	h.h.Reset()
	for _, p := range parts {
		h.h.Write(p) //nolint:errcheck // a hash never returns an error
	}
	h.h.Sum(into[:0])
}

// hashID returns a 64-bit hash of an id: FNV-1a with the last step of SplitMix64.
func hashID(id []byte) uint64 {
	h := uint64(14695981039346656037)
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// Sample is the fraction of ids that is compared, from 0 to 1; 0 means all. The selection is deterministic.
type Sample float64

func (s Sample) has(hash uint64) bool {
	return s <= 0 || s >= 1 || float64(hash>>11)/(1<<53) < float64(s)
}

// buckets is the number of buckets of each index, a power of two.
const buckets = 4096

func bucketOf(hash uint64) int { return int(hash & (buckets - 1)) }

// table is the tallies of one side of an index, in total and by bucket. Empty buckets are left out.
type table struct {
	all     Tally
	buckets map[int]*Tally
}

func newTable() *table { return &table{buckets: map[int]*Tally{}} }

// at returns the tally of a bucket, for changes.
func (t *table) at(bucket int) *Tally {
	b := t.buckets[bucket]
	if b == nil {
		b = &Tally{}
		t.buckets[bucket] = b
	}
	return b
}

// of returns the tally of a bucket.
func (t *table) of(bucket int) (b Tally) {
	if is := t.buckets[bucket]; is != nil {
		b = *is
	}
	return b
}

func (t *table) add(place uint64, d *digests, size int) {
	t.all.add(d, size)
	t.at(bucketOf(place)).add(d, size)
}

func (t *table) merge(o *table) {
	t.all.merge(&o.all)
	for i, b := range o.buckets {
		t.at(i).merge(b)
	}
}

// different returns the buckets in which two sides differ; keysOnly ignores the sources.
func (t *table) different(o *table, keysOnly bool) (all []int) {
	for i := range buckets {
		a, b := t.of(i), o.of(i)
		if a.Documents != b.Documents || a.Keys != b.Keys || !keysOnly && a.Exact != b.Exact {
			all = append(all, i)
		}
	}
	return all
}

// maxFailed is the maximum number of documents in a Failed, about 70 MB.
const maxFailed = 1 << 20

// Failed is a set of documents that an account names as failed, by target index and id. They are left out of the
// comparison on both sides and counted.
type Failed struct {
	all map[[16]byte]string // their indices
	by  map[string]int64    // documents by index
	sum Sum                 // of the keys
}

// Add adds a document; it returns false if the set is full.
func (f *Failed) Add(index, id string) bool { return f.add(failedKey(index, []byte(id)), index) }

// Join adds the documents of another set; it returns false if the set is full.
func (f *Failed) Join(o *Failed) bool {
	for key, index := range o.all {
		if !f.add(key, index) {
			return false
		}
	}
	return true
}

func (f *Failed) add(key [16]byte, index string) bool {
	if f.all == nil {
		f.all, f.by = map[[16]byte]string{}, map[string]int64{}
	}
	if _, known := f.all[key]; known {
		return true
	}
	if len(f.all) >= maxFailed {
		return false
	}
	f.all[key] = index
	f.sum.merge(sumOf(key))
	f.by[index]++
	return true
}

// Remove removes a document, if it is in the set.
func (f *Failed) Remove(index string, id []byte) {
	key := failedKey(index, id)
	if _, known := f.all[key]; !known {
		return
	}
	delete(f.all, key)
	f.sum.remove(sumOf(key))
	if f.by[index]--; f.by[index] == 0 {
		delete(f.by, index)
	}
}

func sumOf(key [16]byte) Sum {
	return Sum{binary.BigEndian.Uint64(key[:8]), binary.BigEndian.Uint64(key[8:])}
}

// Indices returns the indices of the documents, sorted.
func (f *Failed) Indices() []string { return slices.Sorted(maps.Keys(f.by)) }

// Len returns the number of documents.
func (f *Failed) Len() int { return len(f.all) }

// of returns the number of documents of an index.
func (f *Failed) of(index string) int64 { return f.by[index] }

// Has reports whether the account names a document. A nil account names none.
func (f *Failed) Has(index string, id []byte) bool {
	if f == nil || len(f.all) == 0 {
		return false
	}
	_, ok := f.all[failedKey(index, id)]
	return ok
}

func failedKey(index string, id []byte) [16]byte {
	b := binary.AppendUvarint(make([]byte, 0, len(index)+len(id)+binary.MaxVarintLen64), uint64(min(len(index), math.MaxInt32)))
	sum := sha256.Sum256(append(append(b, index...), id...))
	return [16]byte(sum[:16])
}
