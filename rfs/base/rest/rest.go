// Package rest sends requests to the REST API of a cluster and reads its responses.
package rest

import (
	"context"
	"net/http"
	"net/url"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// API sends one request without retries, and returns status and body of the response, for any status. path starts with "/" and is escaped.
// An error means that no response arrived (fault.ErrUnavailable); the request may have been applied. *target.Client implements it.
type API interface {
	Do(ctx context.Context, method, path string, query url.Values, body []byte) (status int, answer []byte, err error)
}

// Call sends a request and decodes the response into out, unless out is nil. It returns a *fault.StatusError for an unsuccessful response,
// and fault.ErrUnavailable for a response that cannot be decoded.
func Call(ctx context.Context, api API, method, path string, query url.Values, body []byte, out any) error {
	status, answer, err := api.Do(ctx, method, path, query, body)
	if err != nil {
		return err
	}
	if out == nil {
		return fault.CheckStatus(method+" "+path, status, answer)
	}
	return fault.Decode(method+" "+path, status, answer, out)
}

// Get is Call of a GET request.
func Get(ctx context.Context, api API, path string, query url.Values, out any) error {
	return Call(ctx, api, http.MethodGet, path, query, nil, out)
}
