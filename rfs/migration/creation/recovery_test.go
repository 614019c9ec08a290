package creation

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/migration/plan"
	"github.com/rfsd/rfsd/rfs/source/snapshot"
)

// mappings answers GET /NAME/_mapping with one mapping, 403 when there is none.
type mappings string

func (m mappings) Do(_ context.Context, _, path string, _ url.Values, _ []byte) (int, []byte, error) {
	if m == "" || path != "/articles/_mapping" {
		return http.StatusForbidden, nil, nil
	}
	return http.StatusOK, []byte(`{"articles":{"mappings":` + string(m) + `}}`), nil
}

func TestSendsOriginals(t *testing.T) {
	const filter = `{"_source":{"excludes":["body","x"]},"properties":{}}`
	for _, c := range []struct {
		name, source string
		target       mappings
		want         bool
		err          error
	}{
		{"the target leaves out the same", filter, `{"_source":{"excludes":["x","body"]}}`, true, nil},
		{"a single name is a list of one", `{"_source":{"includes":"t"}}`, `{"_source":{"includes":["t"]}}`, true, nil},
		{"the target leaves out nothing", filter, `{}`, false, nil},
		{"the target leaves out less", filter, `{"_source":{"excludes":["x"]}}`, false, nil},
		{"the target includes what the source excludes", filter, `{"_source":{"includes":["body","x"]}}`, false, nil},
		{"originals are filtered, too", `{"_source":{"excludes":["body"],"recovery_source_excludes":["body"]}}`, `{"_source":{"excludes":["body"]}}`, false, nil},
		{"the source leaves out nothing", `{"properties":{}}`, "", false, nil},
		{"the target does not permit it", filter, "", false, fault.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := plan.Index{
				Source: &snapshot.Index{Name: "articles", Mappings: []snapshot.Mapping{{Body: json.RawMessage(c.source)}}},
				Entry:  plan.Entry{Naming: plan.Naming{Index: "articles"}},
			}
			got, err := (&Indices{Requester: c.target}).sendsOriginals(t.Context(), x)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("%v, %v; want %v, %v", got, err, c.want, c.err)
			}
		})
	}
}
