package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"github.com/klauspost/compress/zstd"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func testMachine(t testing.TB, limit int64) *fsm {
	t.Helper()
	m, err := newFSM(t.TempDir(), limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.close() })
	return m
}

func entry(t testing.TB, c command) *raft.Log {
	t.Helper()
	b, err := c.encode()
	if err != nil {
		t.Fatal(err)
	}
	return &raft.Log{Type: raft.LogCommand, Data: b}
}

func hint(kind, key string, expires int64, payload string) Hint {
	return Hint{Kind: kind, Key: key, Expires: expires, Payload: json.RawMessage(payload)}
}

func listed(t testing.TB, m *fsm, kind string, now int64) []Hint {
	t.Helper()
	all, err := m.list(kind, time.UnixMilli(now))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheLastHintOfAKeyCountsUntilItExpires(t *testing.T) {
	m := testMachine(t, maxBytes)
	m.ApplyBatch([]*raft.Log{
		entry(t, command{Put: []Hint{hint("size", "a/0", 100, "1"), hint("size", "a/1", 50, "2"), hint("sizes", "a/0", 100, "3")}}),
		entry(t, command{Put: []Hint{hint("size", "a/0", 90, "4")}}),
	})
	want := []Hint{hint("size", "a/0", 90, "4"), hint("size", "a/1", 50, "2")}
	if got := listed(t, m, "size", 10); !reflect.DeepEqual(got, want) {
		t.Errorf("hints %+v", got)
	}
	if got := listed(t, m, "size", 60); len(got) != 1 {
		t.Errorf("an expired hint is read: %+v", got)
	}
	m.Apply(entry(t, command{Sweep: 95}))
	if got := listed(t, m, "size", 10); len(got) != 0 {
		t.Errorf("swept hints are there: %+v", got)
	}
	if got := listed(t, m, "sizes", 10); len(got) != 1 {
		t.Errorf("a hint that lives was swept: %+v", got)
	}
}

func TestHintsStayBelowTheirLimitAndTheFirstToExpireGo(t *testing.T) {
	const limit = 100 << 10
	m := testMachine(t, limit)
	payload, _ := json.Marshal(string(bytes.Repeat([]byte("x"), 1000)))
	for i := range 200 {
		m.Apply(entry(t, command{Put: []Hint{hint("k", fmt.Sprint(i), int64(1000+i), string(payload))}}))
	}
	got := listed(t, m, "k", 1)
	total := int64(0)
	for _, h := range got {
		total += h.size()
		if h.Expires < 1100 {
			t.Errorf("hint %s that expires early is kept", h.Key)
		}
	}
	if total > limit || total < limit/2 {
		t.Errorf("%d bytes are kept of %d", total, limit)
	}
}

func TestEveryNodeHasTheSameHintsAlsoBySnapshot(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	a, b, c := testMachine(t, 20<<10), testMachine(t, 20<<10), testMachine(t, 20<<10)
	c.Apply(entry(t, command{Put: []Hint{hint("old", "gone", 1000, "1")}}))
	var logs []*raft.Log
	for i := range 400 {
		cmd := command{Put: []Hint{hint("k", fmt.Sprint(rng.IntN(80)), int64(1+rng.IntN(500)), fmt.Sprintf("%q", bytes.Repeat([]byte("y"), rng.IntN(900))))}}
		if rng.IntN(10) == 0 {
			cmd.Sweep = int64(rng.IntN(i + 1))
		}
		logs = append(logs, entry(t, cmd))
	}
	logs = append(logs, &raft.Log{Type: raft.LogCommand, Data: []byte("rubbish")}, &raft.Log{Type: raft.LogNoop})
	for _, l := range logs[:200] { // one by one here, in batches there
		a.Apply(l)
	}
	a.ApplyBatch(logs[200:])
	b.ApplyBatch(logs[:300])
	snap, err := b.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	b.ApplyBatch(logs[300:]) // continues while the snapshot is written
	sink := &memorySink{}
	if err := snap.Persist(sink); err != nil {
		t.Fatal(err)
	}
	snap.Release()
	if err := c.Restore(io.NopCloser(bytes.NewReader(sink.Bytes()))); err != nil {
		t.Fatal(err)
	}
	c.ApplyBatch(logs[300:])
	for _, kind := range []string{"k", "old"} {
		want := listed(t, a, kind, 0)
		if got := listed(t, b, kind, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d hints and %d", kind, len(want), len(got))
		}
		if got := listed(t, c, kind, 0); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %d hints and %d after a snapshot", kind, len(want), len(got))
		}
	}
}

type memorySink struct{ bytes.Buffer }

func (*memorySink) ID() string    { return "1" }
func (*memorySink) Cancel() error { return nil }
func (*memorySink) Close() error  { return nil }

func TestASnapshotThatIsNoneOrTooBigIsRefusedAndTheHintsStay(t *testing.T) {
	m := testMachine(t, 10<<10)
	m.Apply(entry(t, command{Put: []Hint{hint("k", "a", 1000, "1")}}))
	var bomb bytes.Buffer
	z, _ := zstd.NewWriter(&bomb)
	_, _ = z.Write(make([]byte, 8<<20))
	_ = z.Close()
	for name, b := range map[string][]byte{"rubbish": []byte("rubbish"), "bomb": bomb.Bytes()} {
		if err := m.Restore(io.NopCloser(bytes.NewReader(b))); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if got := listed(t, m, "k", 0); len(got) != 1 {
		t.Errorf("hints are gone: %+v", got)
	}
}

func TestHintsOutOfBoundsAreRefused(t *testing.T) {
	for _, h := range []Hint{{Key: "a", Expires: 1}, {Kind: "k"}, {Kind: "k", Expires: 1, Payload: make([]byte, maxPayload+1)}, {Kind: "k", Expires: 1, Key: string(make([]byte, maxKey+1))}} {
		if _, err := (command{Put: []Hint{h}}).encode(); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// FuzzApply applies log entries that a faulty voter could write.
func FuzzApply(f *testing.F) {
	f.Add([]byte(`{"put":[{"k":"size","i":"a","e":100,"p":{"n":1}},{"k":"size","i":"a","e":5,"p":2}]}`), int64(50))
	f.Add([]byte(`{"sweep":9223372036854775807}`), int64(-1))
	m := testMachine(f, 4<<10)
	f.Fuzz(func(t *testing.T, b []byte, sweep int64) {
		defer fuzzing.Bounded(t, len(b))()
		for _, l := range []*raft.Log{{Type: raft.LogCommand, Data: b}, entry(t, command{Sweep: sweep})} {
			if err, ok := m.Apply(l).(error); ok && !errors.Is(err, errInvalidCommand) {
				t.Fatal(err)
			}
		}
	})
}
