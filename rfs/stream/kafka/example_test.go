package kafka_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/rfsd/rfsd/rfs/stream/kafka"
)

// Two messages are read from a partition, and the offset after them is committed for the group.
func Example() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	broker, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "orders"))
	if err != nil {
		log.Fatal(err)
	}
	defer broker.Close()
	produce(ctx, broker.ListenAddrs(), `{"total":3}`, `{"total":4}`)

	topic, err := kafka.New(kafka.Config{Brokers: broker.ListenAddrs(), Topic: "orders", Group: "search", Fetch: 1 << 20, Batch: 1 << 20})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = topic.Close() }()
	now, err := topic.Describe(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("offsets:", now.Partitions)
	partition, err := topic.Open(ctx, 0, now.Partitions[0].Begin)
	if err != nil {
		log.Fatal(err)
	}
	defer partition.Close()
	for next := now.Partitions[0].Begin; next < now.Partitions[0].End; {
		some, err := partition.Next(ctx)
		if err != nil {
			log.Fatal(err)
		}
		for _, m := range some {
			fmt.Println(m.Offset, string(m.Value))
			next = m.Offset + 1
		}
	}
	if err := topic.Commit(ctx, map[int]int64{0: 2}); err != nil {
		log.Fatal(err)
	}
	fmt.Println(topic.Committed(ctx))
	// Output:
	// offsets: [{0 2}]
	// 0 {"total":3}
	// 1 {"total":4}
	// map[0:2] <nil>
}

// produce sends values to the topic, in this order.
func produce(ctx context.Context, brokers []string, values ...string) {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	for _, v := range values {
		if err := client.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte(v)}).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
}
