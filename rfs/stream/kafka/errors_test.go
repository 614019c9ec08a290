package kafka

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

// TestNew_WhereCredentialsAreSent checks that they are not sent in the clear.
func TestNew_WhereCredentialsAreSent(t *testing.T) {
	for _, c := range []struct {
		name    string
		conf    Config
		refused bool
	}{
		{"without TLS", Config{Brokers: []string{"127.0.0.1:1"}, Mechanism: "PLAIN"}, true},
		{"without TLS on loopback", Config{Brokers: []string{"localhost:1", "127.0.0.2:1", "[::1]:1"}, Mechanism: "PLAIN", PlainLoopback: true}, false},
		{"without TLS on loopback and elsewhere", Config{Brokers: []string{"localhost:1", "10.0.0.1:1"}, Mechanism: "PLAIN", PlainLoopback: true}, true},
		{"without TLS to a name", Config{Brokers: []string{"broker.example:1"}, Mechanism: "PLAIN", PlainLoopback: true}, true},
		{"with TLS", Config{Brokers: []string{"broker.example:1"}, Mechanism: "SCRAM-SHA-256", TLS: &tls.Config{}}, false},
		{"none", Config{Brokers: []string{"broker.example:1"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.conf.Topic, c.conf.Fetch, c.conf.Batch = name, 1<<20, 1<<20
			topic, err := New(c.conf)
			if (err != nil) != c.refused || err != nil && !errors.Is(err, fault.ErrConfig) {
				t.Errorf("%v", err)
			}
			if err == nil {
				_ = topic.Close()
			}
		})
	}
	if _, err := New(Config{Brokers: []string{"a:x"}, Topic: name, Fetch: 1 << 20, Batch: 1 << 20}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("an address that is none: %v", err)
	}
}

// TestDial_TLS checks that a broker which waiting does not make trustworthy is named.
func TestDial_TLS(t *testing.T) {
	plain, secured := httptest.NewServer(nil), httptest.NewTLSServer(nil)
	defer plain.Close()
	defer secured.Close()
	for _, c := range []struct {
		name, address string
		config        *tls.Config
		refused       bool // for good
		err           bool
	}{
		{"a broker without TLS", plain.Listener.Addr().String(), &tls.Config{ServerName: "example.com"}, true, true},
		{"a certificate of an unknown authority", secured.Listener.Addr().String(), &tls.Config{ServerName: "example.com"}, true, true},
		{"no broker", "127.0.0.1:1", &tls.Config{ServerName: "example.com"}, false, true},
		{"a certificate that is trusted", secured.Listener.Addr().String(), secured.Client().Transport.(*http.Transport).TLSClientConfig, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			topic, err := New(Config{Brokers: []string{c.address}, Topic: name, TLS: c.config, Fetch: 1 << 20, Batch: 1 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer topic.Close() //nolint:errcheck // of a test
			conn, err := topic.dial(t.Context(), "tcp", c.address)
			if err == nil {
				_ = conn.Close()
			}
			if (err != nil) != c.err || errors.Is(err, fault.ErrConfig) != c.refused || (topic.refused.Load() != nil) != c.refused {
				t.Errorf("%v", err)
			}
			if c.refused && !errors.Is(topic.classify(t.Context(), errors.New("no connection")), fault.ErrConfig) {
				t.Error("the reason is forgotten")
			}
		})
	}
}

// TestClassify_Categories checks that each error has the category that decides whether waiting helps.
func TestClassify_Categories(t *testing.T) {
	topic, err := New(Config{Brokers: []string{"a:1", "b:2"}, Topic: name, Group: "g", Batch: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer topic.Close() //nolint:errcheck // of a test
	m := &messages{topic: topic, partition: 3}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name string
		got  error
		is   error // nil: no error
		says string
	}{
		{"none", topic.classify(t.Context(), nil), nil, ""},
		{"the run has ended", topic.classify(ended, kerr.UnknownTopicOrPartition), context.Canceled, ""},
		{"the topic is missing", topic.classify(t.Context(), fmt.Errorf("x: %w", kerr.UnknownTopicOrPartition)), fault.ErrConfig, "topic orders, group g: the topic does not exist"},
		{"the group has consumers", topic.classify(t.Context(), kerr.UnknownMemberID), fault.ErrConfig, "choose another --group"},
		{"any other", topic.classify(t.Context(), kerr.NotLeaderForPartition), fault.ErrUnavailable, "brokers a:1, b:2"},
		{"messages were lost", m.classify(t.Context(), fmt.Errorf("x: %w", &kgo.ErrDataLoss{})), fault.ErrConfig, "partition 3 of topic orders: the brokers lost messages"},
		{"a batch unpacks to too much", m.classify(t.Context(), fmt.Errorf("x: %w", &kgo.ErrDecompressTooLarge{Offset: 7})), fault.ErrConfig, "at offset 7 is longer than --max-batch-size, 100 bytes"},
		{"another one of a partition", m.classify(t.Context(), errors.New("odd")), fault.ErrUnavailable, "partition 3: odd"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !errors.Is(c.got, c.is) || c.is != nil && !strings.Contains(c.got.Error(), c.says) {
				t.Errorf("%v, want %v: %s", c.got, c.is, c.says)
			}
		})
	}
	topic.OnBrokerRead(kgo.BrokerMetadata{}, 0, 0, 0, 0, nil)
	topic.OnBrokerRead(kgo.BrokerMetadata{}, 0, 0, 0, 0, errors.New("connection reset"))
	if topic.refused.Load() != nil {
		t.Errorf("an error that passes is kept: %v", *topic.refused.Load())
	}
	topic.OnBrokerRead(kgo.BrokerMetadata{}, 0, 0, 0, 0, errors.New("invalid large response size 5 > 3"))
	if _, err := m.Next(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--max-batch-size, 100 bytes") {
		t.Errorf("an answer that is too long: %v", err)
	}
}

// TestTopic_OddAnswers checks that an answer of a broker which does not fit is not taken, and errors in it have their category.
func TestTopic_OddAnswers(t *testing.T) {
	describe := func(ctx context.Context, topic *Topic) error {
		_, err := topic.Describe(ctx)
		return err
	}
	committed := func(ctx context.Context, topic *Topic) error {
		_, err := topic.Committed(ctx)
		return err
	}
	commit := func(ctx context.Context, topic *Topic) error { return topic.Commit(ctx, map[int]int64{1: 5}) }
	partitions := func(n int) func(kmsg.Request, kmsg.Response) {
		return func(_ kmsg.Request, r kmsg.Response) {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.Partitions = kmsg.StringPtr(name), make([]kmsg.MetadataResponseTopicPartition, n)
			r.(*kmsg.MetadataResponse).Topics = []kmsg.MetadataResponseTopic{topic}
		}
	}
	offsets := func(all ...[3]int64) func(kmsg.Request, kmsg.Response) { // partition, offset, code of an error
		return func(_ kmsg.Request, r kmsg.Response) {
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = name
			for _, x := range all {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.Offset, p.ErrorCode = int32(x[0]), x[1], int16(x[2])
				topic.Partitions = append(topic.Partitions, p)
			}
			r.(*kmsg.ListOffsetsResponse).Topics = []kmsg.ListOffsetsResponseTopic{topic}
		}
	}
	for _, c := range []struct {
		name   string
		key    kmsg.Key
		answer func(kmsg.Request, kmsg.Response)
		do     func(context.Context, *Topic) error
		is     error
		says   string
	}{
		{"of no topic", kmsg.Metadata, func(kmsg.Request, kmsg.Response) {}, describe, fault.ErrUnavailable, "an answer about 0 topics"},
		{"too many partitions", kmsg.Metadata, partitions(consume.MaxPartitions + 1), describe, fault.ErrConfig, "partitions, at most"},
		{"an error of a partition", kmsg.ListOffsets, offsets([3]int64{0, 0, 0}, [3]int64{1, 0, int64(kerr.TopicAuthorizationFailed.Code)}), describe, fault.ErrConfig, "partition 1"},
		{"a partition is missing", kmsg.ListOffsets, offsets([3]int64{0, 5, 0}), describe, fault.ErrUnavailable, "offsets of 1 of 2 partitions"},
		{"a partition too many", kmsg.ListOffsets, offsets([3]int64{0, 5, 0}, [3]int64{2, 5, 0}), describe, fault.ErrUnavailable, "partition 2 has offset 5"},
		{"a negative partition", kmsg.ListOffsets, offsets([3]int64{-1, 5, 0}), describe, fault.ErrUnavailable, "partition -1"},
		{"no offset", kmsg.ListOffsets, offsets([3]int64{0, -1, 0}, [3]int64{1, 5, 0}), describe, fault.ErrUnavailable, "partition 0 has offset -1"},
		{"an error of the group", kmsg.OffsetFetch, func(_ kmsg.Request, r kmsg.Response) {
			group := kmsg.NewOffsetFetchResponseGroup()
			group.Group, group.ErrorCode = "g", kerr.GroupAuthorizationFailed.Code
			r.(*kmsg.OffsetFetchResponse).Groups = []kmsg.OffsetFetchResponseGroup{group}
		}, committed, fault.ErrConfig, "commit offsets for the group"},
		{"an error of a committed offset", kmsg.OffsetFetch, func(_ kmsg.Request, r kmsg.Response) {
			group, topic, p := kmsg.NewOffsetFetchResponseGroup(), kmsg.NewOffsetFetchResponseGroupTopic(), kmsg.NewOffsetFetchResponseGroupTopicPartition()
			p.Partition, p.ErrorCode = 1, kerr.TopicAuthorizationFailed.Code
			topic.Topic, topic.Partitions = name, []kmsg.OffsetFetchResponseGroupTopicPartition{p}
			group.Group, group.Topics = "g", []kmsg.OffsetFetchResponseGroupTopic{topic}
			r.(*kmsg.OffsetFetchResponse).Groups = []kmsg.OffsetFetchResponseGroup{group}
		}, committed, fault.ErrConfig, "partition 1"},
		{"a commit that is refused", kmsg.OffsetCommit, func(_ kmsg.Request, r kmsg.Response) {
			topic, p := kmsg.NewOffsetCommitResponseTopic(), kmsg.NewOffsetCommitResponseTopicPartition()
			topic.Topic, p.Partition, p.ErrorCode = name, 1, kerr.UnknownMemberID.Code
			topic.Partitions = append(topic.Partitions, p)
			r.(*kmsg.OffsetCommitResponse).Topics = []kmsg.OffsetCommitResponseTopic{topic}
		}, commit, fault.ErrConfig, "partition 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := brokers(t)
			topic := open(t, b, nil)
			if err := describe(t.Context(), topic); err != nil { // so that it knows the broker
				t.Fatal(err)
			}
			b.ControlKey(int16(c.key), func(r kmsg.Request) (kmsg.Response, error, bool) {
				b.KeepControl()
				answer := r.ResponseKind()
				answer.SetVersion(r.GetVersion())
				c.answer(r, answer)
				return answer, nil, true
			})
			if err := c.do(t.Context(), topic); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %v: %s", err, c.is, c.says)
			}
		})
	}
}

// TestCommitted_WhatCounts checks that offsets of other topics, and of partitions without one, are left out.
func TestCommitted_WhatCounts(t *testing.T) {
	for _, c := range []struct {
		name  string
		group func(*kmsg.OffsetFetchResponseGroup)
		want  string
	}{
		{"offsets of this topic", func(g *kmsg.OffsetFetchResponseGroup) {
			for topic, offsets := range map[string][]int64{name: {0, -1, 5}, "other": {9, 9, 9, 9}} {
				x := kmsg.NewOffsetFetchResponseGroupTopic()
				x.Topic = topic
				for n, offset := range offsets {
					p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
					p.Partition, p.Offset = int32(n), offset
					x.Partitions = append(x.Partitions, p)
				}
				g.Topics = append(g.Topics, x)
			}
		}, "map[0:0 2:5]"},
		{"a group that is not known yet", func(g *kmsg.OffsetFetchResponseGroup) { g.ErrorCode = kerr.GroupIDNotFound.Code }, "map[]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := brokers(t)
			topic := open(t, b, nil)
			b.ControlKey(int16(kmsg.OffsetFetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
				group := kmsg.NewOffsetFetchResponseGroup()
				group.Group = "g"
				c.group(&group)
				answer := r.ResponseKind().(*kmsg.OffsetFetchResponse)
				answer.SetVersion(r.GetVersion())
				answer.Groups = []kmsg.OffsetFetchResponseGroup{group}
				return answer, nil, true
			})
			if got, err := topic.Committed(t.Context()); err != nil || fmt.Sprint(got) != c.want {
				t.Errorf("%v, %v; want %s", got, err, c.want)
			}
		})
	}
}
