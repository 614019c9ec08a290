package kafka

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/stream/consume"
)

// Config holds the settings of a connection to a topic.
type Config struct {
	Brokers []string // host:port
	Topic   string
	Group   string
	TLS     *tls.Config // nil: none
	// Mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512; "": no authentication. Credentials are sent only to Brokers, and only over
	// TLS unless PlainLoopback permits plain connections to loopback addresses.
	Mechanism          string
	Username, Password string
	PlainLoopback      bool
	Fetch              int64  // requested bytes per answer, for each partition
	Batch              int64  // maximum length of a batch in bytes, as received and decompressed; at least Fetch
	Client             string // id of the client in the broker's logs
}

const (
	dialTimeout    = 10 * time.Second
	requestTimeout = 20 * time.Second
	// pollTimeout is the maximum time that Next waits for messages.
	pollTimeout = 250 * time.Millisecond
	// maxPoll is the maximum number of messages that Next returns.
	maxPoll = 2000
	// latest and earliest are the special timestamps in Kafka's requests for the end and the start of a partition.
	latest, earliest = -1, -2
	readCommitted    = 1
)

// Topic is a consume.Stream.
type Topic struct {
	conf   Config
	client *kgo.Client // for all requests except for messages
	unfold *unfolding  // memory of messages
	// refused is the permanent error for a refused connection or a rejected answer.
	refused atomic.Pointer[error]
}

var _ consume.Stream = (*Topic)(nil)

// New returns a Topic without connecting. It returns fault.ErrConfig for credentials that would be sent in the clear.
func New(conf Config) (*Topic, error) {
	if conf.Mechanism != "" && conf.TLS == nil {
		if !conf.PlainLoopback {
			return nil, fmt.Errorf("credentials are sent over TLS only: %w", fault.ErrConfig)
		}
		for _, b := range conf.Brokers {
			if host, _, _ := net.SplitHostPort(b); !loopback(host) {
				return nil, fmt.Errorf("credentials are sent without TLS to brokers on loopback only, and %s is none: %w", b, fault.ErrConfig)
			}
		}
	}
	t := &Topic{conf: conf, unfold: newUnfolding(conf.Batch)}
	var err error
	if t.client, err = kgo.NewClient(t.options()...); err != nil {
		return nil, fmt.Errorf("kafka: %w: %w", err, fault.ErrConfig)
	}
	return t, nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Close closes the connections.
func (t *Topic) Close() error {
	t.client.Close()
	return nil
}

func (t *Topic) options() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(t.conf.Brokers...), kgo.ClientID(t.conf.Client), kgo.Dialer(t.dial), kgo.RetryTimeout(requestTimeout), kgo.RequestTimeoutOverhead(dialTimeout),
		kgo.MaxVersions(kversion.V3_9_0()), // later versions identify topics by ids only
		kgo.MetadataMinAge(time.Second), kgo.DisableClientMetrics(), kgo.WithHooks(t),
		kgo.FetchMaxBytes(int32(t.conf.Fetch)), kgo.FetchMaxPartitionBytes(int32(t.conf.Fetch)), kgo.BrokerMaxReadBytes(int32(t.readBytes())),
		kgo.MaxDecompressBatchBytes(int(t.conf.Batch)),
	}
	if m := t.mechanism(); m != nil {
		opts = append(opts, kgo.SASL(m))
	}
	return opts
}

// readBytes returns the maximum length of an answer, in bytes.
func (t *Topic) readBytes() int64 { return min(t.conf.Batch+overhead, 1<<30) }

// overhead is the size of an answer without its messages, in bytes.
const overhead = 1 << 20

func (t *Topic) mechanism() sasl.Mechanism {
	user, password := t.conf.Username, t.conf.Password
	switch t.conf.Mechanism {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	case "SCRAM-SHA-512":
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
	return nil
}

// dial connects to a broker. With credentials the address must be configured, since a broker may advertise any address.
func (t *Topic) dial(ctx context.Context, network, address string) (net.Conn, error) {
	if t.conf.Mechanism != "" && !slices.Contains(t.conf.Brokers, address) {
		return nil, t.refuse(fmt.Errorf("a broker advertises the address %s, which --brokers does not name: credentials are sent to the brokers that it names only: %w", address, fault.ErrConfig))
	}
	plain := &net.Dialer{Timeout: dialTimeout}
	if t.conf.TLS == nil {
		return plain.DialContext(ctx, network, address)
	}
	conn, err := (&tls.Dialer{NetDialer: plain, Config: t.conf.TLS}).DialContext(ctx, network, address)
	var unverified *tls.CertificateVerificationError
	var noTLS tls.RecordHeaderError
	if errors.As(err, &unverified) || errors.As(err, &noTLS) {
		return nil, t.refuse(fmt.Errorf("broker %s: %w: %w", address, err, fault.ErrConfig))
	}
	return conn, err
}

// refuse stores a permanent error and returns it. The client itself would retry silently.
func (t *Topic) refuse(err error) error {
	t.refused.Store(&err)
	return err
}

// OnBrokerRead detects answers that are too long. The client calls it.
func (t *Topic) OnBrokerRead(_ kgo.BrokerMetadata, _ int16, _ int, _, _ time.Duration, err error) {
	if err != nil && strings.Contains(err.Error(), "invalid large response size") {
		_ = t.refuse(fmt.Errorf("a batch of messages is longer than --max-batch-size, %d bytes: raise it (%w): %w", t.conf.Batch, err, fault.ErrConfig))
	}
}

// permanent are errors of brokers that the user must correct.
var permanent = []struct {
	err *kerr.Error
	why string
}{
	{kerr.SaslAuthenticationFailed, "the brokers refuse the credentials"},
	{kerr.UnsupportedSaslMechanism, "the brokers do not take this --broker-sasl"},
	{kerr.IllegalSaslState, "the brokers want no authentication"},
	{kerr.UnknownTopicOrPartition, "the topic does not exist"},
	{kerr.InvalidTopicException, "the name of the topic is invalid"},
	{kerr.TopicAuthorizationFailed, "the user may not read the topic"},
	{kerr.GroupAuthorizationFailed, "the user may not commit offsets for the group"},
	{kerr.ClusterAuthorizationFailed, "the user may not do this"},
	{kerr.InvalidGroupID, "the name of the group is invalid"},
	{kerr.UnknownMemberID, "the group has consumers: choose another --group"},
	{kerr.IllegalGeneration, "the group has consumers: choose another --group"},
	{kerr.OffsetOutOfRange, "messages were deleted before they were read"},
}

// classify returns an error of the client or a broker in its category.
func (t *Topic) classify(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	}
	for _, p := range permanent {
		if errors.Is(err, p.err) {
			return fmt.Errorf("topic %s, group %s: %s: %w: %w", t.conf.Topic, t.conf.Group, p.why, err, fault.ErrConfig)
		}
	}
	if refused := t.refused.Load(); refused != nil {
		return *refused
	}
	return fmt.Errorf("brokers %s: %w: %w", strings.Join(t.conf.Brokers, ", "), err, fault.ErrUnavailable)
}

// Describe returns the current description of the topic.
func (t *Topic) Describe(ctx context.Context) (consume.Description, error) {
	d, err := t.describe(ctx)
	return d, t.classify(ctx, err)
}

func (t *Topic) describe(ctx context.Context) (d consume.Description, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ask := kmsg.NewPtrMetadataRequest()
	topic := kmsg.NewMetadataRequestTopic()
	topic.Topic = kmsg.StringPtr(t.conf.Topic)
	ask.Topics = append(ask.Topics, topic)
	res, err := ask.RequestWith(ctx, t.client)
	if err != nil {
		return d, err
	}
	if len(res.Topics) != 1 {
		return d, fmt.Errorf("an answer about %d topics", len(res.Topics))
	}
	x := res.Topics[0]
	if err := kerr.ErrorForCode(x.ErrorCode); err != nil {
		return d, err
	}
	if len(x.Partitions) > consume.MaxPartitions {
		return d, fmt.Errorf("%d partitions, at most %d are read: %w", len(x.Partitions), consume.MaxPartitions, fault.ErrConfig)
	}
	d.ID, d.Partitions = hex.EncodeToString(x.TopicID[:]), make([]consume.Range, len(x.Partitions))
	for _, at := range []int64{earliest, latest} {
		offsets, err := t.offsets(ctx, len(x.Partitions), at)
		if err != nil {
			return d, err
		}
		for p, offset := range offsets {
			if at == earliest {
				d.Partitions[p].Begin = offset
			} else {
				d.Partitions[p].End = max(offset, d.Partitions[p].Begin)
			}
		}
	}
	return d, nil
}

// offsets returns the first or the last offset of each partition.
func (t *Topic) offsets(ctx context.Context, partitions int, at int64) ([]int64, error) {
	ask := kmsg.NewPtrListOffsetsRequest()
	ask.ReplicaID, ask.IsolationLevel = -1, readCommitted
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = t.conf.Topic
	for p := range partitions {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = int32(p), at
		topic.Partitions = append(topic.Partitions, one)
	}
	ask.Topics = append(ask.Topics, topic)
	res, err := ask.RequestWith(ctx, t.client)
	if err != nil {
		return nil, err
	}
	all, known := make([]int64, partitions), 0
	for _, x := range res.Topics {
		for _, p := range x.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, fmt.Errorf("partition %d: %w", p.Partition, err)
			}
			if p.Partition < 0 || int(p.Partition) >= partitions || p.Offset < 0 {
				return nil, fmt.Errorf("partition %d has offset %d", p.Partition, p.Offset)
			}
			all[p.Partition], known = p.Offset, known+1
		}
	}
	if known != partitions {
		return nil, fmt.Errorf("offsets of %d of %d partitions", known, partitions)
	}
	return all, nil
}

// Committed returns the offsets that the group has committed.
func (t *Topic) Committed(ctx context.Context) (map[int]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ask := kmsg.NewPtrOffsetFetchRequest()
	ask.Group = t.conf.Group
	res, err := ask.RequestWith(ctx, t.client)
	if err == nil {
		err = kerr.ErrorForCode(res.ErrorCode)
	}
	if errors.Is(err, kerr.GroupIDNotFound) { // no offset has been committed yet
		return map[int]int64{}, nil
	}
	if err != nil {
		return nil, t.classify(ctx, err)
	}
	all := map[int]int64{}
	for _, x := range res.Topics {
		if x.Topic != t.conf.Topic {
			continue
		}
		for _, p := range x.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return nil, t.classify(ctx, fmt.Errorf("partition %d: %w", p.Partition, err))
			}
			if p.Offset >= 0 {
				all[int(p.Partition)] = p.Offset
			}
		}
	}
	return all, nil
}

// Commit commits offsets for the group, which has no members.
func (t *Topic) Commit(ctx context.Context, offsets map[int]int64) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	ask := kmsg.NewPtrOffsetCommitRequest()
	ask.Group = t.conf.Group
	topic := kmsg.NewOffsetCommitRequestTopic()
	topic.Topic = t.conf.Topic
	for p, offset := range offsets {
		one := kmsg.NewOffsetCommitRequestTopicPartition()
		one.Partition, one.Offset = int32(p), offset
		topic.Partitions = append(topic.Partitions, one)
	}
	ask.Topics = append(ask.Topics, topic)
	res, err := ask.RequestWith(ctx, t.client)
	if err != nil {
		return t.classify(ctx, err)
	}
	for _, x := range res.Topics {
		for _, p := range x.Partitions {
			if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
				return t.classify(ctx, fmt.Errorf("partition %d: %w", p.Partition, err))
			}
		}
	}
	return nil
}
