package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"os"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/stream/importer"
)

// Stream is the topic that is consumed, and how its brokers are reached.
type Stream struct {
	_             struct{}      `group:"Stream" section:"stream"`
	Brokers       []string      `flag:"brokers" check:"address" help:"HOST:PORT of a Kafka broker; may be repeated. With --broker-sasl every broker has to be named as it advertises itself: credentials are sent to no other"`
	Topic         TopicName     `flag:"topic" want:"letters, digits and . _ - (at most 249)" help:"topic that is consumed"`
	Group         string        `flag:"group" help:"consumer group whose offsets are committed, for Kafka's tools; the session itself continues from its own records (default: rfsd-SESSION)"`
	Format        string        `flag:"format" default:"json" oneof:"json,bulk" want:"json or bulk" help:"what a message holds: json, a document whose id is the message's key; bulk, an action line and a source line"`
	Index         IndexName     `flag:"index-name" want:"a name that an index may have" help:"index of documents that name none (default: the name of the topic)"`
	Start         string        `flag:"start" default:"earliest" oneof:"earliest,latest" want:"earliest or latest" help:"start of a partition for which the group has committed no offset"`
	UntilEnd      bool          `flag:"until-end" help:"end when all messages are consumed that there were at the start"`
	Lease         time.Duration `flag:"partition-lease" default:"30s" min:"5s" max:"1h" help:"lease duration of a partition; a dead process's partition is taken over after it"`
	Fetch         Size          `flag:"fetch-size" default:"4MiB" want:"a size from 64KiB to 256MiB" help:"bytes that are asked for at a time for each partition; they are held twice as they arrive"`
	Batch         Size          `flag:"max-batch-size" default:"128MiB" want:"a size from 1MiB to 1GiB" help:"take batches of messages up to this size, as they arrive and unpacked; all partitions of the process take at most 64 MiB more than that"`
	TLS           bool          `flag:"broker-tls" help:"connect to the brokers over TLS"`
	CACert        string        `flag:"broker-cacert" check:"file" help:"PEM file of the CAs trusted for the brokers' certificates, instead of the system's"`
	ClientCert    string        `flag:"broker-client-cert" check:"file" help:"PEM file of a client certificate"`
	ClientKey     string        `flag:"broker-client-cert-key" check:"file" help:"PEM file of the client certificate's key"`
	SASL          string        `flag:"broker-sasl" oneof:"PLAIN,SCRAM-SHA-256,SCRAM-SHA-512," want:"PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512" help:"authentication: PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512 (default: none)"`
	Username      string        `flag:"broker-username" help:"user for --broker-sasl"`
	PasswordFile  string        `flag:"broker-password-file" check:"file" help:"file holding the password (or set {variable})"`
	Password      string        `flag:"broker-password" line:"no" help:"password, by its variable only: a command line is visible to other users of this machine, and refused"`
	PlainLoopback bool          `flag:"broker-plain-loopback" help:"send credentials without TLS to brokers on loopback"`
}

const (
	leastFetch, mostFetch = 64 << 10, 256 << 20
	leastBatch, mostBatch = 1 << 20, 1 << 30
	maxBrokers            = 1000
)

// Check reads the password and checks what belongs together.
func (s *Stream) Check() error {
	switch {
	case s.Fetch < leastFetch || s.Fetch > mostFetch:
		return Usage("invalid --fetch-size %d: want 64KiB to 256MiB", s.Fetch)
	case s.Batch < leastBatch || s.Batch > mostBatch || s.Batch < s.Fetch:
		return Usage("invalid --max-batch-size %d: want 1MiB to 1GiB, and no less than --fetch-size", s.Batch)
	case (s.ClientCert == "") != (s.ClientKey == ""):
		return Usage("--broker-client-cert and --broker-client-cert-key belong together")
	case !s.TLS && s.CACert+s.ClientCert != "":
		return Usage("--broker-cacert and --broker-client-cert need --broker-tls")
	case len(s.Brokers) > maxBrokers:
		return Usage("invalid --brokers: want at most %d", maxBrokers)
	}
	if s.PasswordFile != "" {
		b, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return Usage("--broker-password-file: %w", err)
		}
		s.Password = strings.TrimRight(string(b), "\r\n")
	}
	if s.SASL == "" {
		if s.Username+s.Password != "" {
			return Usage("--broker-username and its password need --broker-sasl")
		}
		return nil
	}
	switch {
	case s.Username == "" || s.Password == "":
		return Usage("--broker-sasl needs --broker-username and --broker-password-file")
	case !s.TLS && !s.PlainLoopback:
		return Usage("--broker-sasl sends credentials over TLS only: give --broker-tls (or --broker-plain-loopback for brokers on this machine)")
	}
	return nil
}

// Config returns how TLS is spoken to the brokers; nil for not at all.
func (s *Stream) Config() (*tls.Config, error) {
	if !s.TLS {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if s.CACert != "" {
		pem, err := os.ReadFile(s.CACert)
		if err != nil {
			return nil, Usage("--broker-cacert: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, Usage("--broker-cacert %s holds no certificate", s.CACert)
		}
	}
	if s.ClientCert != "" {
		pair, err := tls.LoadX509KeyPair(s.ClientCert, s.ClientKey)
		if err != nil {
			return nil, Usage("--broker-client-cert: %w", err)
		}
		conf.Certificates = []tls.Certificate{pair}
	}
	return conf, nil
}

// IndexOrTopic returns the index of documents that name none.
func (s *Stream) IndexOrTopic() string { return cmp.Or(string(s.Index), string(s.Topic)) }

// TopicName is the name of a topic.
type TopicName string

const maxTopicName = 249 // of Kafka

func (n *TopicName) parse(text string) error {
	*n = TopicName(text)
	if len(text) > maxTopicName || strings.ContainsFunc(text, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._-", r))
	}) {
		return errSyntax
	}
	return nil
}

// IndexName is the name of an index.
type IndexName string

func (n *IndexName) parse(text string) error {
	*n = IndexName(text)
	if !importer.ValidIndex([]byte(text)) {
		return errSyntax
	}
	return nil
}

// Consume are the settings of a stream's session.
type Consume struct {
	Stream     Stream
	NewIndices NewIndices
	Target     Target
	Sending    Sending
	Disks      Disks
	System     System
	Bulk       Bulk
	Document   Document
	Failed     Failed
	Patience   Patience
	State      State
	Output     Output
	Log        Log
	Stores     Stores
}

// Check refuses a stream without brokers, topic or target.
func (c *Consume) Check() error {
	switch {
	case len(c.Stream.Brokers) == 0:
		return Usage("--brokers is missing: where is the stream?")
	case c.Stream.Topic == "":
		return Usage("--topic is missing: which topic is consumed?")
	case c.Target.Cluster.Host == "":
		return Usage("--target-host is missing: where do the documents go?")
	case !importer.ValidIndex([]byte(c.Stream.IndexOrTopic())):
		return Usage("--index-name is missing: no index may have the name of the topic, %s", c.Stream.Topic)
	}
	if c.Stream.Group == "" {
		c.Stream.Group = "rfsd-" + c.State.Session.OrDefault()
	}
	return nil
}

// ConsumeCommand are the settings of rfsd consume.
type ConsumeCommand struct {
	Consume Consume
	Link    Link
}

// Transfer returns what a stream has in common with other transfers.
func (c *Consume) Transfer() Transfer {
	return Transfer{
		Target: c.Target, Sending: c.Sending, Disks: c.Disks, System: c.System, Slots: Slots{Number: 1}, Bulk: c.Bulk, Document: c.Document, Failed: c.Failed,
		Patience: c.Patience, State: c.State, Output: c.Output, Log: c.Log,
	}
}
