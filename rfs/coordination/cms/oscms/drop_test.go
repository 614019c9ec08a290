package oscms_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/rfsd/rfsd/rfs/coordination/cms/oscms"
	"github.com/rfsd/rfsd/testing/fakecluster"
)

// TestDrop_NamesTheIndicesThatExisted: a cluster acknowledges that it deletes an index which does not exist, unless the request excludes that.
func TestDrop_NamesTheIndicesThatExisted(t *testing.T) {
	server := httptest.NewServer(fakecluster.New())
	defer server.Close()
	c := connectURL(t, server.URL)
	for _, sess := range []string{"s", "s-round-1"} {
		send(t, c, http.MethodPut, "/"+itemsIndex(sess), `{"aliases":{".rfs_items_`+sess+`":{}}}`)
		send(t, c, http.MethodPut, "/"+controlIndex(sess), `{"aliases":{".rfs_records_`+sess+`":{}}}`)
	}
	for _, want := range [][]string{{itemsIndex("s"), controlIndex("s")}, nil} {
		if dropped, err := oscms.Drop(t.Context(), c, "s"); err != nil || !slices.Equal(dropped, want) {
			t.Errorf("removed %q, want %q: %v", dropped, want, err)
		}
	}
	send(t, c, http.MethodGet, "/"+itemsIndex("s-round-1"), "")
	send(t, c, http.MethodGet, "/"+controlIndex("s-round-1"), "")
}
