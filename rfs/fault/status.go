package fault

import (
	"fmt"
	"net/http"
)

// Status returns nil for a successful HTTP status, else an error of the matching category with the beginning of the
// response body. what names the request.
func Status(what string, status int, body []byte) error {
	switch {
	case status < 300:
		return nil
	case status == http.StatusTooManyRequests || status >= 500:
		return fmt.Errorf("%s: status %d: %.300s: %w", what, status, body, ErrUnavailable)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf("%s: status %d: the user may not do that: %.300s: %w", what, status, body, ErrConfig)
	}
	return fmt.Errorf("%s: status %d: %.300s: %w", what, status, body, ErrRejected)
}
