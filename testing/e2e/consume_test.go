package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/rfsd/rfsd/testing/cluster"
	"github.com/rfsd/rfsd/testing/outputtest"
)

// kafkaClient is a client of the tests' own.
type kafkaClient struct {
	t *testing.T
	*kgo.Client
}

func newKafkaClient(t *testing.T, b *cluster.Broker) *kafkaClient {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(b.Address), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchMaxBytes(16<<20), kgo.MetadataMinAge(100*time.Millisecond))
	must(t, err)
	t.Cleanup(c.Close)
	return &kafkaClient{t, c}
}

func (c *kafkaClient) createTopic(name string, partitions int32) {
	c.t.Helper()
	ask := kmsg.NewPtrCreateTopicsRequest()
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = name, partitions, 1
	ask.Topics = append(ask.Topics, topic)
	told, err := ask.RequestWith(c.t.Context(), c.Client)
	must(c.t, err)
	must(c.t, kerr.ErrorForCode(told.Topics[0].ErrorCode))
}

func (c *kafkaClient) deleteTopic(name string) {
	c.t.Helper()
	ask := kmsg.NewPtrDeleteTopicsRequest()
	topic := kmsg.NewDeleteTopicsRequestTopic()
	topic.Topic = kmsg.StringPtr(name)
	ask.TopicNames, ask.Topics = []string{name}, append(ask.Topics, topic)
	told, err := ask.RequestWith(c.t.Context(), c.Client)
	must(c.t, err)
	must(c.t, kerr.ErrorForCode(told.Topics[0].ErrorCode))
	c.PurgeTopicsFromClient(name)
}

// send sends messages, and returns when the broker has them.
func (c *kafkaClient) send(all ...*kgo.Record) {
	c.t.Helper()
	must(c.t, c.ProduceSync(c.t.Context(), all...).FirstErr())
}

// committed returns the offsets of a group by partition.
func (c *kafkaClient) committed(ctx context.Context, group string) (map[int32]int64, error) {
	ask := kmsg.NewPtrOffsetFetchRequest()
	ask.Group = group
	told, err := ask.RequestWith(ctx, c.Client)
	if err != nil {
		return nil, err
	}
	all := map[int32]int64{}
	for _, x := range told.Topics {
		for _, p := range x.Partitions {
			all[p.Partition] = p.Offset
		}
	}
	return all, nil
}

// record is a message with an id.
func record(topic string, partition int32, key, value string) *kgo.Record {
	r := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(value)}
	if key != "" {
		r.Key = []byte(key)
	}
	if value == "" {
		r.Value = nil
	}
	return r
}

// consumer is a process of a session. Its log is a file, whose end is shown when the test fails.
type consumer struct {
	cmd *exec.Cmd
	log *os.File
}

func startConsumer(t *testing.T, dir string, args ...string) *consumer {
	t.Helper()
	log, err := os.CreateTemp(dir, "log-")
	must(t, err)
	x := &consumer{cmd: exec.Command(Binary(t, "rfsd"), append([]string{"consume"}, args...)...), log: log}
	x.cmd.Dir, x.cmd.Stdout, x.cmd.Stderr = dir, log, log
	must(t, x.cmd.Start())
	t.Cleanup(func() {
		x.kill()
		if t.Failed() {
			t.Logf("process %d:\n%s", x.cmd.Process.Pid, x.said())
		}
		must(t, log.Close())
	})
	return x
}

// said returns the end of the log.
func (x *consumer) said() string {
	const most = 8 << 10
	b, err := os.ReadFile(x.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(b[max(0, len(b)-most):])
}

func (x *consumer) kill() {
	_ = x.cmd.Process.Kill()
	_ = x.cmd.Wait()
}

func foundIn(n *cluster.Node, index string, ids []string) (int, error) {
	body, err := json.Marshal(map[string]any{"ids": ids})
	if err != nil {
		return 0, err
	}
	b, err := n.Send(context.Background(), "POST", "/"+index+"/_mget?_source=false", "application/json", body)
	if err != nil {
		return 0, err
	}
	var got struct{ Docs []struct{ Found bool } }
	if err := json.Unmarshal(b, &got); err != nil {
		return 0, err
	}
	sum := 0
	for _, d := range got.Docs {
		if d.Found {
			sum++
		}
	}
	return sum, nil
}

// sourceOf returns the source of a document; "" when there is none.
func sourceOf(t *testing.T, n *cluster.Node, index, id string) string {
	t.Helper()
	b, err := n.Send(t.Context(), "POST", "/"+index+"/_mget", "application/json", []byte(`{"ids":["`+id+`"]}`))
	must(t, err)
	var got struct {
		Docs []struct {
			Source json.RawMessage `json:"_source"`
		}
	}
	must(t, json.Unmarshal(b, &got))
	return string(got.Docs[0].Source)
}

func documentsIn(t *testing.T, n *cluster.Node, index string) int64 {
	t.Helper()
	_, err := n.Send(t.Context(), "POST", "/"+index+"/_refresh", "", nil)
	must(t, err)
	b, err := n.Send(t.Context(), "GET", "/"+index+"/_count", "", nil)
	must(t, err)
	var got struct{ Count int64 }
	must(t, json.Unmarshal(b, &got))
	return got.Count
}

// consumeNight skips what takes a broker.
func consumeNight(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("RFSD_CONSUME"))
	if err != nil {
		t.Skip("starts a broker: RFSD_CONSUME=1000000 messages")
	}
	return n
}

// streamTest is a broker and a target for short sessions.
type streamTest struct {
	t *testing.T
	n *cluster.Node
	b *cluster.Broker
	c *kafkaClient
}

// consume runs a session to its end.
func (s *streamTest) consume(topic string, more ...string) (Result, string) {
	s.t.Helper()
	dir := s.t.TempDir()
	args := append([]string{"consume", "--topic", topic, "--target-host", s.n.URL, "--create-indices", "--partition-lease", "PT5S", "--session-name", topic, "--until-end",
		"--output", "json", "--failed-documents", filepath.Join(dir, "failed"), "--unavailable-timeout", "PT10S"}, more...)
	if !strings.Contains(strings.Join(more, " "), "--brokers") {
		args = append(args, "--brokers", s.b.Address)
	}
	return RunIn(s.t, dir, []string{"RFS_BROKER_PASSWORD="}, "rfsd", args...), dir
}

func TestConsumeAgainstARealBroker(t *testing.T) {
	consumeNight(t)
	n := cluster.OpenSearch(t, targets[0])
	wipe(t, n)
	b := cluster.Kafka(t)
	s := &streamTest{t, n, b, newKafkaClient(t, b)}
	for _, c := range []struct {
		name string
		test func(*streamTest)
	}{
		{"the last message of a key counts, tombstones delete", lastOfKey}, {"what cannot be read or is rejected is recorded", unreadable},
		{"actions", actionLines}, {"TLS and SASL", securedBroker}, {"bad input", badInput}, {"a topic that is made again", topicMadeAgain}, {"a batch that is too long", longBatch},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := *s
			x.t, x.c = t, &kafkaClient{t, s.c.Client}
			c.test(&x)
		})
	}
}

// lastOfKey sends keys again and again, with deletions in between.
func lastOfKey(s *streamTest) {
	s.c.createTopic("keys", 2)
	want := map[string]string{}
	var all []*kgo.Record
	for i := range 20_000 {
		key := fmt.Sprintf("k%d", rand.IntN(300))
		value := fmt.Sprintf(`{"i":%d}`, i)
		if rand.IntN(10) == 0 {
			value = ""
		}
		want[key] = value
		all = append(all, record("keys", int32(key[len(key)-1]%2), key, value))
	}
	s.c.send(all...)
	res, _ := s.consume("keys", "--documents-per-bulk-request", "500")
	var r struct{ Counts struct{ Live, Indexed int64 } }
	if err := outputtest.Decode(res.Stdout, &r); err != nil || res.Code != 0 || r.Counts.Live != 20_000 || r.Counts.Indexed != 20_000 {
		s.t.Fatalf("exit %d, %v: %s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	there := 0
	for key, value := range want {
		if value != "" {
			there++
		}
		if got := sourceOf(s.t, s.n, "keys", key); got != value {
			s.t.Errorf("%s is %q, want %q", key, got, value)
		}
	}
	if got := documentsIn(s.t, s.n, "keys"); got != int64(there) {
		s.t.Errorf("%d documents, want %d", got, there)
	}
}

func unreadable(s *streamTest) {
	s.c.createTopic("bad", 1)
	_, err := s.n.Send(s.t.Context(), "PUT", "/bad", "application/json", []byte(`{"mappings":{"properties":{"n":{"type":"integer"}}}}`))
	must(s.t, err)
	s.c.send(record("bad", 0, "1", `{"n":1}`), record("bad", 0, "2", `no object`), record("bad", 0, "3", `{"n":"three"}`), record("bad", 0, "\xff", `{"n":4}`),
		&kgo.Record{Topic: "bad"}, record("bad", 0, "5", `{"n":5,"t":"`+strings.Repeat("x", 3<<20)+`"}`), record("bad", 0, "6", "{\n \"n\": 6\n}"), record("bad", 0, "", `{"n":7}`))
	res, dir := s.consume("bad", "--max-document-size", "2MiB")
	var r struct {
		Counts struct{ Live, Indexed, Failed int64 }
	}
	if err := outputtest.Decode(res.Stdout, &r); err != nil || res.Code != 6 || r.Counts.Live != 8 || r.Counts.Indexed != 3 || r.Counts.Failed != 5 {
		s.t.Fatalf("exit %d, %v: %s%s", res.Code, err, res.Stdout, res.Stderr)
	}
	files, err := filepath.Glob(filepath.Join(dir, "failed", "*"))
	must(s.t, err)
	text := ""
	for _, f := range files {
		b, err := os.ReadFile(f)
		must(s.t, err)
		text += string(b)
	}
	for _, want := range []string{"bad_message", "mapper_parsing_exception", "bad_id", "no_key", "too_large", "topic bad, partition 0, offset 2"} {
		if !strings.Contains(text, want) {
			s.t.Errorf("failed documents without %q: %.2000s", want, text)
		}
	}
	if got := sourceOf(s.t, s.n, "bad", "6"); !strings.Contains(got, `"n"`) {
		s.t.Errorf("6 is %q", got)
	}
}

func actionLines(s *streamTest) {
	s.c.createTopic("lines", 1)
	s.c.send(record("lines", 0, "", `{"index":{"_index":"lines-a","_id":"1","routing":"r"}}`+"\n"+`{"n":1}`+"\n"), record("lines", 0, "2", `{"create":{}}`+"\n"+`{"n":2}`),
		record("lines", 0, "", `{"index":{"_index":"lines-a","_id":"3"}}`+"\n"+`{"n":3}`), record("lines", 0, "", `{"delete":{"_index":"lines-a","_id":"3"}}`),
		record("lines", 0, "", `{"index":{"_id":"4"}}`+"\n{}\n"+`{"index":{"_id":"5"}}`+"\n{}"))
	res, _ := s.consume("lines", "--format", "bulk")
	if res.Code != 6 || documentsIn(s.t, s.n, "lines-a") != 1 || documentsIn(s.t, s.n, "lines") != 1 {
		s.t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}

func securedBroker(s *streamTest) {
	s.c.createTopic("secret", 3)
	for i := range 300 {
		s.c.Produce(s.t.Context(), record("secret", int32(i%3), strconv.Itoa(i), `{}`), nil)
	}
	must(s.t, s.c.Flush(s.t.Context()))
	password := filepath.Join(s.t.TempDir(), "password")
	must(s.t, os.WriteFile(password, []byte(s.b.Password+"\n"), 0o600))
	wrong := filepath.Join(s.t.TempDir(), "wrong")
	must(s.t, os.WriteFile(wrong, []byte("wrong\n"), 0o600))
	secured := []string{"--brokers", s.b.Secured, "--broker-tls", "--broker-cacert", s.b.CACert, "--broker-username", s.b.Username}
	_, port, _ := strings.Cut(s.b.Secured, ":")
	for _, c := range []struct {
		name string
		args []string
		says string // "": it works
	}{
		{"PLAIN", append(secured, "--broker-sasl", "PLAIN", "--broker-password-file", password), ""},
		{"SCRAM-SHA-256", append(secured, "--broker-sasl", "SCRAM-SHA-256", "--broker-password-file", password), ""},
		{"SCRAM-SHA-512", append(secured, "--broker-sasl", "SCRAM-SHA-512", "--broker-password-file", password), ""},
		{"without TLS, permitted", []string{"--brokers", s.b.Login, "--broker-plain-loopback", "--broker-username", s.b.Username, "--broker-sasl", "PLAIN", "--broker-password-file", password}, ""},
		{"without TLS", []string{"--brokers", s.b.Login, "--broker-username", s.b.Username, "--broker-sasl", "PLAIN", "--broker-password-file", password}, "sends credentials over TLS only"},
		{"wrong password", append(secured, "--broker-sasl", "PLAIN", "--broker-password-file", wrong), "refuse the credentials"},
		{"wrong password of SCRAM", append(secured, "--broker-sasl", "SCRAM-SHA-512", "--broker-password-file", wrong), "refuse the credentials"},
		{"unknown authority", []string{"--brokers", s.b.Secured, "--broker-tls", "--broker-username", s.b.Username, "--broker-sasl", "PLAIN", "--broker-password-file", password}, "certificate"},
		{"a broker that is not named", append([]string{"--brokers", "localhost:" + port}, append(secured[2:], "--broker-sasl", "PLAIN", "--broker-password-file", password)...), "which --brokers does not name"},
		{"password on the command line", append(secured, "--broker-sasl", "PLAIN", "--broker-password", "x"), "visible to other users"},
	} {
		s.t.Run(c.name, func(t *testing.T) {
			x := *s
			x.t = t
			session := "s" + strconv.Itoa(rand.Int())
			res, _ := x.consume("secret", append(c.args, "--session-name", session)...)
			switch {
			case c.says == "" && (res.Code != 0 || documentsIn(t, s.n, "secret") != 300):
				t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
			case c.says != "" && (res.Code != 1 || !strings.Contains(res.Stderr, c.says)):
				t.Errorf("exit %d, want %q: %s%s", res.Code, c.says, res.Stdout, res.Stderr)
			}
			if strings.Contains(res.Stdout+res.Stderr, s.b.Password) {
				t.Error("the password is shown")
			}
		})
	}
}

func badInput(s *streamTest) {
	s.c.createTopic("good", 1)
	for _, c := range []struct {
		name, says string
		args       []string
	}{
		{"unknown topic", "the topic does not exist", []string{"--topic", "nowhere"}},
		{"no broker", "unavailable", []string{"--brokers", "127.0.0.1:1"}},
		{"no name of a broker", "--brokers", []string{"--brokers", "127.0.0.1"}},
	} {
		res, _ := s.consume("good", c.args...)
		if res.Code != 1 || !strings.Contains(res.Stderr, c.says) {
			s.t.Errorf("%s: exit %d, want %q: %s%s", c.name, res.Code, c.says, res.Stdout, res.Stderr)
		}
	}
}

// topicMadeAgain deletes a topic and makes it again, with fewer messages and with more: a session of the first refuses both.
func topicMadeAgain(s *streamTest) {
	s.c.createTopic("again", 2)
	fill := func(n int) {
		for i := range n {
			s.c.Produce(s.t.Context(), record("again", int32(i%2), strconv.Itoa(i), `{}`), nil)
		}
		must(s.t, s.c.Flush(s.t.Context()))
	}
	fill(100)
	if res, _ := s.consume("again"); res.Code != 0 {
		s.t.Fatalf("exit %d: %s", res.Code, res.Stderr)
	}
	for _, n := range []int{10, 1000} {
		s.c.deleteTopic("again")
		time.Sleep(2 * time.Second)
		s.c.createTopic("again", 2)
		fill(n)
		res, _ := s.consume("again")
		if res.Code != 1 || !strings.Contains(res.Stderr, "deleted and made again") {
			s.t.Errorf("%d messages: exit %d: %s%s", n, res.Code, res.Stdout, res.Stderr)
		}
	}
	if res, _ := s.consume("again", "--session-name", "again2", "--group", "again2"); res.Code != 0 || documentsIn(s.t, s.n, "again") != 1000 {
		s.t.Errorf("another session: exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}

// longBatch is a message that is longer than the longest batch: an error that names the setting, and no other message is lost.
func longBatch(s *streamTest) {
	s.c.createTopic("long", 1)
	ask := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, "long"
	conf := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	conf.Name, conf.Value = "max.message.bytes", kmsg.StringPtr("20000000")
	resource.Configs = append(resource.Configs, conf)
	ask.Resources = append(ask.Resources, resource)
	_, err := ask.RequestWith(s.t.Context(), s.c.Client)
	must(s.t, err)
	s.c.send(record("long", 0, "1", `{}`))
	text := make([]byte, 6<<20)
	for i := range text {
		text[i] = 'a' + byte(rand.IntN(26))
	}
	s.c.send(record("long", 0, "2", `{"t":"`+string(text)+`"}`))
	s.c.send(record("long", 0, "3", `{"t":"`+strings.Repeat("x", 6<<20)+`"}`)) // shrinks to nothing on its way
	s.c.send(record("long", 0, "4", `{}`))
	res, _ := s.consume("long", "--fetch-size", "64KiB", "--max-batch-size", "2MiB")
	if res.Code != 1 || !strings.Contains(res.Stderr, "--max-batch-size") {
		s.t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
	res, _ = s.consume("long", "--fetch-size", "64KiB")
	if res.Code != 0 || documentsIn(s.t, s.n, "long") != 4 {
		s.t.Errorf("exit %d: %s%s", res.Code, res.Stdout, res.Stderr)
	}
}
