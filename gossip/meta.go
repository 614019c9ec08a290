package gossip

import (
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxMeta limits a Meta in JSON, in bytes: 1,000 of them and the notes fit into maxFrame.
const maxMeta = 400

// Meta is the metadata that a node publishes; at most maxMeta bytes in JSON.
type Meta struct {
	API     string `json:"a,omitempty"` // host:port of the daemon's API; "" if other nodes cannot reach it
	Raft    string `json:"t,omitempty"` // host:port of its Raft; "" if it has none
	Version string `json:"v,omitempty"`
	Zone    string `json:"z,omitempty"`
	Voter   bool   `json:"r,omitempty"` // is a Raft voter
	Quorum  bool   `json:"q,omitempty"` // is a Raft voter that has a leader
	Started int64  `json:"s,omitempty"` // epoch ms; the longest running nodes become voters
	Spot    bool   `json:"p,omitempty"` // a spot instance, which may be terminated at any time
	Workers int    `json:"w,omitempty"`
	Idle    bool   `json:"n,omitempty"` // runs no workers, by choice
}

func (m Meta) encode(limit int) ([]byte, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("node metadata: %w", err)
	}
	if limit = min(limit, maxMeta); len(b) > limit {
		return nil, fmt.Errorf("node metadata has %d bytes, more than %d: shorten --advertise or --zone: %w", len(b), limit, fault.ErrConfig)
	}
	return b, nil
}

func decodeMeta(b []byte) (Meta, error) {
	var m Meta
	if err := json.Unmarshal(b, &m); err != nil {
		return m, fmt.Errorf("node metadata: %w: %w", err, fault.ErrCorrupt)
	}
	return m, nil
}
