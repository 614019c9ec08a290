package oscms_test

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
)

// told is a cluster with one fixed response.
type told struct {
	status int
	answer string
}

func (c told) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return c.status, []byte(c.answer), nil
}

// TestSessions_List: the control indices of a cluster are its sessions; indices whose names no session can have are ignored.
func TestSessions_List(t *testing.T) {
	for _, c := range []struct {
		name string
		told
		want []string
		err  error
	}{
		{"several", told{200, `{".rfs_control_move-1":{},".rfs_control":{},".rfs_control_a":{},".rfs_control_":{},".rfs_controls":{},".rfs_control_UP":{}}`}, []string{"", "a", "move-1"}, nil},
		{"none", told{200, `{}`}, nil, nil},
		{"none, as old clusters tell it", told{404, `{"error":{"type":"index_not_found_exception"},"status":404}`}, nil, nil},
		{"no permission", told{403, `{"error":{"type":"security_exception"},"status":403}`}, nil, fault.ErrConfig},
		{"no JSON", told{200, `<html>`}, nil, fault.ErrUnavailable},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := oscms.Sessions(t.Context(), c.told)
			if !slices.Equal(got, c.want) || !errors.Is(err, c.err) || (err == nil) != (c.err == nil) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}
