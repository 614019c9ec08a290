package cms

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"

	"github.com/rfsd/rfsd/rfs/fault"
)

const kindMark = "mark"

type markBody struct {
	Token string `json:"token"`
}

// maxToken bounds the token of a session, in bytes.
const maxToken = 64

// Mark returns the random token of the session, which the first call makes. What the session creates carries it.
func (c *Coordinator) Mark(ctx context.Context) (token string, err error) {
	raw, err := json.Marshal(markBody{rand.Text()})
	if err != nil {
		return "", fmt.Errorf("record of the session's mark: %w", err)
	}
	r, err := c.recordOrNew(ctx, Record{ID: kindMark, Kind: kindMark, Body: raw})
	if err != nil {
		return "", err
	}
	return decodeMark(r)
}

// ReadMark returns the random token of the session, or ErrNotFound when none was made.
func (c *Coordinator) ReadMark(ctx context.Context) (token string, err error) {
	r, err := c.record(ctx, kindMark)
	if err != nil {
		return "", err
	}
	return decodeMark(r)
}

func decodeMark(r Record) (string, error) {
	var b markBody
	if err := r.Decode(&b); err != nil {
		return "", err
	}
	if b.Token == "" || len(b.Token) > maxToken {
		return "", fmt.Errorf("record of the session's mark: a token of %d bytes: %w", len(b.Token), fault.ErrCorrupt)
	}
	return b.Token, nil
}
