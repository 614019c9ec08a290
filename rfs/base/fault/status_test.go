package fault_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   error
	}{
		{"success", 200, nil}, {"created", 201, nil}, {"overloaded", 429, fault.ErrUnavailable}, {"gateway", 502, fault.ErrUnavailable},
		{"no credentials", 401, fault.ErrConfig}, {"no permission", 403, fault.ErrConfig}, {"bad request", 400, fault.ErrRejected},
		{"a proxy waited too long", 408, fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := fault.CheckStatus("GET /x", c.status, []byte(strings.Repeat("b", 1000)))
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Fatalf("%d: %v, want %v", c.status, err, c.want)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "GET /x: status ") || strings.Count(err.Error(), "b") > 310) {
				t.Errorf("%v", err)
			}
		})
	}
}

// TestErrorMessage_Pages: for a page, such as a proxy's, the text is shown without tags.
func TestErrorMessage_Pages(t *testing.T) {
	for page, text := range map[string]string{
		"<html>\n<h1>403 Forbidden</h1><hr>proxy</html>": "403 Forbidden proxy",
		"<html>\r\n<head><title>502 Bad Gateway</title></head>\r\n<body>\r\n<center><h1>502 Bad Gateway</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>": "502 Bad Gateway nginx",
		"<html><TITLE lang=en>Log\nin</TITLE><body>":                              "Log in",
		`<?xml version="1.0"?><Error><Code>AccessDenied</Code><Message>Access De`: "AccessDenied Access De",
		"<html><p class=" + strings.Repeat("x", 400):                              "",
	} {
		_, got := fault.ErrorMessage([]byte(page))
		if want := strings.TrimSpace("the answer is a page, not the response of a cluster; check the address: " + text); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestAResponseThatCannotBeDecodedIsUnavailable: a proxy's page, or a truncated response, is no reason to give up.
func TestAResponseThatCannotBeDecodedIsUnavailable(t *testing.T) {
	var out struct{ Count int }
	if err := fault.Decode("GET /x", 200, []byte(`{"count":3}`), &out); err != nil || out.Count != 3 {
		t.Errorf("%+v, %v", out, err)
	}
	for _, body := range []string{"", "<html>", `{"count":`} {
		if err := fault.Decode("GET /x", 200, []byte(body), &out); !errors.Is(err, fault.ErrUnavailable) || !strings.HasPrefix(err.Error(), "GET /x: the response of ") {
			t.Errorf("%q: %v", body, err)
		}
	}
	if err := fault.Decode("GET /x", 403, []byte(`{"error":{"type":"security_exception","reason":"no permissions"}}`), &out); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "status 403: no permissions; ") {
		t.Errorf("%v", err)
	}
}
