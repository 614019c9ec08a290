package mirror

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
)

// session is a store's content that a test changes.
type session struct {
	rng *rand.Rand
	r   progress.Reading
}

func newSession(indices, shards int) *session {
	s := &session{rng: rand.New(rand.NewPCG(1, 2))}
	s.r = progress.Reading{At: time.UnixMilli(1_000_000_000_123), Intent: progress.Intent{State: "run"}, Repository: "s3://bucket/path", Snapshot: "snap"}
	setup := cms.NewItem(cms.SetupID, "n1_w1_a", 0)
	setup.CompletedAt = 1_000_000_000
	s.r.Items = append(s.r.Items, setup)
	for i := range indices {
		name := fmt.Sprintf("logs-2026.%04d", i)
		bytes := make([]int64, shards)
		for n := range shards {
			bytes[n] = s.rng.Int64N(50 << 30)
			it := cms.NewItem(cms.ItemID{Index: name, Shard: n}.String(), "node-17_w1_0123456789ab", 3)
			it.IndexName = name
			s.r.Items = append(s.r.Items, it)
		}
		body, _ := json.Marshal(map[string]any{"name": name, "shards": shards, "locator": map[string]any{
			"naming": map[string]any{"index": name, "types": []string{"b", "a"}, "multi": "split"}, "bytes": bytes, "other": strings.Repeat("x", 200),
		}})
		id := cms.ItemID{Index: name}.String()
		s.r.Indices = append(s.r.Indices, cms.Record{ID: "index:" + strings.TrimSuffix(id, "__0__0"), Kind: "index", State: "COMPLETED", Body: body, Revision: cms.Revision{Seq: 4}})
	}
	s.r.Phases = []cms.Record{
		{ID: "phase:snapshot", Kind: "phase", State: "COMPLETED", Body: json.RawMessage(`{"done":5,"total":9,"unit":"bytes","x":1}`), CreatedAt: 5, UpdatedAt: 9},
		{ID: "phase:docs", Kind: "phase", State: "IN_PROGRESS", Holder: "h", Expire: 2_000_000_000_000},
	}
	return s
}

// change makes n items differ as workers do.
func (s *session) change(n int) {
	s.r.At = s.r.At.Add(26 * time.Second)
	for range n {
		it := &s.r.Items[1+s.rng.IntN(len(s.r.Items)-1)]
		now := s.r.At.Unix()
		switch s.rng.IntN(12) {
		case 0:
			it.Status, it.Failure, it.CompletedAt = cms.StatusFailed, "the target rejected it", now
		case 1:
			it.CompletedAt, it.Successors = now, it.ID[:len(it.ID)-1]+"9"
		case 2:
			it.Holder, it.AcquiredAt, it.Expiration, it.Attempts = fmt.Sprintf("node-%d_w%d_%012x", s.rng.IntN(500), s.rng.IntN(40), s.rng.Int64N(1<<48)), s.r.At.UnixMilli(), now+600, s.rng.IntN(3)
			it.Checks = fmt.Sprintf(`[{"ordinals":%d,"segments":[1,2,3]}]`, s.rng.IntN(1e9))
		default:
			it.Watermark += s.rng.Int64N(1e6)
			it.Counts = it.Counts.Add(cms.Counts{Ordinals: s.rng.Int64N(1e6), Live: s.rng.Int64N(1e6), Indexed: s.rng.Int64N(1e6), Bytes: s.rng.Int64N(1e9), Kept: s.rng.Int64N(2)})
			it.SetupMs, it.ReleasedFor = s.rng.Int64N(9999), "deadline"
		}
	}
}

// publish writes what has changed into all copies and returns how many bytes these were.
func (s *session) publish(t testing.TB, leader *Copy, others ...*Copy) (parts, bytes int) {
	t.Helper()
	all, err := leader.Changes(&s.r, s.r.At)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range all {
		if len(p.Payload) > 4<<10 || len(p.Key) > 32 || p.TTL <= 0 {
			t.Fatalf("part %s of %d bytes", p.Key, len(p.Payload))
		}
		bytes += len(p.Payload) + len(p.Key)
		for _, c := range append(others, leader) {
			c.Put(p.Key, p.Payload, s.r.At.Add(p.TTL))
		}
	}
	return len(all), bytes
}

func sum(t testing.TB, r *progress.Reading) string {
	t.Helper()
	m, items, err := status.Sum(r)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal([]any{m, items, status.NewItemList(m, items, status.ItemFilter{}), status.NewAccount(m, items, status.NewFailures(), nil)})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestAMirrorHasTheSumOfTheStore(t *testing.T) {
	s, leader, other := newSession(20, 5), &Copy{}, &Copy{}
	s.r.Items = append(s.r.Items, cms.Item{ID: "no item"})
	s.r.Indices = append(s.r.Indices, cms.Record{ID: "index:broken", Body: json.RawMessage(`[]`)})
	for round := range 30 {
		s.change(round)
		if round == 10 { // an index is gone
			s.r.Items, s.r.Indices = append(s.r.Items[:1:1], s.r.Items[6:]...), s.r.Indices[1:]
		}
		if round == 20 { // many are new, so that the number of buckets changes
			more := newSession(120, 3)
			s.r.Items, s.r.Indices = append(s.r.Items, more.r.Items[61:]...), append(s.r.Indices, more.r.Indices[20:]...)
		}
		s.publish(t, leader, other)
		r, err := other.Reading()
		if err != nil {
			t.Fatal(round, err)
		}
		if got, want := sum(t, r), sum(t, &s.r); got != want {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, got, want)
		}
	}
	if parts, _ := s.publish(t, leader, other); parts != 1 {
		t.Errorf("%d parts were written although nothing has changed", parts)
	}
	if parts, _ := s.publish(t, other, &Copy{}); parts != 1 {
		t.Errorf("a new leader wrote %d parts although nothing has changed", parts)
	}
	s.r.At = s.r.At.Add(13 * time.Hour)
	if parts, _ := s.publish(t, leader); parts < 100 {
		t.Errorf("%d parts were written again before they expire", parts)
	}
}

func TestAnIncompleteMirrorIsNotUsed(t *testing.T) {
	s := newSession(30, 3)
	all, err := (&Copy{}).Changes(&s.r, s.r.At)
	if err != nil {
		t.Fatal(err)
	}
	for skip := range all {
		c := &Copy{}
		for i, p := range all {
			if i != skip {
				c.Put(p.Key, p.Payload, s.r.At.Add(p.TTL))
			}
		}
		if _, err := c.Reading(); !errors.Is(err, ErrIncomplete) {
			t.Errorf("without %s: %v", all[skip].Key, err)
		}
	}
	c := &Copy{}
	s.publish(t, c)
	before := sum(t, &s.r)
	s.change(20)
	torn, err := c.Changes(&s.r, s.r.At)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range torn[:len(torn)-1] { // the leader dies before the head
		c.Put(p.Key, p.Payload, s.r.At.Add(p.TTL))
	}
	if _, err := c.Reading(); !errors.Is(err, ErrIncomplete) {
		t.Errorf("a reading between two: %v", err)
	}
	s.publish(t, c)
	if r, err := c.Reading(); err != nil || sum(t, r) != sum(t, &s.r) || sum(t, r) == before {
		t.Error("the next leader does not complete it: ", err)
	}
}

func TestLargeRecordsTravelInSeveralHints(t *testing.T) {
	s, c := newSession(2, 1024), &Copy{}
	for i := range 40 {
		s.r.Items[1+i].Failure = fmt.Sprint(i, " ", strings.Repeat(fmt.Sprint(s.rng.Int64()), 500))
	}
	s.publish(t, c)
	if r, err := c.Reading(); err != nil || sum(t, r) != sum(t, &s.r) {
		t.Fatal(err)
	}
	s.r.Items[1].Failure = ""
	for i := range s.r.Items { // fewer chunks than before
		s.r.Items[i].Failure = ""
	}
	s.publish(t, c)
	if r, err := c.Reading(); err != nil || sum(t, r) != sum(t, &s.r) {
		t.Fatal(err)
	}
}

func TestAMirrorIsBounded(t *testing.T) {
	c := &Copy{}
	big := make([]byte, chunkSize)
	b, _ := json.Marshal(chunk{Sum: "0123456789abcdef", Count: maxChunks, Data: big})
	for n := range 2 * maxBytes / len(b) {
		c.Put(partKey(n/4, n%4), b, time.Now())
	}
	if c.bytes > maxBytes || c.bytes < maxBytes-2*int64(len(b)) {
		t.Fatalf("%d bytes", c.bytes)
	}
	s := newSession(1, 1)
	s.r.Items[1].Failure = string(randomText(s.rng, 2*maxChunks*chunkSize))
	if _, err := (&Copy{}).Changes(&s.r, s.r.At); !errors.Is(err, fault.ErrUnsupported) {
		t.Errorf("an item of a megabyte: %v", err)
	}
	s = newSession(1, 1)
	lie := cms.NewItem(cms.ItemID{Index: "lie", Shard: 1 << 30}.String(), "x", 0)
	if r := s.hostile(t, lie, cms.Record{}); r != nil {
		t.Errorf("a shard number of %d was taken", 1<<30)
	}
	if r := s.hostile(t, cms.NewItem("x", "x", 0), cms.Record{ID: "index:lie", Body: json.RawMessage(`{"name":"lie","shards":1000000000}`)}); r != nil {
		t.Error("an index of a billion shards was taken")
	}
	bomb := &Copy{}
	z, _ := split(0, [32]byte{}, zeros(64<<20))
	for _, p := range z {
		bomb.Put(p.Key, p.Payload, time.Now())
	}
	if bomb.plain > maxBucket {
		t.Errorf("%d bytes were unpacked", bomb.plain)
	}
}

func TestAPartOfAnotherFormIsLeftOut(t *testing.T) {
	c := &Copy{}
	for _, p := range [][2]string{
		{"head", `{"buckets":3}`}, {"head", `{"buckets":-1}`}, {"head", `{"buckets":1048576}`}, {"head", `[]`}, {"x", `{}`}, {"0.0", `{"s":"a","c":0}`},
		{"0.0", `{"s":"a","c":99999}`}, {"0.5", `{"s":"a","c":2}`}, {"00.0", `{"s":"a","c":1}`}, {"fffff.0", `{"s":"a","c":1}`}, {"0.0", `1`},
	} {
		c.Put(p[0], json.RawMessage(p[1]), time.Now())
	}
	if c.head != nil || len(c.buckets) != 0 {
		t.Errorf("%+v", c)
	}
}

// FuzzCopy gives a copy what a voter could send.
func FuzzCopy(f *testing.F) {
	s := newSession(1, 2)
	all, _ := (&Copy{}).Changes(&s.r, s.r.At)
	for _, p := range all {
		f.Add(p.Key, []byte(p.Payload))
	}
	f.Fuzz(func(t *testing.T, key string, payload []byte) {
		c := &Copy{}
		for _, p := range all {
			c.Put(p.Key, p.Payload, s.r.At)
		}
		c.Put(key, payload, s.r.At)
		if r, err := c.Reading(); err == nil && !reflect.DeepEqual(r.Intent, progress.Intent{}) {
			_, _, _ = status.Sum(r)
		}
	})
}

func randomText(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
	}
	return b
}

// zeros returns a compressed bucket of n zeros.
func zeros(n int) []byte {
	z, _ := zstd.NewWriter(nil)
	defer z.Close()
	return z.EncodeAll(make([]byte, n), nil)
}

// hostile returns what a copy makes of a mirror that a peer wrote with these, nil for nothing.
func (s *session) hostile(t *testing.T, it cms.Item, rec cms.Record) *progress.Reading {
	t.Helper()
	plain, err := json.Marshal(bucket{Items: []row{rowOf(it)}, Indices: []cms.Record{recordOf(rec)}})
	if err != nil {
		t.Fatal(err)
	}
	z, _ := zstd.NewWriter(nil)
	defer z.Close()
	sum := sha256.Sum256(plain)
	parts, err := split(0, sum, z.EncodeAll(plain, nil))
	if err != nil {
		t.Fatal(err)
	}
	c := &Copy{}
	for _, p := range parts {
		c.Put(p.Key, p.Payload, s.r.At)
	}
	digest := sha256.Sum256(sum[:])
	c.Put(headKey, json.RawMessage(fmt.Sprintf(`{"at":1,"buckets":1,"items":1,"digest":"%x"}`, digest)), s.r.At)
	r, err := c.Reading()
	if err != nil && !errors.Is(err, ErrIncomplete) {
		t.Fatal(err)
	}
	return r
}
