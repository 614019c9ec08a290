package plan

import (
	"fmt"
	"sync"

	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

const (
	// mostManifests is the maximum size of Manifests in bytes, as computed by keptCost.
	mostManifests = 1 << 20
	// keptFile is the approximate overhead of a file in a manifest, in bytes.
	keptFile = 300
)

// Manifests caches the shard manifests that a process has read while planning, for its own leases: the first lease of a shard need not read
// the manifest again. Each is used once, and the total size is bounded. It is safe for concurrent use; the nil Manifests is always empty.
type Manifests struct {
	mu     sync.Mutex
	shards map[string]*snapshot.Shard
	bytes  int
}

func manifestKey(loc snapshot.Locator, shard int) string {
	return fmt.Sprintf("%s/%s/%d", loc.SnapshotUUID, loc.IndexID, shard)
}

// keptCost returns the approximate memory of a manifest in bytes.
func keptCost(s *snapshot.Shard) (n int) {
	for _, f := range s.Files {
		n += keptFile + len(f.Contents)
	}
	return n
}

// keep caches the manifest of a shard if there is space. A manifest without a checksum belongs to all snapshots and may change, so it is
// not cached.
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

// Take returns the manifest of a shard and removes it; nil if it is not cached or differs from the one in loc.
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
