package objects_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// answers is a target that answers every request of a kind alike.
type answers map[string]struct {
	status int
	body   string
}

func (a answers) Do(_ context.Context, method, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if x, ok := a[method+" "+path]; ok {
		if x.status == 0 {
			return 0, nil, fmt.Errorf("%s: %w", x.body, fault.ErrUnavailable)
		}
		return x.status, []byte(x.body), nil
	}
	if method == http.MethodGet {
		return http.StatusNotFound, []byte("{}"), nil
	}
	return http.StatusOK, []byte("{}"), nil
}

func TestOneRefusedTemplateKeepsNoOtherFromBeingCreated(t *testing.T) {
	plan := planOf(t, openSearch, all, `{"templates":{"a":{"index_patterns":["x"]},"b":{"index_patterns":["x"]},"c":{"index_patterns":["x"]}}}`)
	done, err := objects.EnsureGlobals(t.Context(), answers{
		"PUT /_template/a": {400, `{"error":{"type":"illegal_argument_exception","reason":"no such luck"}}`},
		"PUT /_template/b": {400, `{"error":{"type":"illegal_argument_exception","reason":"index_template [b] already exists"}}`},
	}, plan, nil)
	if !errors.Is(err, fault.ErrRejected) || !strings.Contains(err.Error(), "no such luck") {
		t.Errorf("error %v", err)
	}
	if !slices.Equal(done.Created, []string{"template c"}) || !slices.Equal(done.Existed, []string{"template b"}) {
		t.Errorf("%+v", done)
	}
}

func TestATargetThatIsAwayOrForbidsEndsTheWork(t *testing.T) {
	plan := planOf(t, openSearch, all, `{"templates":{"a":{"index_patterns":["x"]},"b":{"index_patterns":["x"]}}}`)
	for want, answer := range map[error]answers{
		fault.ErrUnavailable: {"GET /_template/a": {0, "away"}},
		fault.ErrConfig:      {"GET /_template/a": {403, `{"error":"forbidden"}`}},
	} {
		if done, err := objects.EnsureGlobals(t.Context(), answer, plan, nil); !errors.Is(err, want) || len(done.Created) > 0 {
			t.Errorf("%+v, %v", done, err)
		}
	}
}
