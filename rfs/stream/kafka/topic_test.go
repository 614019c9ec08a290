package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

const name = "orders"

// brokers are one broker in this process with the topic of two partitions.
func brokers(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(2, name), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "67108864"})}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// open returns the topic as change wants it.
func open(t *testing.T, c *kfake.Cluster, change func(*Config)) *Topic {
	t.Helper()
	conf := Config{Brokers: c.ListenAddrs(), Topic: name, Group: "g", Fetch: 1 << 20, Batch: 4 << 20, Client: "test"}
	if change != nil {
		change(&conf)
	}
	topic, err := New(conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = topic.Close() })
	return topic
}

// send sends values to partition 0, each in a batch of its own.
func send(t *testing.T, c *kfake.Cluster, packed kgo.CompressionCodec, values ...[]byte) {
	t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(packed), kgo.ProducerBatchMaxBytes(64<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(t.Context(), &kgo.Record{Topic: name, Key: []byte("k"), Value: v}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// read reads n messages of a partition.
func read(t *testing.T, m consume.Messages, n int) (all []consume.Message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for len(all) < n {
		some, err := m.Next(ctx)
		if err != nil {
			t.Fatalf("after %d messages: %v", len(all), err)
		}
		for _, x := range some { // what is borrowed is only counted
			all = append(all, consume.Message{Offset: x.Offset, Value: x.Value})
		}
	}
	return all
}

func TestATopicIsReadAndItsOffsetsAreCommitted(t *testing.T) {
	c := brokers(t)
	topic := open(t, c, nil)
	send(t, c, kgo.NoCompression(), []byte("0"), []byte("1"), []byte("2"), nil)
	d, err := topic.Describe(t.Context())
	if err != nil || len(d.Partitions) != 2 || d.Partitions[0] != (consume.Range{End: 4}) || d.Partitions[1] != (consume.Range{}) || len(d.ID) != 32 {
		t.Fatalf("%+v: %v", d, err)
	}
	m, err := topic.Open(t.Context(), 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if all := read(t, m, 3); all[0].Offset != 1 || string(all[0].Value) != "1" || all[2].Offset != 3 || all[2].Value != nil {
		t.Errorf("%+v", all)
	}
	if none, err := m.Next(t.Context()); len(none) > 0 || err != nil {
		t.Errorf("behind the end: %v, %v", none, err)
	}
	if before, err := topic.Committed(t.Context()); len(before) > 0 || err != nil {
		t.Errorf("committed before: %v, %v", before, err)
	}
	if err := topic.Commit(t.Context(), map[int]int64{0: 3, 1: 0}); err != nil {
		t.Fatal(err)
	}
	if got, err := topic.Committed(t.Context()); fmt.Sprint(got) != "map[0:3 1:0]" || err != nil {
		t.Errorf("committed: %v, %v", got, err)
	}
	if err := c.DeleteTopic(name); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateTopic(name, 2, nil); err != nil {
		t.Fatal(err)
	}
	if again, err := topic.Describe(t.Context()); err != nil || again.ID == d.ID {
		t.Errorf("a topic that was made again has the id %s, %s before: %v", again.ID, d.ID, err)
	}
}

// forward returns an address of this machine behind which the broker answers until the test ends. The broker advertises its own.
func forward(t *testing.T, broker string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	t.Cleanup(serving.Wait)
	t.Cleanup(func() { _ = listener.Close() })
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", broker)
			if err != nil {
				_ = client.Close()
				continue
			}
			for from, to := range map[net.Conn]net.Conn{client: server, server: client} {
				serving.Go(func() {
					_, _ = io.Copy(to, from)
					_ = to.Close()
				})
			}
		}
	})
	return listener.Addr().String()
}

// TestWhatBrokersRefuse: each error has the category that decides whether waiting helps, and says what to do.
func TestWhatBrokersRefuse(t *testing.T) {
	secured := func(t *testing.T) *kfake.Cluster {
		return brokers(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "admin", "right"), kfake.Superuser("SCRAM-SHA-512", "admin", "right"))
	}
	refusing := func(t *testing.T) *kfake.Cluster { // as Kafka does; kfake itself ends the connection
		c := secured(t)
		c.ControlKey(int16(kmsg.SASLAuthenticate), func(r kmsg.Request) (kmsg.Response, error, bool) {
			c.KeepControl()
			answer := r.ResponseKind().(*kmsg.SASLAuthenticateResponse)
			answer.ErrorCode = kerr.SaslAuthenticationFailed.Code
			return answer, nil, true
		})
		return c
	}
	sasl := func(mechanism, password string) func(*Config) {
		return func(conf *Config) {
			conf.Mechanism, conf.Username, conf.Password, conf.PlainLoopback = mechanism, "admin", password, true
		}
	}
	read := func(from int64) func(context.Context, *Topic) error {
		return func(ctx context.Context, topic *Topic) error {
			m, err := topic.Open(ctx, 0, from)
			if err != nil {
				return err
			}
			defer m.Close()
			for err == nil && ctx.Err() == nil {
				_, err = m.Next(ctx)
			}
			return err
		}
	}
	describe := func(ctx context.Context, topic *Topic) error {
		_, err := topic.Describe(ctx)
		return err
	}
	for _, c := range []struct {
		name   string
		broker func(*testing.T) *kfake.Cluster
		change func(*Config)
		send   func(*testing.T, *kfake.Cluster)
		do     func(context.Context, *Topic) error
		is     error
		says   string
	}{
		{name: "unknown topic", change: func(conf *Config) { conf.Topic = "nowhere" }, do: describe, is: fault.ErrConfig, says: "the topic does not exist"},
		{name: "right credentials, PLAIN", broker: secured, change: sasl("PLAIN", "right"), do: describe},
		{name: "right credentials, SCRAM", broker: secured, change: sasl("SCRAM-SHA-512", "right"), do: describe},
		{name: "wrong credentials, PLAIN", broker: refusing, change: sasl("PLAIN", "wrong"), do: describe, is: fault.ErrConfig, says: "refuse the credentials"},
		{name: "wrong credentials, SCRAM", broker: refusing, change: sasl("SCRAM-SHA-512", "wrong"), do: describe, is: fault.ErrConfig, says: "refuse the credentials"},
		{name: "another address is advertised", broker: secured, change: func(conf *Config) {
			sasl("PLAIN", "right")(conf)
			conf.Brokers = []string{forward(t, conf.Brokers[0])}
		}, do: describe, is: fault.ErrConfig, says: "credentials are sent to the brokers that it names only"},
		{name: "no listener", change: func(conf *Config) { conf.Brokers = []string{"127.0.0.1:1"} }, do: describe, is: fault.ErrUnavailable, says: "brokers 127.0.0.1:1"},
		{name: "messages were deleted", do: read(1), send: func(t *testing.T, c *kfake.Cluster) {
			send(t, c, kgo.NoCompression(), []byte("0"), []byte("1"), []byte("2"))
			if err := c.DeleteRecords(name, 0, 2); err != nil {
				t.Fatal(err)
			}
		}, is: fault.ErrConfig, says: "messages were deleted before they were read"},
		{name: "the partition has shrunk", do: read(3), send: func(t *testing.T, c *kfake.Cluster) { send(t, c, kgo.NoCompression(), []byte("0")) }, is: fault.ErrConfig, says: "messages"},
		{name: "a message is longer than the limit", do: read(0), send: func(t *testing.T, c *kfake.Cluster) { send(t, c, kgo.NoCompression(), make([]byte, 6<<20)) },
			is: fault.ErrConfig, says: "--max-batch-size"},
		{name: "a message is longer than the limit when unpacked", do: read(0), send: func(t *testing.T, c *kfake.Cluster) { send(t, c, kgo.ZstdCompression(), make([]byte, 6<<20)) },
			is: fault.ErrConfig, says: "--max-batch-size, 4194304 bytes, when unpacked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			make := c.broker
			if make == nil {
				make = func(t *testing.T) *kfake.Cluster { return brokers(t) }
			}
			b := make(t)
			if c.send != nil {
				c.send(t, b)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
			defer cancel()
			err := c.do(ctx, open(t, b, c.change))
			if c.is == nil && err != nil || c.is != nil && (!errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want %q of %v", err, c.says, c.is)
			}
			if err != nil && strings.Contains(err.Error(), "right") {
				t.Errorf("the password is in the error: %v", err)
			}
		})
	}
	if _, err := New(Config{Brokers: []string{"broker.example:9092"}, Topic: name, Mechanism: "PLAIN", PlainLoopback: true}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("credentials in the clear beyond loopback: %v", err)
	}
}

// TestAPartitionHoldsWhatItAsksFor: however much a partition has, and however well it is packed, no more of it is held than
// --fetch-size twice, once as it arrives and once unpacked, and one batch.
func TestAPartitionHoldsWhatItAsksFor(t *testing.T) {
	const fetch, batch, batches = 4 << 20, 1 << 20, 80
	for _, c := range []struct {
		name   string
		packed kgo.CompressionCodec
	}{{"as they are", kgo.NoCompression()}, {"zstd", kgo.ZstdCompression()}, {"gzip", kgo.GzipCompression()}, {"lz4", kgo.Lz4Compression()}, {"snappy", kgo.SnappyCompression()}} {
		t.Run(c.name, func(t *testing.T) {
			b := brokers(t)
			value := make([]byte, batch-1024)
			all := make([][]byte, batches)
			for i := range all {
				all[i] = value
			}
			send(t, b, c.packed, all...)
			var asked atomic.Int64
			b.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				asked.Add(1)
				f := r.(*kmsg.FetchRequest)
				for _, x := range f.Topics {
					for _, p := range x.Partitions {
						if f.MaxBytes != fetch || p.PartitionMaxBytes != fetch {
							t.Errorf("%d bytes are asked for, %d of the partition", f.MaxBytes, p.PartitionMaxBytes)
						}
					}
				}
				return nil, nil, false
			})
			before := live()
			m, err := open(t, b, func(conf *Config) { conf.Fetch, conf.Batch = fetch, 8<<20 }).Open(t.Context(), 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			next, most := int64(0), int64(0)
			for next < batches {
				some, err := m.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, x := range some {
					if x.Offset != next || len(x.Value) != len(value) {
						t.Fatalf("offset %d with %d bytes, want %d with %d", x.Offset, len(x.Value), next, len(value))
					}
					next++
				}
				if next < 20 || next > batches-10 { // these wait for their target
					time.Sleep(30 * time.Millisecond)
					most = max(most, live()-before)
				}
				runtime.KeepAlive(some)
			}
			if limit := int64(8 * fetch); most > limit {
				t.Errorf("%d bytes are held, at most %d are to be", most, limit)
			}
			t.Logf("%d bytes were held at most, %d requests", most, asked.Load())
		})
	}
}

// live returns the bytes that are in use, without those of pools: these keep what they hold over one collection.
func live() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
