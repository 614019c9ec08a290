package repo

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// azurePassing are temporary error codes of Azure, regardless of the status.
var azurePassing = []string{"ServerBusy", "InternalError", "OperationTimedOut", "ContainerBeingDeleted", "AccountBeingCreated"}

// azureNeeded are the roles that the requests require.
var azureNeeded = map[string]string{verbPut: "Storage Blob Data Contributor", "delete": "Storage Blob Data Contributor"}

// failed wraps an error of the store with its category. If ctx, the caller's context, is done, it returns the context's error instead.
func (a *Azure) failed(ctx context.Context, verb, name string, err error) error {
	what := a.what(verb, name)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	flag := "--" + a.flags + "azure-"
	var r *azcore.ResponseError
	if !errors.As(err, &r) {
		return fmt.Errorf("%s: %w", what, silence{
			where: "the endpoint " + a.endpoint, setting: flag + "endpoint", authority: "SSL_CERT_FILE",
			remedy: "check " + flag + "endpoint and the network", noHost: ", and the name in " + flag + "account",
		}.of(err))
	}
	if host := (&refusal{status: r.StatusCode, header: r.RawResponse.Header}).elsewhere(); host != "" {
		return redirected(what, host, flag+"endpoint")
	}
	code := sentence(r.ErrorCode)
	quoted := fmt.Sprintf("%s: the store answers %d %s", what, r.StatusCode, code)
	switch {
	case passes(r.StatusCode) || slices.Contains(azurePassing, code):
		return fmt.Errorf("%s%s: %w", quoted, later(r.StatusCode), fault.ErrUnavailable)
	case code == "ContainerNotFound" || r.StatusCode == http.StatusNotFound && (verb == verbPut || verb == "list"):
		return &missingBucket{what, "the name of the container, " + flag + "account and " + flag + "endpoint"}
	case code == "BlobNotFound" || r.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case r.StatusCode == http.StatusRequestedRangeNotSatisfiable:
		return fault.Corrupt(name, "", -1, "the object ends before the range that is needed")
	case r.StatusCode == http.StatusPreconditionFailed:
		return fault.Corrupt(name, "", -1, "the object changed while it was read")
	case code == "BlobArchived" || code == "BlobBeingRehydrated":
		return fmt.Errorf("%s; the blob is archived, bring it to an online tier first: %w", quoted, fault.ErrConfig)
	case a.anonymous && (r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden || r.StatusCode == http.StatusConflict):
		return fmt.Errorf("%s; no credentials are sent to %s, give %skey-file: %w", quoted, a.endpoint, flag, fault.ErrConfig)
	case !a.ends.IsZero() && time.Now().After(a.ends) && (r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden):
		return fmt.Errorf("%s; the signature in %skey-file expired at %s, write a new one into the file and run the same command again: %w", quoted, flag, a.ends.UTC().Format(time.RFC3339), fault.ErrConfig)
	case code == "AuthenticationFailed" || code == "AuthorizationFailure":
		return fmt.Errorf("%s (%s); is it the key of the account, is a signature valid for this request, is the clock of this machine right, and does the account's firewall admit it?: %w", quoted, azureMessage(r.RawResponse), fault.ErrConfig)
	case r.StatusCode == http.StatusUnauthorized || r.StatusCode == http.StatusForbidden:
		needed := azureNeeded[verb]
		if needed == "" {
			needed = "Storage Blob Data Reader"
		}
		return fmt.Errorf("%s; the credentials may not do this (the role %s is needed, or a signature that permits it): %w", quoted, needed, fault.ErrConfig)
	}
	return fmt.Errorf("%s (%s): %w", quoted, azureMessage(r.RawResponse), fault.ErrConfig)
}

// azureMessage returns the message in the body of an error, bounded.
func azureMessage(res *http.Response) string {
	if res == nil {
		return ""
	}
	b, err := runtime.Payload(res) // the SDK has read it
	if err != nil || len(b) > maxRefusal {
		return ""
	}
	return messageOf(b)
}

// messageOf reads the message of an error in XML.
func messageOf(body []byte) string {
	var e struct {
		Message string `xml:"Message"`
	}
	if xml.Unmarshal(body, &e) != nil {
		return ""
	}
	return sentence(e.Message)
}
