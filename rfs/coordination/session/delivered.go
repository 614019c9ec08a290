package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

const (
	kindDelivered = "delivered"
	// maxDelivered limits the record of one node, in bytes of JSON.
	maxDelivered = 256 << 10
)

// Delivered records which events of the store the sinks of one node have accepted, so that a restarted node continues from there.
type Delivered struct {
	From  int64               `json:"from"`  // in ms by the store's clock: earlier events are not delivered
	Sinks map[string][]string `json:"sinks"` // by the name of a sink: ids of events since From that it has accepted
}

func deliveredID(node string) string { return kindDelivered + ":" + cms.EventKey(node) }

// Read returns the record of a node, or ErrNotFound before the node's first start.
func (s Deliveries) Read(ctx context.Context, node string) (Delivered, error) {
	var d Delivered
	r, err := s.leases.Record(ctx, deliveredID(node))
	if err != nil {
		return d, err
	}
	if err := r.Decode(&d); err != nil {
		return d, err
	}
	return d, nil
}

// ErrTooManyDelivered means that a record would exceed maxDelivered.
var ErrTooManyDelivered = errors.New("too many delivered events to record")

// Note replaces the record of a node.
func (s Deliveries) Note(ctx context.Context, node string, d Delivered) error {
	raw, err := json.Marshal(d)
	if err != nil {
		return fmt.Errorf("record of delivered events: %w", err)
	}
	if len(raw) > maxDelivered {
		return ErrTooManyDelivered
	}
	return s.leases.Put(ctx, cms.Record{ID: deliveredID(node), Kind: kindDelivered, Body: raw})
}
