package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/files"
)

// Config identifies this node in the Raft cluster.
type Config struct {
	Dir     string // its files; files of other clusters and epochs are removed
	ID      string // the node's name in gossip
	Address string // address of its Raft for other nodes
	Streams Streams
	Cluster Cluster
	// Bootstrap makes this node the first voter. Set it only directly after writing Cluster to the
	// coordination store.
	Bootstrap bool
	// Quick shortens elections for nodes on one machine.
	Quick bool
	Log   *slog.Logger
}

// Store is this node's copy of the hints.
type Store struct {
	conf        Config
	fsm         *fsm
	raft        *raft.Raft
	layer       *layer
	openedAt    time.Time
	closers     []func() error       // called in order
	unreachable map[string]time.Time // when nodes did not answer a probe; used by ReconcileVoters only
}

// Open joins the Raft cluster, or bootstraps it. Without Bootstrap the node stays passive until the
// leader adds it. It returns fault.ErrConfig if the files cannot be used.
func Open(conf Config) (*Store, error) {
	s := &Store{conf: conf, unreachable: map[string]time.Time{}}
	var err error
	if s.layer, err = newLayer(conf.Streams, conf.Cluster); err != nil {
		return nil, err
	}
	transport := newTransport(s.layer, logger{log: conf.Log})
	if err := s.open(transport); err != nil {
		return nil, errors.Join(err, transport.Close(), s.layer.Close())
	}
	s.closers = append([]func() error{transport.Close, s.layer.Close}, s.closers...)
	s.openedAt = time.Now()
	return s, nil
}

// open opens the files and starts Raft.
func (s *Store) open(transport raft.Transport) error {
	conf := s.conf
	dir, err := prepareDir(conf)
	if err != nil {
		return err
	}
	if s.fsm, err = newFSM(dir, maxBytes); err != nil {
		return fmt.Errorf("%w: %w", err, fault.ErrConfig)
	}
	s.closers = append(s.closers, s.fsm.close)
	logs, err := raftboltdb.NewBoltStore(filepath.Join(dir, "raft.db"))
	if err != nil {
		return errors.Join(fmt.Errorf("raft's log in %s: %w: %w", dir, err, fault.ErrConfig), s.closeFiles())
	}
	s.closers = append([]func() error{logs.Close}, s.closers...)
	snapshots, err := raft.NewFileSnapshotStoreWithLogger(dir, 2, logger{log: conf.Log})
	if err != nil {
		return errors.Join(fmt.Errorf("raft's snapshots in %s: %w: %w", dir, err, fault.ErrConfig), s.closeFiles())
	}
	rc := conf.raft()
	if conf.Bootstrap {
		first := raft.Configuration{Servers: []raft.Server{{ID: rc.LocalID, Address: raft.ServerAddress(conf.Address)}}}
		if err := raft.BootstrapCluster(rc, logs, logs, snapshots, transport, first); err != nil && !errors.Is(err, raft.ErrCantBootstrap) {
			return errors.Join(fmt.Errorf("bootstrap the cluster of hints: %w", err), s.closeFiles())
		}
	}
	if s.raft, err = raft.NewRaft(rc, s.fsm, logs, logs, snapshots, transport); err != nil {
		return errors.Join(fmt.Errorf("raft: %w: %w", err, fault.ErrConfig), s.closeFiles())
	}
	return nil
}

const (
	// snapshotThreshold is the number of log entries after which Raft takes a snapshot. An entry may have maxBatch hints, so Raft's default
	// of 8,192 would be gigabytes.
	snapshotThreshold = 512
	// trailingLogs is the number of entries kept after a snapshot, for followers that are behind.
	trailingLogs = 128
)

// raft returns Raft's configuration, with timeouts that tolerate busy processors and slow networks.
func (c Config) raft() *raft.Config {
	rc := raft.DefaultConfig()
	rc.LocalID = raft.ServerID(c.ID)
	rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = 3*time.Second, 3*time.Second, 1500*time.Millisecond
	if c.Quick {
		rc.HeartbeatTimeout, rc.ElectionTimeout, rc.LeaderLeaseTimeout = 300*time.Millisecond, 300*time.Millisecond, 200*time.Millisecond
	}
	rc.SnapshotThreshold, rc.TrailingLogs = snapshotThreshold, trailingLogs
	rc.ShutdownOnRemove = false // a node that lost its vote continues to work
	rc.NoLegacyTelemetry = true
	rc.BatchApplyCh = true
	rc.Logger = logger{log: c.Log}
	return rc
}

// prepareDir creates and returns the directory of this cluster and epoch, and removes the directories of others.
func prepareDir(conf Config) (string, error) {
	name := fmt.Sprintf("hints-%s-%d", sanitize(conf.Cluster.ID), conf.Cluster.Epoch)
	dir := filepath.Join(conf.Dir, name)
	if err := files.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("directory of the hints: %w: %w", err, fault.ErrConfig)
	}
	entries, err := os.ReadDir(conf.Dir)
	if err != nil {
		return "", fmt.Errorf("directory of the hints: %w: %w", err, fault.ErrConfig)
	}
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "hints-") && e.Name() != name {
			if err := os.RemoveAll(filepath.Join(conf.Dir, e.Name())); err != nil {
				return "", fmt.Errorf("hints of a former epoch: %w: %w", err, fault.ErrConfig)
			}
		}
	}
	return dir, nil
}

func sanitize(id string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, id)
}

// applyTimeout limits how long a hint waits in the leader's queue; then it is dropped.
const applyTimeout = 2 * time.Second

// Put proposes hints. On any error they may be lost; it returns ErrNotLeader if this node is not the Raft leader.
func (s *Store) Put(ctx context.Context, hints ...Hint) error {
	for from := 0; from < len(hints); from += maxBatch {
		if err := s.apply(ctx, command{Put: hints[from:min(from+maxBatch, len(hints))]}); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) apply(ctx context.Context, c command) error {
	b, err := c.encode()
	if err != nil {
		return err
	}
	if s.raft.State() != raft.Leader {
		return ErrNotLeader
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	// This does not block for long: a leader without a majority steps down within its lease.
	future := s.raft.Apply(b, applyTimeout)
	if err := future.Error(); err != nil {
		return fmt.Errorf("%w: %w", ErrNotLeader, err)
	}
	if err, ok := future.Response().(error); ok {
		return err
	}
	return nil
}

// List returns the unexpired hints of a kind from this node's copy, sorted by key. It does not contact other nodes; without a majority the
// result may be outdated.
func (s *Store) List(kind string) ([]Hint, error) { return s.fsm.list(kind, time.Now()) }

// Leader returns the id of the Raft leader, or "".
func (s *Store) Leader() (id string) {
	_, leader := s.raft.LeaderWithID()
	return string(leader)
}

// IsLeader reports whether this node is the Raft leader.
func (s *Store) IsLeader() bool { return s.raft.State() == raft.Leader }

// Resign starts to transfer the leadership to another voter. It does not wait, because Raft does not answer if it is shut down meanwhile.
// If the transfer fails, this node remains the leader.
func (s *Store) Resign() { s.raft.LeadershipTransfer() }

// Servers returns the members of the Raft cluster as this node knows them.
func (s *Store) Servers() []Server {
	f := s.raft.GetConfiguration()
	if f.Error() != nil {
		return nil
	}
	var all []Server
	for _, x := range f.Configuration().Servers {
		all = append(all, Server{ID: string(x.ID), Voter: x.Suffrage == raft.Voter})
	}
	return all
}

// Member reports whether this node is in the Raft cluster and so has a current copy of the hints.
func (s *Store) Member() bool {
	for _, x := range s.Servers() {
		if x.ID == s.conf.ID {
			return true
		}
	}
	return false
}

// SinceLeaderContact returns the time since the last contact with a leader, or since Open if that is shorter; 0 on the leader.
func (s *Store) SinceLeaderContact() time.Duration {
	if s.IsLeader() {
		return 0
	}
	return min(time.Since(s.raft.LastContact()), time.Since(s.openedAt))
}

// Cluster returns the cluster and epoch of this copy.
func (s *Store) Cluster() Cluster { return s.conf.Cluster }

// ReconcileVoters removes expired hints and makes at most one change of the voters, if this node is the
// Raft leader. Call it every few seconds.
func (s *Store) ReconcileVoters(ctx context.Context, nodes []Node) error {
	if !s.IsLeader() {
		return nil
	}
	now := time.Now()
	s.changeVoters(nodes, now)
	return s.apply(ctx, command{Sweep: now.UnixMilli()})
}

func (s *Store) changeVoters(nodes []Node, now time.Time) {
	c, ok := NextChange(s.conf.ID, s.Servers(), s.reachable(nodes, now), now)
	if !ok || c.Add != nil && !s.probe(*c.Add, now) {
		return
	}
	var f raft.IndexFuture
	if c.Add != nil {
		f = s.raft.AddVoter(raft.ServerID(c.Add.ID), raft.ServerAddress(c.Add.Address), 0, applyTimeout)
		s.conf.Log.Info("raft voter added", "node", c.Add.ID, "zone", c.Add.Zone)
	} else {
		f = s.raft.RemoveServer(raft.ServerID(c.Remove), 0, applyTimeout)
		s.conf.Log.Info("raft voter removed", "node", c.Remove)
	}
	if err := f.Error(); err != nil {
		s.conf.Log.Info("changing raft voters failed", "error", err)
	}
}

// probeInterval returns the time after which an unreachable node is probed again.
func (c Config) probeInterval() time.Duration {
	if c.Quick {
		return time.Second
	}
	return time.Minute
}

// reachable returns the nodes. Nodes that recently did not answer a probe have no address, so that they do not become voters.
func (s *Store) reachable(nodes []Node, now time.Time) []Node {
	nodes = slices.Clone(nodes)
	for i, n := range nodes {
		if at, ok := s.unreachable[n.ID]; ok && now.Sub(at) < s.conf.probeInterval() {
			nodes[i].Address = ""
		}
	}
	return nodes
}

// probe reports whether the node's Raft port answers for this epoch. Gossip may list a node as alive that is dead or not in this epoch yet;
// as a voter it could cost the majority.
func (s *Store) probe(n Node, now time.Time) bool {
	conn, err := s.layer.Dial(raft.ServerAddress(n.Address), applyTimeout)
	if err != nil {
		s.unreachable[n.ID] = now
		s.conf.Log.Debug("raft voter unreachable", "node", n.ID, "error", err)
		return false
	}
	delete(s.unreachable, n.ID)
	conn.Close()
	return true
}

// newTransport returns the transport of a node. It sends one request at a time to each follower: if a follower refuses one of several
// requests in flight, the replication of hashicorp/raft 1.7 may block permanently, together with everything that waits for its end
// (github.com/hashicorp/raft/issues/612).
func newTransport(l *layer, log logger) *raft.NetworkTransport {
	return raft.NewNetworkTransportWithConfig(&raft.NetworkTransportConfig{
		Stream: l, MaxPool: 2, MaxRPCsInFlight: 1, Timeout: 5 * time.Second, Logger: log,
	})
}

// Close transfers leadership if possible, stops Raft and closes the files.
func (s *Store) Close() error {
	if s.IsLeader() && len(s.Servers()) > 1 {
		if err := s.raft.LeadershipTransfer().Error(); err != nil {
			s.conf.Log.Debug("raft leadership not transferred", "error", err)
		}
	}
	return errors.Join(s.raft.Shutdown().Error(), s.closeFiles())
}

func (s *Store) closeFiles() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	s.closers = nil
	return errors.Join(errs...)
}
