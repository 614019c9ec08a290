package session

import (
	"context"
	"fmt"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// maxToken limits the token of a session, in bytes.
const maxToken = 64

// Mark returns the token with which the session marks what it creates: the incarnation of the store.
func (s Identity) Mark(ctx context.Context) (token string, err error) {
	err = s.leases.Retry(ctx, func(ctx context.Context) error {
		token, err = s.items.Store().Incarnation(ctx)
		return err
	})
	if err == nil && (token == "" || len(token) > maxToken) {
		err = fmt.Errorf("a token of %d bytes: %w", len(token), fault.ErrCorrupt)
	}
	if err != nil {
		return "", fmt.Errorf("mark of the session: %w", err)
	}
	return token, nil
}
