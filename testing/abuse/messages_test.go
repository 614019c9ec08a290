package abuse

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/testing/draw"
	"github.com/rfsd/rfsd/testing/rawbatch"
)

// TestMessagesThatUnfold has producers send small batches that take a multiple of their size as messages to two partitions: the
// process names the topic, the partition and the offset.
func TestMessagesThatUnfold(t *testing.T) {
	draw.Test(t)
	for _, c := range []struct {
		name    string
		stated  int32 // records of each batch
		headers int   // of each record
	}{
		{"600 messages with 100,000 empty headers each", 600, 100_000},
		{"13 million empty messages", 6_500_000, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "orders"), kfake.BrokerConfigs(map[string]string{"message.max.bytes": "67108864"}))
			must(t, err)
			t.Cleanup(broker.Close)
			records := rawbatch.Records(int(c.stated), c.headers, "")
			for partition := range int32(2) {
				_, err := rawbatch.Produce(t.Context(), broker.ListenAddrs(), "orders", partition, rawbatch.Batch{Records: records, Stated: c.stated, Codec: kgo.ZstdCompression()})
				must(t, err)
			}
			began := time.Now()
			e := run(t, patience, nil, "rfsd", "consume", "--brokers", broker.ListenAddrs()[0], "--topic", "orders", "--until-end", "--create-indices", "--session-name", "abuse",
				"--target-host", fakeCluster(t), "--coordinator-file", filepath.Join(t.TempDir(), "state.db"), "--failed-documents", filepath.Join(t.TempDir(), "failed"))
			said := e.stdout + e.stderr
			t.Logf("exit %d, %d MB, %.1f s", e.code, e.memory>>20, time.Since(began).Seconds())
			if e.memory > mostMemory || strings.Contains(said, "goroutine ") {
				t.Errorf("%d MB: %.1000s", e.memory>>20, said)
			}
			named := e.code == 1 && strings.Contains(said, "topic orders, partition") && strings.Contains(said, "offset 0")
			if e.late || !named {
				t.Errorf("exit %d, ran on %t: %.1000s", e.code, e.late, said)
			}
		})
	}
}
