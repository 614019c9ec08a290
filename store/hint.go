package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Hint is one entry. The last committed hint of a kind and key replaces the previous one.
type Hint struct {
	Kind string `json:"k"` // 1 to 32 bytes
	Key  string `json:"i"` // at most 512 bytes
	// Expires is epoch ms by the author's clock; readers ignore the hint afterwards.
	Expires int64           `json:"e"`
	Payload json.RawMessage `json:"p,omitempty"` // at most 4 KiB
}

// Limits of hints.
const (
	maxKind    = 32
	maxKey     = 512
	maxPayload = 4 << 10
	maxBatch   = 512      // hints in one command
	maxBytes   = 64 << 20 // of all hints; beyond this, those that expire first are evicted
)

// ErrNotLeader means that another node is the Raft leader, or none.
var ErrNotLeader = fmt.Errorf("not the leader of the hints: %w", fault.ErrUnavailable)

func (h Hint) check() error {
	if h.Kind == "" || len(h.Kind) > maxKind || len(h.Key) > maxKey || len(h.Payload) > maxPayload || h.Expires <= 0 {
		return fmt.Errorf("hint %q/%q with %d bytes that expires at %d: %w", h.Kind, h.Key, len(h.Payload), h.Expires, fault.ErrConfig)
	}
	return nil
}

func (h Hint) size() int64 { return int64(len(h.Kind) + len(h.Key) + len(h.Payload) + 64) }

// alive reports whether the hint has not expired.
func (h Hint) alive(now time.Time) bool { return now.UnixMilli() < h.Expires }

// Valid returns the hints from another node that are within limits, of the kind, and not expired.
func Valid(hints []Hint, kind string) []Hint {
	now, all := time.Now(), hints[:0]
	for _, h := range hints {
		if h.check() == nil && h.Kind == kind && h.alive(now) {
			all = append(all, h)
		}
	}
	return all
}

// command is one entry of the Raft log. It contains every time that it needs, so that applying it reads no clock.
type command struct {
	Put []Hint `json:"put,omitempty"`
	// Sweep removes hints that expired before this time, in epoch ms of the leader.
	Sweep int64 `json:"sweep,omitempty"`
}

func (c command) encode() ([]byte, error) {
	if len(c.Put) > maxBatch {
		return nil, fmt.Errorf("%d hints in one request, more than %d: %w", len(c.Put), maxBatch, fault.ErrConfig)
	}
	for _, h := range c.Put {
		if err := h.check(); err != nil {
			return nil, err
		}
	}
	b, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("hint command: %w", err)
	}
	return b, nil
}

var errInvalidCommand = errors.New("not a command")

// decodeCommand parses and validates a command. Even a peer with a valid certificate is not trusted.
func decodeCommand(b []byte) (command, error) {
	var c command
	if err := json.Unmarshal(b, &c); err != nil {
		return c, fmt.Errorf("%w: %w", errInvalidCommand, err)
	}
	if len(c.Put) > maxBatch {
		return c, fmt.Errorf("%w: %d hints", errInvalidCommand, len(c.Put))
	}
	for _, h := range c.Put {
		if err := h.check(); err != nil {
			return c, fmt.Errorf("%w: %w", errInvalidCommand, err)
		}
	}
	return c, nil
}
