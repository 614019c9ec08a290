package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/coordination/progress"
	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// TestATopicArrivesWholeWhileProcessesAreKilled consumes 12 partitions with three processes: one is killed every 5 s, one joins, one
// leaves, and the broker is away for a while. Every message arrives, the account is exact, and no committed offset was ever
// ahead of the target. A part of the messages is consumed without disturbances before, for comparison.
func TestATopicArrivesWholeWhileProcessesAreKilled(t *testing.T) {
	messages := consumeNight(t)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	b := cluster.Kafka(t)
	t.Run("undisturbed", func(t *testing.T) { newBigTopic(t, n, b, "calm", min(messages, 200_000)).consume(nil) })
	t.Run("kills", func(t *testing.T) {
		x := newBigTopic(t, n, b, "big", messages)
		x.consume(&disturbances{test: x})
	})
}

// bigTopic is a topic of 12 partitions that three processes consume.
type bigTopic struct {
	t        *testing.T
	n        *cluster.Node
	b        *cluster.Broker
	c        *kafkaClient
	name     string
	messages int
	dir      string
	all      []*consumer
	begin    time.Time
}

func newBigTopic(t *testing.T, n *cluster.Node, b *cluster.Broker, name string, messages int) *bigTopic {
	x := &bigTopic{t: t, n: n, b: b, c: newKafkaClient(t, b), name: name, messages: messages, dir: t.TempDir()}
	x.c.createTopic(name, bigPartitions)
	return x
}

const bigPartitions = 12

func (x *bigTopic) start() {
	x.all = append(x.all, startConsumer(x.t, x.dir, "--brokers", x.b.Address, "--topic", x.name, "--target-host", x.n.URL, "--create-indices",
		"--partition-lease", "PT5S", "--session-name", x.name, "--log-level", "info"))
}

// end ends the process at a position as an operator does.
func (x *bigTopic) end(i int) {
	one := x.all[i]
	x.all = append(x.all[:i:i], x.all[i+1:]...)
	must(x.t, one.cmd.Process.Signal(syscall.SIGTERM))
	if err := one.cmd.Wait(); err != nil {
		x.t.Errorf("a process that was asked to end: %v\n%s", err, one.said())
	}
}

// produce sends all messages. Those of a partition have their offsets in their ids: one producer, in order.
func (x *bigTopic) produce(ctx context.Context) error {
	var mu sync.Mutex
	var wrong error
	for i := range x.messages {
		p, o := i%bigPartitions, i/bigPartitions
		r := record(x.name, int32(p), fmt.Sprintf("%d-%d", p, o), fmt.Sprintf(`{"p":%d,"o":%d,"text":"%0100d"}`, p, o, i))
		x.c.Produce(ctx, r, func(r *kgo.Record, err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil && string(r.Key) != fmt.Sprintf("%d-%d", r.Partition, r.Offset) {
				err = fmt.Errorf("%s has offset %d of partition %d", r.Key, r.Offset, r.Partition)
			}
			if wrong == nil {
				wrong = err
			}
		})
	}
	err := x.c.Flush(ctx)
	mu.Lock()
	defer mu.Unlock()
	if err == nil {
		err = wrong
	}
	return err
}

// committed looks committed messages up in the target until ctx ends: the last below each offset, and some before. It returns how many
// it has seen, and an error as soon as one is missing.
func (x *bigTopic) committed(ctx context.Context, watch *kafkaClient) (seen int, err error) {
	for ctx.Err() == nil {
		time.Sleep(300 * time.Millisecond)
		offsets, err := watch.committed(ctx, "rfsd-"+x.name)
		if err != nil {
			continue
		}
		var ids []string
		for p, offset := range offsets {
			for i := range 8 {
				if o := offset - 1; o >= 0 {
					if i > 0 {
						o = rand.Int64N(offset)
					}
					ids = append(ids, fmt.Sprintf("%d-%d", p, o))
				}
			}
		}
		if len(ids) == 0 {
			continue
		}
		got, err := foundIn(x.n, x.name, ids)
		if err == nil && got != len(ids) {
			return seen, fmt.Errorf("%d of %d committed messages are in the target: %v", got, len(ids), offsets)
		} else if err == nil {
			seen += len(ids)
		}
	}
	return seen, nil
}

// account returns what the session reports of itself; nil when it does not.
func (x *bigTopic) account() *progress.Migration {
	res := RunIn(x.t, x.dir, nil, "rfsctl", "status", "--target-host", x.n.URL, "--session-name", x.name, "--output", "json")
	var r status.Report
	if outputtest.Decode(res.Stdout, &r) != nil || r.Migration == nil || r.Migration.Stream == nil {
		return nil
	}
	return r.Migration
}

// consume consumes the topic to its end, and compares account, target and committed offsets with what was sent.
func (x *bigTopic) consume(d *disturbances) {
	t := x.t
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	produced := make(chan error, 1)
	go func() { produced <- x.produce(ctx) }()
	if d == nil { // figures of consuming alone
		must(t, <-produced)
		produced <- nil
	}
	watch := newKafkaClient(t, x.b)
	var watched sync.WaitGroup
	var seen int
	var ahead error
	watched.Go(func() { seen, ahead = x.committed(ctx, watch) })
	for range 3 {
		x.start()
	}
	x.begin = time.Now()
	told, sum := time.Now(), new(progress.Migration)
	for arrived := false; !arrived; {
		time.Sleep(time.Second)
		since := time.Since(x.begin)
		if since > 20*time.Minute {
			t.Fatalf("not consumed after %v: %+v", since, sum)
		}
		if d != nil {
			d.next(since)
		}
		now := x.account()
		if now == nil {
			continue
		}
		sum = now
		arrived = sum.Totals.Indexed >= int64(x.messages) && sum.Stream.Lag == 0 && (d == nil || d.over(since))
		if time.Since(told) > 10*time.Second {
			told = time.Now()
			t.Logf("after %v: %d messages, lag %d, %d processes listed, %d sent again", since.Round(time.Second), sum.Totals.Indexed, sum.Stream.Lag, sum.Stream.Nodes, x.writes()-sum.Totals.Indexed)
		}
	}
	took := time.Since(x.begin)
	if d != nil {
		d.started.Wait()
	}
	must(t, <-produced)
	for len(x.all) > 0 {
		x.end(0)
	}
	stop()
	watched.Wait()
	if ahead != nil {
		t.Error(ahead)
	}
	if got := documentsIn(t, x.n, x.name); got != int64(x.messages) {
		t.Errorf("%d documents are in the target, want %d", got, x.messages)
	}
	if c := sum.Totals; c.Indexed != int64(x.messages) || c.Failed+c.Filtered != 0 {
		t.Errorf("account %+v, want %d", c, x.messages)
	}
	offsets, err := newKafkaClient(t, x.b).committed(t.Context(), "rfsd-"+x.name)
	must(t, err)
	end := int64(0)
	for _, o := range offsets {
		end += o
	}
	if end != int64(x.messages) {
		t.Errorf("offsets %v sum up to %d, want %d", offsets, end, x.messages)
	}
	kills := 0
	if d != nil {
		kills = d.kills
	}
	t.Logf("%d messages in %v, %.0f/s: %d kills, partitions assigned %d times, %d sent again, %d committed messages looked up",
		x.messages, took.Round(time.Second), float64(x.messages)/took.Seconds(), kills, sum.Stream.Assignments, x.writes()-int64(x.messages), seen)
}

// writes returns how many documents the target has written, those of the same id counted again.
func (x *bigTopic) writes() int64 {
	b, err := x.n.Send(x.t.Context(), "GET", "/"+x.name+"/_stats/indexing", "", nil)
	must(x.t, err)
	var r struct {
		All struct {
			Primaries struct {
				Indexing struct {
					Total int64 `json:"index_total"`
				}
			}
		} `json:"_all"`
	}
	must(x.t, json.Unmarshal(b, &r))
	return r.All.Primaries.Indexing.Total
}

// disturbances are what happens to the processes of a session.
type disturbances struct {
	test                 *bigTopic
	joined, left, halted bool
	kills                int
	killed               time.Duration  // when the last process was killed
	started              sync.WaitGroup // done when the broker answers again
}

// away is how long the broker does not answer.
func (d *disturbances) away() time.Duration {
	if d.test.messages < 200_000 {
		return 5 * time.Second
	}
	return 30 * time.Second
}

const haltAfter = 22 * time.Second

// over reports whether everything has happened but for further kills.
func (d *disturbances) over(since time.Duration) bool {
	return d.halted && since > haltAfter+d.away()
}

// next disturbs the session as is due.
func (d *disturbances) next(since time.Duration) {
	x := d.test
	switch {
	case !d.joined && since > 12*time.Second:
		d.joined = true
		x.start()
	case !d.left && since > 18*time.Second:
		d.left = true
		x.end(0)
	case !d.halted && since > haltAfter:
		d.halted = true
		d.started.Go(func() {
			x.b.Halt()
			time.Sleep(d.away())
			if err := x.b.Start(context.Background()); err != nil {
				x.t.Errorf("start the broker again: %v", err)
			}
		})
		x.t.Cleanup(d.started.Wait)
	case since > d.killed+5*time.Second:
		d.killed = since
		d.kills++
		i := rand.IntN(len(x.all))
		x.all[i].kill()
		x.all = append(x.all[:i:i], x.all[i+1:]...)
		x.start()
	}
}
