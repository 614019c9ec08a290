package fault

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// CheckStatus returns nil for a status below 300, otherwise a *StatusError: ErrUnavailable for a Transient error, ErrConfig for 401 and
// 403, else ErrRejected. call is the method and path of the request.
func CheckStatus(call string, status int, answer []byte) error {
	if status < 300 {
		return nil
	}
	e := &StatusError{Call: call, Status: status}
	e.Type, e.Reason = ErrorMessage(answer)
	switch {
	case Transient(status, e.Type, e.Reason):
		e.category = ErrUnavailable
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		e.category = ErrConfig
	default:
		e.category = ErrRejected
	}
	return e
}

// Decode decodes the JSON of a response into out. It returns the *StatusError of CheckStatus for an unsuccessful response, and
// ErrUnavailable for a body that cannot be decoded.
func Decode(call string, status int, answer []byte, out any) error {
	if err := CheckStatus(call, status, answer); err != nil {
		return err
	}
	if err := json.Unmarshal(answer, out); err != nil {
		return fmt.Errorf("%s: the response of %d bytes is not the JSON of a cluster; check the address: %w: %w", call, len(answer), err, ErrUnavailable)
	}
	return nil
}

// StatusError is an unsuccessful response of a cluster.
type StatusError struct {
	Call         string // method and path
	Status       int    // HTTP status
	Type, Reason string // from the cluster; Type is "" if the body is not a JSON error
	User         string // the rejected user for 401 and 403, such as "user ann"
	Remedy       string // "" if the message suffices
	category     error
}

// Error returns call, status, the cluster's message as Explain returns it, and the remedy.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: status %d", e.Call, e.Status)
	if e.User != "" {
		fmt.Fprintf(&b, " for %s", e.User)
	}
	text, remedy := Explain(e.Status, e.Type, e.Reason)
	if text != "" {
		b.WriteString(": " + text)
	}
	if remedy = cmp.Or(e.Remedy, remedy); remedy != "" {
		b.WriteString("; " + remedy)
	}
	if e.category != nil {
		b.WriteString(": " + e.category.Error())
	}
	return b.String()
}

// Unwrap returns the category.
func (e *StatusError) Unwrap() error { return e.category }

// HasStatus reports whether err is a *StatusError with one of the statuses.
func HasStatus(err error, statuses ...int) bool {
	var e *StatusError
	return errors.As(err, &e) && slices.Contains(statuses, e.Status)
}

// tags matches tags of HTML and XML; the last one may be truncated.
var (
	tags   = regexp.MustCompile(`<[^>]*(>|$)`)
	titles = regexp.MustCompile(`(?is)<title[^>]*>.*?</title>`)
)

// ErrorMessage returns type and reason of an error response. For any other body, the reason is its start, and for a page its text.
func ErrorMessage(answer []byte) (kind, reason string) {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	if json.Unmarshal(answer, &a) == nil && len(a.Error) > 0 {
		return ErrorObject(a.Error)
	}
	if text := Page(answer); text != "" {
		return "", text
	}
	return "", strings.Join(strings.Fields(beginning(answer)), " ")
}

// beginning returns the first 300 bytes of an answer.
func beginning(answer []byte) string {
	return strings.ToValidUTF8(string(answer[:min(len(answer), 300)]), "")
}

// Page returns the words of an answer that is a page, as of a proxy, and states that it is; "" for other answers. Pages repeat their title
// as a heading.
func Page(answer []byte) string {
	s := beginning(answer)
	if !strings.HasPrefix(strings.TrimSpace(s), "<") {
		return ""
	}
	words := strings.Fields(tags.ReplaceAllString(titles.ReplaceAllString(s, " "), " "))
	if len(words) == 0 {
		words = strings.Fields(tags.ReplaceAllString(s, " "))
	}
	return strings.TrimSpace("the answer is a page, not the response of a cluster; check the address: " + strings.Join(words, " "))
}

// ErrorObject returns type and reason of an error object {"type","reason","caused_by":{…}} or of a plain string.
func ErrorObject(raw []byte) (kind, reason string) {
	type cause struct {
		Type, Reason string
		CausedBy     json.RawMessage `json:"caused_by"`
	}
	var e cause
	if json.Unmarshal(raw, &e) != nil {
		var s string
		if json.Unmarshal(raw, &s) != nil {
			s = string(raw)
		}
		return "", s
	}
	kind, reason = e.Type, e.Reason
	const deepest = 5
	for range deepest {
		if len(e.CausedBy) == 0 {
			break
		}
		next := e.CausedBy
		e = cause{}
		if json.Unmarshal(next, &e) != nil || e.Reason == "" {
			break
		}
		if !strings.Contains(reason, e.Reason) {
			reason += "; caused by " + e.Reason
		}
	}
	return kind, reason
}
