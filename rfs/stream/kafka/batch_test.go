package kafka

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/rawbatch"
)

// produce sends a batch as it is.
func produce(t *testing.T, c *kfake.Cluster, partition int32, records []byte, stated int32, codec kgo.CompressionCodec) (wire int) {
	t.Helper()
	wire, err := rawbatch.Produce(t.Context(), c.ListenAddrs(), name, partition, rawbatch.Batch{Records: records, Stated: stated, Codec: codec})
	if err != nil {
		t.Fatal(err)
	}
	return wire
}

// peak samples the memory of this process until the returned function is called, which returns the most that was in use.
// Garbage is collected early meanwhile, so that the samples do not depend on when a busy machine collects it.
func peak() func() uint64 {
	percent := debug.SetGCPercent(10)
	runtime.GC()
	quit, ended := make(chan struct{}), make(chan struct{})
	var most atomic.Uint64
	go func() {
		defer close(ended)
		ticker := time.NewTicker(time.Millisecond)
		defer ticker.Stop()
		for {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most.Store(max(most.Load(), m.HeapAlloc))
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
		}
	}()
	return func() uint64 {
		close(quit)
		<-ended
		debug.SetGCPercent(percent)
		return most.Load()
	}
}

// TestMessages_AreBoundedBeforeTheyUnfold has producers send small batches that take a multiple of their size as messages.
func TestMessages_AreBoundedBeforeTheyUnfold(t *testing.T) {
	zstd, plain := kgo.ZstdCompression(), kgo.NoCompression()
	for _, c := range []struct {
		name    string
		records func() []byte
		stated  int32
		codec   kgo.CompressionCodec
		refused bool
	}{
		{"600 messages with 100,000 empty headers each", func() []byte { return rawbatch.Records(600, 100_000, "") }, 600, zstd, true},
		{"5 million empty messages", func() []byte { return rawbatch.Records(5_000_000, 0, "") }, 5_000_000, zstd, true},
		{"2 million empty messages as they are", func() []byte { return rawbatch.Records(2_000_000, 0, "") }, 2_000_000, plain, true},
		{"60 messages with 100,000 empty headers each as they are", func() []byte { return rawbatch.Records(60, 100_000, "") }, 60, plain, true},
		{"a million messages that are missing", func() []byte { return []byte(strings.Repeat("x", 1<<20)) }, 1 << 20, zstd, true},
		{"a message that is missing", func() []byte { return rawbatch.Records(2, 0, "a") }, 3, zstd, true},
		{"a message that is missing as they are", func() []byte { return rawbatch.Records(2, 0, "a") }, 3, plain, true},
		{"200,000 empty messages", func() []byte { return rawbatch.Records(200_000, 0, "") }, 200_000, zstd, false},
		{"200,000 empty messages as they are", func() []byte { return rawbatch.Records(200_000, 0, "") }, 200_000, plain, false},
		{"messages with some headers", func() []byte { return rawbatch.Records(2000, 20, "value") }, 2000, zstd, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := brokers(t)
			produce(t, b, 0, rawbatch.Records(3, 0, "a"), 3, zstd)
			wire := produce(t, b, 0, c.records(), c.stated, c.codec)
			before, most := live(), peak()
			m, err := open(t, b, func(conf *Config) { conf.Fetch, conf.Batch = 4<<20, 128<<20 }).Open(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			n := int32(0)
			for err == nil && n < 3+c.stated {
				got, nerr := m.Next(ctx)
				n, err = n+int32(len(got)), nerr
			}
			used := int64(most()) - before
			t.Logf("%d bytes on the wire, %d messages, %d MB at most", wire, n, used>>20)
			if used > 400<<20 { // twice what a batch unfolds to, of which one may be garbage, and what is read; without a bound it is 2.5 GB
				t.Errorf("%d MB", used>>20)
			}
			if !c.refused {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, part := range []string{"topic " + name, "partition 0", "offset 3", fmt.Sprint(c.stated, " messages"), "--session-name"} {
				if err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%q is not in %v", part, err)
				}
			}
			if !errors.Is(err, fault.ErrConfig) && !errors.Is(err, fault.ErrCorrupt) || n > 3 {
				t.Errorf("%v after %d messages", err, n)
			}
		})
	}
}

// TestMessages_OfAllPartitionsShareOneBound has two partitions whose messages do not fit together: both are read to their ends.
func TestMessages_OfAllPartitionsShareOneBound(t *testing.T) {
	const each = 150_000
	b := brokers(t)
	records := rawbatch.Records(each, 0, "")
	for range 4 {
		produce(t, b, 0, records, each, kgo.ZstdCompression())
		produce(t, b, 1, records, each, kgo.NoCompression())
	}
	topic := open(t, b, func(conf *Config) { conf.Fetch, conf.Batch = 2<<20, 2<<20 })
	if one := cost(records, each); 2*one <= topic.unfold.most || one > topic.unfold.most {
		t.Fatalf("%d bytes of %d: the case has no meaning", one, topic.unfold.most)
	}
	most := peak()
	done := make(chan error, 2)
	for p := range 2 {
		go func() {
			m, err := topic.Open(t.Context(), p, 0)
			if err != nil {
				done <- err
				return
			}
			defer m.Close()
			ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
			defer cancel()
			for n := 0; n < 4*each; {
				got, err := m.Next(ctx)
				if err != nil {
					done <- fmt.Errorf("partition %d after %d messages: %w", p, n, err)
					return
				}
				n += len(got)
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d MB at most", most()>>20)
}

// TestCost_IsThatOfTheClient compares what is reckoned with what the client makes of records.
func TestCost_IsThatOfTheClient(t *testing.T) {
	for _, c := range []struct {
		name    string
		records []byte
		stated  int64
		want    int64
	}{
		{"none", nil, 0, 0},
		{"records", rawbatch.Records(3, 0, "abc"), 3, 3 * recordCost},
		{"headers", rawbatch.Records(3, 5, "abc"), 3, 3*recordCost + 15*headerCost},
		{"more are stated than there are bytes", rawbatch.Records(1, 0, ""), 1 << 30, int64(len(rawbatch.Records(1, 0, ""))) * recordCost},
		{"fewer are stated", rawbatch.Records(3, 5, ""), 1, recordCost + 5*headerCost},
		{"a record that is cut off", rawbatch.Records(2, 5, "abc")[:30], 2, 2*recordCost + 5*headerCost},
		{"a former format", make([]byte, 260), -1, 11 * recordCost},
		{"no numbers", []byte(strings.Repeat("\xff", 99)), 1, recordCost},
		{"records without content", []byte{0, 0, 0}, 3, 3 * recordCost},
		{"a key that is longer than the record", []byte{12, 0, 0, 0, 127, 0, 0}, 1, recordCost},
		{"more headers than bytes", append([]byte{20, 0, 0, 0, 1, 1}, 0xfe, 0xff, 0xff, 0x0f, 0), 1, recordCost + headerCost},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cost(c.records, c.stated); got != c.want {
				t.Errorf("%d, want %d", got, c.want)
			}
		})
	}
}

// FuzzBatches checks that no answer and no batch makes the reckoning fail, or makes it larger than what it may become.
func FuzzBatches(f *testing.F) {
	f.Add(rawbatch.Records(3, 2, "value"), int64(3))
	f.Add([]byte(strings.Repeat("\x80", 100)), int64(1<<40))
	f.Fuzz(func(t *testing.T, in []byte, stated int64) {
		batches(in, func(b batch) {
			if len(b.body) > len(in) {
				t.Errorf("%d bytes of %d", len(b.body), len(in))
			}
		})
		if n, most := cost(in, stated), int64(len(in)+1)*(recordCost+headerCost); n < 0 || n > most {
			t.Errorf("%d of at most %d", n, most)
		}
		_, _ = withoutHeader(in, 17)
	})
}
