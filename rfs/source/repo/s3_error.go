package repo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"slices"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/rfsd/rfsd/rfs/base/awsconfig"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// passing are temporary error codes of S3 and compatible stores, regardless of the status.
var passing = []string{"SlowDown", "InternalError", "ServiceUnavailable", "RequestTimeout", "Throttling",
	"ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded", "OperationAborted"}

// expired are error codes for credentials that have expired.
var expired = []string{"ExpiredToken", "ExpiredTokenException", "TokenRefreshRequired", "RequestExpired"}

const expiredKeys = "the keys have expired; get new ones (AWS_SESSION_TOKEN with its two keys, or the profile of AWS_PROFILE) and run the same command again"

const noSuchKey = "the store has no such access key; check AWS_ACCESS_KEY_ID, or the profile of AWS_PROFILE, and the endpoint"

// credentialRemedies holds the remedy for each error code of wrong credentials.
var credentialRemedies = map[string]string{
	"SignatureDoesNotMatch": "the secret key does not belong to the access key; check AWS_SECRET_ACCESS_KEY, or the profile of AWS_PROFILE",
	"InvalidAccessKeyId":    noSuchKey,
	"XAdminUserNotFound":    noSuchKey, // of versitygw, with the status 404
	"InvalidToken":          "the session token is wrong; check AWS_SESSION_TOKEN, and leave it out for keys that are not temporary",
	"ExpiredToken":          expiredKeys,
	"ExpiredTokenException": expiredKeys,
	"TokenRefreshRequired":  expiredKeys,
}

// verbPut names the only request that writes.
const verbPut = "put"

// failed wraps an error of the store with its category. If ctx, the caller's context, is done, it returns the context's error instead.
func (r *S3) failed(ctx context.Context, verb, name string, err error) error {
	what := r.what(verb, name)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, context.Cause(ctx))
	}
	var api smithy.APIError
	code := ""
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	var response *awshttp.ResponseError
	status := 0
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	if status >= 300 && status < 400 && status != http.StatusNotModified {
		if to, err := url.Parse(response.Response.Header.Get("Location")); err == nil && to.Host != "" {
			return fmt.Errorf("%s: the store redirects to %s, to which nothing is sent; check --%[3]ss3-region and --%[3]ss3-endpoint: %[4]w", what, to.Host, r.flags, fault.ErrConfig)
		}
	}
	switch {
	case slices.Contains(passing, code) || slices.Contains(expired, code) && awsconfig.Renew(ctx, r.creds):
		return fmt.Errorf("%s: the store answers %d %s%s: %w", what, status, code, later(status), fault.ErrUnavailable)
	case credentialRemedies[code] != "":
		return fmt.Errorf("%s: the store refuses the credentials (%s): %s: %w", what, code, credentialRemedies[code], fault.ErrConfig)
	case code == "NoSuchBucket" || verb == verbPut && status == http.StatusNotFound:
		return &missingBucket{what, "its name, --" + r.flags + "s3-endpoint and --" + r.flags + "s3-region"}
	case code == "NoSuchKey" || code == "NotFound" || status == http.StatusNotFound:
		return fmt.Errorf("%s: %w", what, fs.ErrNotExist)
	case status == http.StatusRequestedRangeNotSatisfiable:
		return fault.Corrupt(name, "", -1, "the object ends before the range that is needed")
	case status == http.StatusPreconditionFailed:
		return fault.Corrupt(name, "", -1, "the object changed while it was read")
	case code == "InvalidObjectState":
		return fmt.Errorf("%s: the object is archived; restore it first: %w", what, fault.ErrConfig)
	case code == "RequestTimeTooSkewed":
		return fmt.Errorf("%s: the clock of this machine differs too much from the clock of the store (%s) for signed requests; set it: %w", what, response.Response.Header.Get("Date"), fault.ErrUnavailable)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		needed := "s3:GetObject and s3:ListBucket are"
		if verb == verbPut {
			needed = "s3:PutObject is"
		}
		return fmt.Errorf("%s: %s; the credentials may not do this (%s needed): %w", what, code, needed, fault.ErrConfig)
	case status == http.StatusMovedPermanently || code == "PermanentRedirect" || code == "AuthorizationHeaderMalformed":
		return fmt.Errorf("%s: %s; is --%ss3-region the bucket's region?: %w", what, code, r.flags, fault.ErrConfig)
	case status >= 400 && status < 500 && status != http.StatusTooManyRequests && status != http.StatusRequestTimeout:
		said := err.Error()
		if api != nil {
			said = fmt.Sprintf("the store answers %d %s: %s", status, sentence(code), sentence(api.ErrorMessage()))
		}
		return fmt.Errorf("%s: %s: %w", what, said, fault.ErrConfig)
	}
	if status == 0 || status/100 == 2 { // no answer, or not all of it
		return fmt.Errorf("%s: %w", what, r.unanswered(err))
	}
	return fmt.Errorf("%s: the store answers %d %s%s: %w", what, status, code, later(status), fault.ErrUnavailable)
}

// unanswered returns the error of a request without a response.
func (r *S3) unanswered(err error) error {
	flag := "--" + r.flags + "s3-"
	s := silence{
		where: "the endpoint " + r.endpoint, setting: flag + "endpoint", authority: "AWS_CA_BUNDLE", remedy: "check " + flag + "endpoint and the network",
		noHost: ", or give " + flag + "path-style (without it the bucket's name is part of the host name)",
	}
	if r.endpoint == "" {
		s.where, s.noHost = "S3 in the region "+r.region, ""
		s.remedy = "check " + flag + "region and the network, or name another store with " + flag + "endpoint"
	}
	return s.of(err)
}
