package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// KafkaVersion is the version of the broker.
const KafkaVersion = "3.9.1"

// Broker is a running Kafka broker with its controller, in one JVM. It listens on loopback.
type Broker struct {
	Address  string // no TLS, no authentication
	Secured  string // TLS, with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512
	Login    string // like Secured, without TLS
	Dir      string
	CACert   string // PEM file
	Username string
	Password string

	node    *Node
	launch  *launch
	process *process
}

// Kafka returns a broker for this test alone, which is stopped when the test ends.
func Kafka(t testing.TB) *Broker {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no real servers")
	}
	check(t, allowed("kafka", KafkaVersion))
	ctx, cancel := context.WithTimeout(context.Background(), bootTime)
	defer cancel()
	b, err := BootKafka(ctx)
	check(t, err)
	t.Cleanup(func() {
		if err := b.Stop(); err != nil {
			t.Errorf("stop the broker: %v", err)
		}
	})
	return b
}

// kafkaDist assembles the broker in the cache.
func kafkaDist(ctx context.Context) (string, error) {
	return assembled("kafka-"+KafkaVersion, func(dir string) error {
		work, err := os.MkdirTemp("", "rfsd-fetch-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(work) //nolint:errcheck // only temporary files
		if err := fetch(ctx, work, map[string][]coordinate{"main": {coordinate("org.apache.kafka:kafka_2.13:" + KafkaVersion)}}); err != nil {
			return err
		}
		return os.CopyFS(filepath.Join(dir, "lib"), os.DirFS(filepath.Join(work, "main", "jars")))
	})
}

const kafkaLog4j = "log4j.rootLogger=WARN, stdout\nlog4j.appender.stdout=org.apache.log4j.ConsoleAppender\n" +
	"log4j.appender.stdout.layout=org.apache.log4j.PatternLayout\nlog4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n\n"

// BootKafka starts a broker and blocks until it accepts connections.
func BootKafka(ctx context.Context) (*Broker, error) {
	java, err := javaHome(11, 22)
	if err != nil {
		return nil, err
	}
	dist, err := kafkaDist(ctx)
	if err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	places, err := free(2, 0)
	if err != nil {
		return nil, err
	}
	dir, err := workDir(os.TempDir())
	if err != nil {
		return nil, err
	}
	at := func(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }
	b := &Broker{
		Address: at(places[0].http), Secured: at(places[0].transport), Login: at(places[1].http), Dir: dir, Username: securedUser, Password: securedPassword,
		node: &Node{Product: "kafka", Version: KafkaVersion, Dir: dir, name: places[0].name},
	}
	fail := func(err error) (*Broker, error) { return nil, errors.Join(fmt.Errorf("kafka: %w", err), b.Stop()) }
	conf, err := b.configure(at(places[1].transport))
	if err != nil {
		return fail(err)
	}
	program := filepath.Join(java, "bin", "java")
	common := []string{"-Xms256m", "-Xmx512m", "-XX:+UseSerialGC", "-Dlog4j.configuration=file:" + filepath.Join(dir, "config", "log4j.properties"), "-cp", dist + "/lib/*"}
	format := append([]string{}, common...)
	format = append(format, "kafka.tools.StorageTool", "format", "-t", "4L6g3nShT-eMCtK--X86sw", "-c", conf)
	for _, m := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		format = append(format, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", m, b.Username, b.Password))
	}
	if out, err := exec.CommandContext(ctx, program, format...).CombinedOutput(); err != nil {
		return fail(fmt.Errorf("format: %w: %s", err, out))
	}
	b.launch = &launch{node: b.node, java: program, args: append(append([]string{}, common...), "kafka.Kafka", conf), dir: dir}
	if err := b.Start(ctx); err != nil {
		return fail(err)
	}
	return b, nil
}

// configure writes certificates and the configuration, and returns the path of the latter.
func (b *Broker) configure(controller string) (string, error) {
	conf := filepath.Join(b.Dir, "config")
	certs := filepath.Join(conf, "certs")
	if err := writeCertificates(certs); err != nil {
		return "", err
	}
	b.CACert = filepath.Join(certs, "ca.pem")
	var pair []byte
	for _, name := range []string{"node.key", "node.pem", "ca.pem"} {
		pem, err := os.ReadFile(filepath.Join(certs, name))
		if err != nil {
			return "", err
		}
		pair = append(pair, pem...)
	}
	keys := filepath.Join(certs, "broker.pem")
	if err := os.WriteFile(keys, pair, 0o600); err != nil {
		return "", err
	}
	listeners := "PLAINTEXT://" + b.Address + ",SASL_SSL://" + b.Secured + ",SASL_PLAINTEXT://" + b.Login
	lines := []string{
		"process.roles=broker,controller", "node.id=1", "controller.quorum.voters=1@" + controller, "controller.listener.names=CONTROLLER", "inter.broker.listener.name=PLAINTEXT",
		"listeners=" + listeners + ",CONTROLLER://" + controller, "advertised.listeners=" + listeners,
		"listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
		"log.dirs=" + filepath.Join(b.Dir, "data"), "auto.create.topics.enable=false", "offsets.topic.replication.factor=1", "offsets.topic.num.partitions=1",
		"transaction.state.log.replication.factor=1", "transaction.state.log.min.isr=1", "transaction.state.log.num.partitions=1", "group.initial.rebalance.delay.ms=0",
		"sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512", "ssl.keystore.type=PEM", "ssl.keystore.location=" + keys, "ssl.truststore.type=PEM", "ssl.truststore.location=" + b.CACert,
		"log.retention.check.interval.ms=1000", "log.initial.task.delay.ms=1000", "message.max.bytes=20971520",
	}
	for _, listener := range []string{"sasl_ssl", "sasl_plaintext"} {
		p := "listener.name." + listener + "."
		lines = append(lines, p+`plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_`+b.Username+`="`+b.Password+`";`)
		for _, m := range []string{"256", "512"} {
			lines = append(lines, p+"scram-sha-"+m+".sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;")
		}
	}
	if err := write(filepath.Join(conf, "log4j.properties"), kafkaLog4j); err != nil {
		return "", err
	}
	file := filepath.Join(conf, "server.properties")
	return file, write(file, strings.Join(lines, "\n")+"\n")
}

// Start restarts a stopped broker with its files and ports, and blocks until it accepts connections.
func (b *Broker) Start(ctx context.Context) (err error) {
	if b.process, err = start(b.launch); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTime)
	defer cancel()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := net.DialTimeout("tcp", b.Secured, time.Second)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-b.process.ended:
			return fmt.Errorf("the broker ended before it listened; its log ends with:\n%s", b.process.tail())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w; its log ends with:\n%s", ctx.Err(), err, b.process.tail())
		}
	}
}

// Halt stops the broker gracefully. Start starts it again.
func (b *Broker) Halt() { b.process.stop() }

// Stop ends the broker and removes its files.
func (b *Broker) Stop() error {
	if b.process != nil {
		b.process.kill()
	}
	return os.RemoveAll(b.Dir)
}
