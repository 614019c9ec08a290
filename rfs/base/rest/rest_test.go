package rest_test

import (
	"context"
	"errors"
	"net/url"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
)

// answers is an API that answers each request alike.
type answers struct {
	status int
	body   string
	err    error
	asked  string // of the last request
}

func (a *answers) Do(_ context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	a.asked = method + " " + path + "?" + query.Encode() + " " + string(body)
	return a.status, []byte(a.body), a.err
}

func TestCall(t *testing.T) {
	away := errors.New("no route to host")
	for _, c := range []struct {
		name  string
		api   answers
		err   error
		text  string
		count int
	}{
		{"a success", answers{status: 200, body: `{"count":3}`}, nil, "", 3},
		{"no response", answers{err: away}, away, "no route to host", 0},
		{"a refusal", answers{status: 404, body: `{"error":{"type":"gone","reason":"no such index"}}`}, fault.ErrRejected, "POST /a/_count: status 404: gone: no such index: rejected by target", 0},
		{"an overload", answers{status: 429}, fault.ErrUnavailable, "POST /a/_count: status 429: unavailable", 0},
		{"no JSON", answers{status: 200, body: "<html>"}, fault.ErrUnavailable, "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out struct{ Count int }
			err := rest.Call(t.Context(), &c.api, "POST", "/a/_count", url.Values{"q": {"x"}}, []byte("{}"), &out)
			if !errors.Is(err, c.err) || c.text != "" && err.Error() != c.text || out.Count != c.count {
				t.Errorf("%+v, %v", out, err)
			}
			if c.api.asked != "POST /a/_count?q=x {}" {
				t.Errorf("asked for %s", c.api.asked)
			}
		})
	}
}

func TestCall_DecodesNothingUnlessAsked(t *testing.T) {
	if err := rest.Call(t.Context(), &answers{status: 200, body: "true"}, "PUT", "/a", nil, nil, nil); err != nil {
		t.Error(err)
	}
	if err := rest.Get(t.Context(), &answers{status: 403}, "/a", nil, nil); !errors.Is(err, fault.ErrConfig) || !fault.HasStatus(err, 404, 403) || fault.HasStatus(err, 404) {
		t.Error(err)
	}
}
