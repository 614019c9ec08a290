package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
	"github.com/rfsd/rfsd/rfs/coordination/schedule"
	"github.com/rfsd/rfsd/store"
)

// ID, kind and lock of the record that identifies the Raft cluster. The node that wrote it bootstraps the cluster.
const (
	clusterRecordID   = "raft:cluster"
	clusterRecordKind = "raft"
	bootstrapLock     = "raft-bootstrap"
	bootstrapTTL      = 20 * time.Second
)

type clusterRecord struct {
	store.Cluster
	First string `json:"first"` // node that bootstraps it
}

func (f *Fleet) readCluster(ctx context.Context) (cms.Record, clusterRecord, error) {
	var is clusterRecord
	r, err := f.conf.Store.Record(ctx, clusterRecordID)
	if errors.Is(err, cms.ErrNotFound) {
		return cms.Record{ID: clusterRecordID, Kind: clusterRecordKind}, is, nil
	}
	if err != nil {
		return r, is, fmt.Errorf("cluster record of the hints: %w", err)
	}
	if err := r.Decode(&is); err != nil {
		return r, is, fmt.Errorf("cluster record of the hints: %w", err)
	}
	return r, is, nil
}

// syncHints opens the hints of the recorded epoch. If no epoch is recorded, or the current one has lost its quorum, it records the next
// one.
func (f *Fleet) syncHints(ctx context.Context) error {
	_, is, err := f.readCluster(ctx)
	if err != nil {
		return err
	}
	mine := false
	if is.ID == "" || f.quorumLost(is) {
		was := is.Epoch
		if is, err = f.bootstrap(ctx, is); err != nil {
			return err
		}
		// Bootstrap only directly after writing the record: a node whose files were deleted since then must not bootstrap the same epoch a
		// second time.
		mine = is.First == f.gossip.Name() && is.Epoch == was+1
	}
	return f.open(is, mine)
}

// quorumLost reports whether Raft has no leader and at most half of the voters are alive.
func (f *Fleet) quorumLost(is clusterRecord) bool {
	s := f.hintStore()
	if s == nil || s.Cluster() != is.Cluster || s.SinceLeaderContact() < f.intervals.leaderlessTimeout {
		return false
	}
	servers := s.Servers()
	if len(servers) == 0 { // this node was never added
		// Voters may exist in a partition that gossip does not reach: partitions must not bootstrap in turn.
		if s.SinceLeaderContact() < neverJoinedFactor*f.intervals.leaderlessTimeout {
			return false
		}
		for _, m := range f.gossip.Members() {
			if m.Meta.Voter {
				return false
			}
		}
		return true
	}
	here := 0
	for _, x := range servers {
		if f.isMember(x.ID) {
			here++
		}
	}
	return 2*here <= len(servers)
}

// neverJoinedFactor multiplies leaderlessTimeout for a node that was never added to the cluster.
const neverJoinedFactor = 4

func (f *Fleet) isMember(node string) bool {
	for _, m := range f.gossip.Members() {
		if m.Name == node {
			return true
		}
	}
	return false
}

// bootstrap records the next epoch, under a lock, so that only one of several nodes does so.
func (f *Fleet) bootstrap(ctx context.Context, was clusterRecord) (clusterRecord, error) {
	lock, err := f.locks.Try(ctx, bootstrapLock, bootstrapTTL)
	if err != nil {
		return clusterRecord{}, fmt.Errorf("bootstrap the hints: %w", err)
	}
	guarded, end := lock.Watch(ctx, nil)
	defer end()
	r, is, err := f.readCluster(guarded)
	if err != nil || is.Cluster != was.Cluster {
		return is, errors.Join(err, lock.Unlock(ctx)) // another node has recorded it
	}
	is = clusterRecord{Cluster: store.Cluster{ID: f.conf.Gossip.Fleet, Epoch: was.Epoch + 1}, First: f.gossip.Name()}
	if r.Body, err = json.Marshal(is); err != nil {
		return was, errors.Join(err, lock.Unlock(ctx))
	}
	if _, err := f.conf.Store.Put(guarded, r); err != nil {
		return was, errors.Join(fmt.Errorf("bootstrap the hints: %w", err), lock.Unlock(ctx))
	}
	f.log.Info("raft cluster bootstrapped", "epoch", is.Epoch)
	return is, lock.Unlock(ctx)
}

// open opens the hints of the epoch in is and closes the hints of another epoch. With bootstrap, this node is the first voter.
func (f *Fleet) open(is clusterRecord, bootstrap bool) error {
	s := f.hintStore()
	if s != nil && s.Cluster() == is.Cluster {
		return nil
	}
	if s != nil {
		f.setHints(nil)
		if err := s.Close(); err != nil {
			f.log.Debug("closing former hints failed", "error", err)
		}
	}
	streams, err := f.conf.Streams()
	if err != nil {
		return fmt.Errorf("connections of the hints: %w", err)
	}
	opened, err := store.Open(store.Config{
		Dir: f.conf.Dir, ID: f.gossip.Name(), Address: f.conf.RaftAddress, Streams: streams, Cluster: is.Cluster,
		Bootstrap: bootstrap, Quick: f.conf.Quick, Log: f.log,
	})
	if err != nil {
		return err
	}
	f.setHints(opened)
	return nil
}

func (f *Fleet) setHints(s *store.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hints = s
}

func (f *Fleet) hintStore() *store.Store {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hints
}

func (f *Fleet) isVoter() bool {
	s := f.hintStore()
	return s != nil && s.Member()
}

// reconcileVoters updates the voters if this node is the Raft leader.
func (f *Fleet) reconcileVoters(ctx context.Context) error {
	s := f.hintStore()
	if s == nil {
		return nil
	}
	now := time.Now()
	var nodes []store.Node
	seen := map[string]bool{}
	for _, m := range f.gossip.Members() {
		seen[m.Name] = true
		nodes = append(nodes, store.Node{ID: m.Name, Address: m.Meta.Raft, Zone: m.Meta.Zone, Spot: m.Meta.Spot, Started: m.Meta.Started})
	}
	f.mu.Lock()
	for _, x := range s.Servers() {
		if seen[x.ID] {
			delete(f.missing, x.ID)
			continue
		}
		if f.missing[x.ID].IsZero() {
			f.missing[x.ID] = now
		}
		nodes = append(nodes, store.Node{ID: x.ID, Gone: max(1, now.Sub(f.missing[x.ID]))})
	}
	f.mu.Unlock()
	return s.ReconcileVoters(ctx, nodes)
}

// Kinds of hints.
const (
	kindShards    = "shards" // sizes of shards: a list in each hint
	shardsPerHint = 40       // in one hint
	shardsTTL     = 24 * time.Hour
)

// publish writes the sizes of all shards as hints. It is called by the leader only.
func (f *Fleet) publish(ctx context.Context, shards []schedule.Shard) error {
	s := f.hintStore()
	if s == nil {
		return nil
	}
	if there, err := f.list(ctx, kindShards); err == nil && len(there) >= (len(shards)+shardsPerHint-1)/shardsPerHint {
		return nil // until they expire or the cluster is bootstrapped again
	}
	var hints []store.Hint
	expires := time.Now().Add(shardsTTL).UnixMilli()
	for from := 0; from < len(shards); from += shardsPerHint {
		b, err := json.Marshal(shards[from:min(from+shardsPerHint, len(shards))])
		if err != nil {
			return err
		}
		if len(b) <= 4<<10 { // a list with very long names is omitted: its shards are found by search
			hints = append(hints, store.Hint{Kind: kindShards, Key: fmt.Sprintf("%06d", from/shardsPerHint), Expires: expires, Payload: b})
		}
	}
	return s.Put(ctx, hints...)
}

// list returns the hints of a kind, from a voter if this node has no copy.
func (f *Fleet) list(ctx context.Context, kind string) ([]store.Hint, error) {
	s := f.hintStore()
	if s == nil {
		return nil, store.ErrNotLeader
	}
	if s.Member() {
		return s.List(kind)
	}
	voters := f.voters()
	if len(voters) == 0 {
		return nil, store.ErrNotLeader
	}
	b, err := f.conf.Peers.Hints(ctx, voters, kind)
	if err != nil {
		return nil, err
	}
	var hints []store.Hint
	if err := json.Unmarshal(b, &hints); err != nil {
		return nil, fmt.Errorf("hints of another node: %w: %w", err, fault.ErrCorrupt)
	}
	return store.Valid(hints, kind), nil
}

// Hints returns this node's copy of the hints of a kind as JSON, for another node. It returns fault.ErrUnavailable if it has no copy.
func (f *Fleet) Hints(kind string) ([]byte, error) {
	s := f.hintStore()
	if s == nil || !s.Member() {
		return nil, fmt.Errorf("this node has no copy of the hints: %w", fault.ErrUnavailable)
	}
	hints, err := s.List(kind)
	if err != nil {
		return nil, err
	}
	return json.Marshal(hints)
}

// shardsRead schedules the next read of the sizes of the shards. They do not change, and are the largest part of the hints.
type shardsRead struct {
	of    store.Cluster
	pause time.Duration // between the last two reads
	next  time.Time
}

const maxShardsPause = time.Hour

// refresh reads the leader's summary and sizes of shards from the hints.
func (f *Fleet) refresh(ctx context.Context) error {
	s := f.hintStore()
	if s == nil {
		return nil
	}
	if err := f.reconcileVoters(ctx); err != nil {
		return err
	}
	if err := f.readSummaryHint(ctx); err != nil {
		return err
	}
	return f.readShards(ctx, s.Cluster())
}

// readShards reads the sizes of shards, at growing intervals once some exist: a leader may still be writing the first ones.
func (f *Fleet) readShards(ctx context.Context, of store.Cluster) error {
	r, now := &f.shardsRead, f.now()
	if r.of != of {
		*r = shardsRead{of: of}
	}
	if now.Before(r.next) {
		return nil
	}
	hints, err := f.list(ctx, kindShards)
	if err != nil || len(hints) == 0 {
		return err
	}
	r.pause = min(max(2*r.pause, f.intervals.hints), maxShardsPause)
	r.next = now.Add(r.pause)
	f.applyShards(hints)
	return nil
}

func (f *Fleet) applyShards(hints []store.Hint) {
	var all []schedule.Shard
	for _, h := range hints {
		var part []schedule.Shard
		if json.Unmarshal(h.Payload, &part) == nil {
			all = append(all, part...)
		}
	}
	f.mu.Lock()
	f.shards = all
	f.mu.Unlock()
	f.conf.Scheduler.SetShards(all)
}
