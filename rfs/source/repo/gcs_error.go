package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// gcsPassing are temporary error reasons of Google Cloud Storage, regardless of the status.
var gcsPassing = map[string]bool{"rateLimitExceeded": true, "userRateLimitExceeded": true, "backendError": true, "internalError": true, "quotaExceeded": true}

// gcsNeeded are the permissions that the requests require.
var gcsNeeded = map[string]string{"get": "storage.objects.get", "head": "storage.objects.get", "list": "storage.objects.list",
	verbPut: "storage.objects.create (and storage.objects.delete, to replace objects)", "delete": "storage.objects.delete"}

// failed wraps an error of the store with its category. If ctx, the caller's context, is done, it returns the context's error instead.
func (g *GCS) failed(ctx context.Context, verb, name string, err error) error {
	what := g.what(verb, name)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	var r *refusal
	if !errors.As(err, &r) {
		if errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrUnavailable) { // no token
			return fmt.Errorf("%s: %w", what, err)
		}
		flag := "--" + g.flags + "gcs-endpoint"
		return fmt.Errorf("%s: %w", what, silence{where: "the endpoint " + g.endpoint, setting: flag, authority: "SSL_CERT_FILE", remedy: "check " + flag + " and the network"}.of(err))
	}
	if host := r.elsewhere(); host != "" {
		return redirected(what, host, "--"+g.flags+"gcs-endpoint")
	}
	reason, message := gcsReasons(r.body)
	quoted := fmt.Sprintf("%s: the store answers %d %s", what, r.status, reason)
	if message != "" {
		quoted += " (" + message + ")"
	}
	switch {
	case passes(r.status) || gcsPassing[reason]:
		return fmt.Errorf("%s%s: %w", quoted, later(r.status), fault.ErrUnavailable)
	case r.status == http.StatusNotFound && (verb == verbPut || verb == "list" || strings.Contains(message, "bucket does not exist")):
		return &missingBucket{what, "its name and --" + g.flags + "gcs-endpoint"}
	case r.status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case r.status == http.StatusRequestedRangeNotSatisfiable:
		return fault.Corrupt(name, "", -1, "the object ends before the range that is needed")
	case r.status == http.StatusPreconditionFailed:
		return fault.Corrupt(name, "", -1, "the object changed while it was read")
	case r.status == http.StatusUnauthorized && g.tokens.renew(r.token):
		return fmt.Errorf("%s: %w", quoted, fault.ErrUnavailable)
	case r.status == http.StatusUnauthorized && r.token == "":
		return fmt.Errorf("%s; no credentials are sent to %s, give --%sgcs-key-file: %w", quoted, g.endpoint, g.flags, fault.ErrConfig)
	case r.status == http.StatusUnauthorized:
		return fmt.Errorf("%s; the token has expired or is not valid here; check --%sgcs-key-file, or GOOGLE_APPLICATION_CREDENTIALS, and run the same command again: %w", quoted, g.flags, fault.ErrConfig)
	case r.status == http.StatusForbidden:
		return fmt.Errorf("%s; the credentials may not do this (%s is needed): %w", quoted, gcsNeeded[verb], fault.ErrConfig)
	}
	return fmt.Errorf("%s: %w", quoted, fault.ErrConfig)
}
