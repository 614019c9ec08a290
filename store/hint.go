// Package store keeps the hints of a fleet: what its nodes would like to know of each other, replicated
// by Raft among a few voters. Nothing in it is authoritative: a hint may reorder, delay or shrink work,
// never grant, extend, complete or skip it; losing everything changes speed only.
package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/rfsd/rfsd/rfs/fault"
)

// Hint is one entry. The one that was agreed on last replaces the one before it of the same kind and key.
type Hint struct {
	Kind string `json:"k"` // 1 to 32 bytes
	Key  string `json:"i"` // at most 512 bytes
	// Expires is epoch ms by the clock of who said it; a reader ignores the hint afterwards.
	Expires int64           `json:"e"`
	Payload json.RawMessage `json:"p,omitempty"` // at most 4 KiB
}

// Bounds of what is kept.
const (
	maxKind    = 32
	maxKey     = 512
	maxPayload = 4 << 10
	maxBatch   = 512      // hints in one command
	maxBytes   = 64 << 20 // of all hints; beyond, the ones that expire first go
)

// ErrNotLeader means that another node has to be asked, or that nobody leads now.
var ErrNotLeader = fmt.Errorf("not the leader of the hints: %w", fault.ErrUnavailable)

func (h Hint) check() error {
	if h.Kind == "" || len(h.Kind) > maxKind || len(h.Key) > maxKey || len(h.Payload) > maxPayload || h.Expires <= 0 {
		return fmt.Errorf("hint %q/%q with %d bytes that expires at %d: %w", h.Kind, h.Key, len(h.Payload), h.Expires, fault.ErrConfig)
	}
	return nil
}

func (h Hint) size() int64 { return int64(len(h.Kind) + len(h.Key) + len(h.Payload) + 64) }

// alive says whether a reader may still use the hint.
func (h Hint) alive(now time.Time) bool { return now.UnixMilli() < h.Expires }

// command is one entry of Raft's log. It carries every time it needs: applying it reads no clock.
type command struct {
	Put []Hint `json:"put,omitempty"`
	// Sweep removes what expired before this instant, epoch ms of the leader.
	Sweep int64 `json:"sweep,omitempty"`
	// Forwarded once already: it goes no further. It is never in the log.
	Forwarded bool `json:"forwarded,omitempty"`
}

func (c command) encode() ([]byte, error) {
	if len(c.Put) > maxBatch {
		return nil, fmt.Errorf("%d hints at once, more than %d: %w", len(c.Put), maxBatch, fault.ErrConfig)
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

// decodeCommand reads what a peer with the right certificate may have sent: nothing in it is believed.
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
