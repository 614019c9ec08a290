package repo

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// refusal is a response with a status other than 2xx.
type refusal struct {
	status int
	header http.Header
	body   []byte // the beginning
	token  string // the token that was sent
}

// Error returns the status.
func (r *refusal) Error() string { return fmt.Sprintf("the store answers %d", r.status) }

// elsewhere returns the host to which a response redirects; "" if it does not.
func (r *refusal) elsewhere() string {
	if r.status/100 != 3 {
		return ""
	}
	to, err := url.Parse(r.header.Get("Location"))
	if err != nil {
		return ""
	}
	return to.Host
}

// gcsReasons parses the reason and the message of an error of the JSON API. Errors of media requests are plain text, which is the message.
func gcsReasons(body []byte) (reason, message string) {
	var e struct {
		Error struct {
			Message string
			Errors  []struct{ Reason string }
		}
	}
	if json.Unmarshal(body, &e) != nil {
		return "", sentence(string(body))
	}
	if len(e.Error.Errors) > 0 {
		reason = sentence(e.Error.Errors[0].Reason)
	}
	return reason, sentence(e.Error.Message)
}

// maxSentence bounds the quotation of a store's message, in bytes.
const maxSentence = 300

// sentence returns the first line of a text, bounded and without control characters; "" for HTML and XML.
func sentence(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if strings.HasPrefix(text, "<") {
		return ""
	}
	if text = strings.ToValidUTF8(text, ""); len(text) > maxSentence {
		text = strings.ToValidUTF8(text[:maxSentence], "") + "…"
	}
	return strings.TrimSuffix(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text), ".")
}

// passes reports whether a status is temporary, so that the same request may succeed later.
func passes(status int) bool {
	return status == http.StatusTooManyRequests || status == http.StatusRequestTimeout || status >= 500
}

// later returns what to do about a store that asks for fewer requests; "" for other statuses.
func later(status int) string {
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		return "; it is overloaded or limits the requests, try again later"
	}
	return ""
}

// missingBucket is the error of a request to a bucket that does not exist. It is an fault.ErrNoBucket.
type missingBucket struct{ what, check string }

func (e *missingBucket) Error() string {
	return e.what + ": the bucket does not exist; check " + e.check + ": " + fault.ErrConfig.Error()
}

func (e *missingBucket) Unwrap() error { return fault.ErrNoBucket }

// redirected returns the error of a response that redirects.
func redirected(what, host, check string) error {
	return fmt.Errorf("%s: the store redirects to %s, to which nothing is sent; check %s: %w", what, host, check, fault.ErrConfig)
}
