package fault

import (
	"errors"
	"strings"
	"testing"
)

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		want   error
	}{
		{"success", 200, nil}, {"created", 201, nil}, {"overloaded", 429, ErrUnavailable}, {"gateway", 502, ErrUnavailable},
		{"no credentials", 401, ErrConfig}, {"no permission", 403, ErrConfig}, {"bad request", 400, ErrRejected},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := Status("GET /x", c.status, []byte(strings.Repeat("b", 1000)))
			if !errors.Is(err, c.want) || c.want == nil && err != nil {
				t.Fatalf("%d: %v, want %v", c.status, err, c.want)
			}
			if err != nil && (!strings.HasPrefix(err.Error(), "GET /x: status ") || strings.Count(err.Error(), "b") > 310) {
				t.Errorf("%v", err)
			}
		})
	}
}
