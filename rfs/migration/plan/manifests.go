package plan

import (
	"fmt"
	"sync"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// mostManifests bounds what Manifests keep, in bytes as keptCost counts them.
	mostManifests = 1 << 20
	// keptFile is the approximate size of a file of a manifest in addition to its contents, in bytes.
	keptFile = 300
)

// Manifests are the lists of files of shards that a process has read when it planned, for its own leases: the first lease of a shard
// need not read the list again. Each is used once, and those beyond a bound are not kept. It is safe for concurrent use; the nil
// Manifests keep nothing.
type Manifests struct {
	mu     sync.Mutex
	shards map[string]*snapshot.Shard
	bytes  int
}

func manifestKey(loc snapshot.Locator, shard int) string {
	return fmt.Sprintf("%s/%s/%d", loc.SnapshotUUID, loc.IndexID, shard)
}

// keptCost returns about what a list takes, in bytes.
func keptCost(s *snapshot.Shard) (n int) {
	for _, f := range s.Files {
		n += keptFile + len(f.Contents)
	}
	return n
}

// keep keeps the list of a shard where there is room. A list without a sum belongs to all snapshots, and may change.
func (m *Manifests) keep(loc snapshot.Locator, s *snapshot.Shard) {
	n := keptCost(s)
	if m == nil || s.Sum == "" {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bytes+n > mostManifests {
		return
	}
	if m.shards == nil {
		m.shards = map[string]*snapshot.Shard{}
	}
	m.bytes += n
	m.shards[manifestKey(loc, s.Number)] = s
}

// Take returns the list of a shard and forgets it; nil when it is missing, or not the one with which the session was planned.
func (m *Manifests) Take(loc snapshot.Locator, shard int) *snapshot.Shard {
	if m == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	key := manifestKey(loc, shard)
	s := m.shards[key]
	if s == nil {
		return nil
	}
	delete(m.shards, key)
	m.bytes -= keptCost(s)
	if shard >= len(loc.ShardSums) || s.Sum != loc.ShardSums[shard] {
		return nil
	}
	return s
}
