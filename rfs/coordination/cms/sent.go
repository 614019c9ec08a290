package cms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const kindSent = "sent"

type sentBody struct {
	Below int64 `json:"below"`
}

func (l *Lease) sentID() string {
	return fmt.Sprintf("%s:%s__%d", kindSent, NameKey(l.ID.Index), l.ID.Shard)
}

func decodeSent(r Record) (sentBody, error) {
	var b sentBody
	if len(r.Body) == 0 {
		return b, nil
	}
	if err := r.Decode(&b); err != nil {
		return b, err
	}
	return b, nil
}

// SentBelow returns the ordinal below which holders of the shard's items may have sent documents, as recorded by NoteSent, or 0.
func (l *Lease) SentBelow(ctx context.Context) (int64, error) {
	r, err := l.c.leases.Record(ctx, l.sentID())
	if errors.Is(err, ErrNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	b, err := decodeSent(r)
	return b.Below, err
}

// NoteSent records that documents below an ordinal of the shard may be sent from now on. A higher recorded ordinal stays.
func (l *Lease) NoteSent(ctx context.Context, below int64) error {
	var failed error
	_, err := l.c.leases.Update(ctx, l.sentID(), kindSent, func(r Record, _ time.Time) (Record, Result) {
		was, err := decodeSent(r)
		if failed = err; err != nil {
			return r, Lost
		}
		if was.Below >= below {
			return r, Already
		}
		if r.Body, failed = json.Marshal(sentBody{below}); failed != nil {
			return r, Lost
		}
		return r, Applied
	})
	return errors.Join(err, failed)
}
