package gossip

import (
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

// maxMeta is the size of a Meta in JSON, bytes: that of 1,000 nodes fits a frame beside the notes.
const maxMeta = 400

// Meta is what every node states about itself; at most maxMeta bytes in JSON.
type Meta struct {
	API     string `json:"a,omitempty"` // host:port of the daemon's API; "" when it has none for others
	Raft    string `json:"t,omitempty"` // host:port of its Raft; "" when it has none
	Version string `json:"v,omitempty"`
	Zone    string `json:"z,omitempty"`
	Voter   bool   `json:"r,omitempty"` // takes part in the votes about hints
	Started int64  `json:"s,omitempty"` // epoch ms; the oldest become voters
	Spot    bool   `json:"p,omitempty"` // may be taken away any time
	Workers int    `json:"w,omitempty"`
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
