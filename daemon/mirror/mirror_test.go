package mirror

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// content is a store's content that a test changes.
type content struct {
	rng *rand.Rand
	r   progress.Reading
}

func newSession(indices, shards int) *content {
	s := &content{rng: rand.New(rand.NewPCG(1, 2))}
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

// change makes n items differ as workers would.
func (s *content) change(n int) {
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

// pack returns a reading as another node receives it.
func pack(t testing.TB, r *progress.Reading) []byte {
	t.Helper()
	packed, err := Pack(r)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

func TestPack_HasTheSumOfTheStore(t *testing.T) {
	s := newSession(20, 5)
	s.r.Items = append(s.r.Items, cms.Item{ID: "no item"})
	s.r.Indices = append(s.r.Indices, cms.Record{ID: "index:broken", Body: json.RawMessage(`[]`)})
	for round := range 30 {
		s.change(10 * round)
		if round == 10 { // an index is gone
			s.r.Items, s.r.Indices = append(s.r.Items[:1:1], s.r.Items[6:]...), s.r.Indices[1:]
		}
		s.r.Followed, s.r.Undone = round >= 15, round >= 25 // before its first round, it is followed without rounds
		if round == 20 {                                    // it is a round of a cluster that is followed
			s.r.Session, s.r.Cutover = "live-round-3", session.Cutover{State: session.CutoverReturned, Reason: "the target is silent", Ordered: 1_000_000_000_000}
			s.r.Rounds = session.Followed{FailedBefore: 2, Failures: 1, Failure: "shard 0 is damaged", Rounds: []session.Round{{Number: 2, Snapshot: "a", Started: 1, Arrived: 2}, {Number: 3, Started: 3}}}
		}
		r, err := Unpack(pack(t, &s.r))
		if err != nil || r.Session != s.r.Session {
			t.Fatalf("%d: session %q, %v", round, r.Session, err)
		}
		if got, want := sum(t, r), sum(t, &s.r); got != want {
			t.Fatalf("round %d:\n%s\nwant\n%s", round, got, want)
		}
	}
}

func TestPack_LeavesOutWhatNoSumReads(t *testing.T) {
	s := newSession(1, 1)
	s.r.Items[1].Checks = `["` + string(randomText(s.rng, 1<<20)) + `"]`
	s.r.Indices[0].Body = json.RawMessage(`{"name":"x","shards":1,"other":"` + strings.Repeat("y", 1<<20) + `"}`)
	if packed := pack(t, &s.r); len(packed) > 2000 {
		t.Errorf("%d bytes", len(packed))
	}
}

func TestPack_RefusesWhatIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		name string
		r    progress.Reading
	}{
		{"rows", progress.Reading{Redriven: make([]cms.Record, maxRows+1)}},
		{"shards", progress.Reading{Indices: []cms.Record{{ID: "index:x", Body: json.RawMessage(`{"name":"x","shards":1000000000}`)}}}},
		{"bytes", progress.Reading{Items: []cms.Item{{ID: "x", Failure: strings.Repeat("x", maxPlain)}}}},
		{"compressed bytes", progress.Reading{Items: []cms.Item{{ID: "x", Failure: string(randomText(rand.New(rand.NewPCG(1, 1)), MaxPacked*5/4))}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if b, err := Pack(&c.r); !errors.Is(err, fault.ErrUnsupported) {
				t.Errorf("%d bytes, %v", len(b), err)
			}
		})
	}
}

func TestUnpack_RefusesWhatIsNotAReading(t *testing.T) {
	s := newSession(30, 3)
	whole := pack(t, &s.r)
	lines := func(text string) []byte {
		var b bytes.Buffer
		z, _ := zstd.NewWriter(&b, zstd.WithWindowSize(maxWindow))
		_, _ = io.WriteString(z, text)
		_ = z.Close()
		return b.Bytes()
	}
	zeros := strings.Repeat(" ", maxPlain+1) + `{}`
	if _, err := Unpack(lines(`{"items":1}{"id":"a"}`)); err != nil {
		t.Fatal(err)
	}
	for name, packed := range map[string][]byte{
		"nothing": nil, "rubbish": []byte("rubbish"), "half": whole[:len(whole)/2], "no header": lines(""), "another value": lines("[]"),
		"fewer items than stated": lines(`{"items":2}{"id":"a"}`), "a negative number": lines(`{"items":-1}`), "more rows than the limit": lines(`{"items":1,"phases":1048576}` + strings.Repeat(`{}`, maxRows+1)),
		"too many bytes": make([]byte, MaxPacked+1), "too many bytes unpacked": lines(zeros),
		"a shard number":     lines(fmt.Sprintf(`{"items":1}{"id":%q}`, cms.ItemID{Index: "lie", Shard: 1 << 30}.String())),
		"a number of shards": lines(`{"indices":1}{"id":"index:lie","kind":"","body":{"name":"lie","shards":1000000000}}`),
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := Unpack(packed); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// FuzzUnpack unpacks input that another node could send.
func FuzzUnpack(f *testing.F) {
	s := newSession(1, 2)
	packed, _ := Pack(&s.r)
	f.Add(packed)
	z, _ := zstd.NewReader(bytes.NewReader(packed))
	plain, _ := io.ReadAll(z)
	f.Add(plain)
	f.Fuzz(func(_ *testing.T, b []byte) {
		var packed bytes.Buffer
		z, _ := zstd.NewWriter(&packed, zstd.WithWindowSize(maxWindow))
		_, _ = z.Write(b)
		_ = z.Close()
		for _, sent := range [][]byte{b, packed.Bytes()} {
			if r, err := Unpack(sent); err == nil {
				_, _, _ = status.Sum(r)
			}
		}
	})
}

func randomText(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte('!' + rng.IntN(90))
		if b[i] == '"' || b[i] == '\\' {
			b[i] = 'x'
		}
	}
	return b
}
