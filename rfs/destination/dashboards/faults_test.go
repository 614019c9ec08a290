package dashboards_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/dashboards"
	"github.com/rfsd/rfsd/testing/dashboardstest"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

func TestImporter_FaultsOfARequest(t *testing.T) {
	elsewhere := 0
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere++ }))
	defer other.Close()
	// write returns a function that answers an import with a body.
	write := func(status int, body string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.HasSuffix(r.URL.Path, "/_import") {
				return false
			}
			w.Header().Set("Location", other.URL+"/login")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return true
		}
	}
	for _, c := range []struct {
		name   string
		server *dashboardstest.Server
		is     error
		text   string
		tries  int
	}{
		{"a wrong password", &dashboardstest.Server{User: "ann", Password: "other"}, fault.ErrConfig, "status 401: Authentication Exception; the dashboards refuses the user: check --dashboards-username and the password (--dashboards-password-file or RFS_DASHBOARDS_PASSWORD)", 0},
		{"no permission", &dashboardstest.Server{Before: write(403, `{"statusCode":403,"error":"Forbidden","message":"no permissions for [indices:data/write/bulk]"}`)}, fault.ErrConfig, "status 403: no permissions for [indices:data/write/bulk]", 1},
		{"another server", &dashboardstest.Server{Before: write(404, `{"statusCode":404,"error":"Not Found","message":"Not Found"}`)}, fault.ErrRejected, "the address is not the one of OpenSearch Dashboards; check --dashboards-host, also its path, such as /_dashboards", 1},
		{"a proxy without its server", &dashboardstest.Server{Before: write(502, "<html>Bad Gateway</html>")}, fault.ErrUnavailable, "after 4 tries: POST /api/saved_objects/_import: status 502", 4},
		{"a server that starts", &dashboardstest.Server{Before: write(503, "OpenSearch Dashboards server is not ready yet")}, fault.ErrUnavailable, "status 503: OpenSearch Dashboards server is not ready yet", 4},
		{"a redirect to another host", &dashboardstest.Server{Before: write(302, "")}, fault.ErrConfig, "redirects to " + other.URL + "/login", 1},
		{"a page", &dashboardstest.Server{Before: write(200, "<html>login</html>")}, fault.ErrUnavailable, "is not the JSON", 4},
		{"a response without the object", &dashboardstest.Server{Before: write(200, `{"success":true,"successCount":1}`)}, fault.ErrUnsupported, "does not name index-pattern p (T)", 1},
		{"a response about another object", &dashboardstest.Server{Before: write(200, `{"successResults":[{"type":"index-pattern","id":"p"}],"errors":[{"type":"search","id":"x","error":{"type":"conflict"}}]}`)}, fault.ErrUnsupported, "objects that were not sent", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.server.Start(t)
			r, err := importer(s.URL).Import(t.Context(), file(t, object("index-pattern", "p", isPattern)))
			if !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.text) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v, want %q", err, c.text)
			}
			if len(outcome(r)) != 0 || imports(s) != c.tries {
				t.Errorf("%q after %d imports", outcome(r), imports(s))
			}
		})
	}
	if elsewhere != 0 {
		t.Errorf("%d requests went to the host of the redirect", elsewhere)
	}
	t.Run("nothing listens", func(t *testing.T) {
		gone := httptest.NewServer(nil)
		gone.Close()
		_, err := importer(gone.URL).Import(t.Context(), file(t, object("index-pattern", "p", isPattern)))
		if !errors.Is(err, fault.ErrUnavailable) || !strings.Contains(err.Error(), "after 4 tries") || !strings.Contains(err.Error(), "check --dashboards-host") {
			t.Error(err)
		}
	})
	t.Run("no file", func(t *testing.T) {
		s := new(dashboardstest.Server).Start(t)
		if _, err := importer(s.URL).Import(t.Context(), dashboards.File{Path: filepath.Join(t.TempDir(), "none")}); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	})
	t.Run("no saved object", func(t *testing.T) {
		s := new(dashboardstest.Server).Start(t)
		if _, err := importer(s.URL).Import(t.Context(), file(t, `{"a":1}`)); !errors.Is(err, fault.ErrCorrupt) || imports(s) != 0 {
			t.Error(err)
		}
	})
}

// TestImporter_IsRepeated: whether a request or its response is lost, a later import completes the work, and no object is lost or twice.
func TestImporter_IsRepeated(t *testing.T) {
	lines := []string{object("index-pattern", "p", isPattern), object("search", "s", isSearch, "index-pattern:p"), object("dashboard", "d", isDashboard)}
	all := []string{"dashboard:d", "index-pattern:p", "search:s"}
	t.Run("after a lost response", func(t *testing.T) {
		lost := false
		s := new(dashboardstest.Server)
		s.Before = func(w http.ResponseWriter, r *http.Request) bool {
			if lost || !strings.HasSuffix(r.URL.Path, "/_import") {
				return false
			}
			lost = true
			s.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		s.Start(t)
		r, err := importer(s.URL).Import(t.Context(), file(t, lines...))
		if err != nil || len(r.Existing) != 3 || !slices.Equal(s.Objects(""), all) {
			t.Errorf("%+v, %v: %q", r, err, s.Objects(""))
		}
	})
	t.Run("after an error between two requests", func(t *testing.T) {
		s := &dashboardstest.Server{MaxObjects: 1}
		ctx, cancel := context.WithCancel(t.Context())
		s.Before = func(http.ResponseWriter, *http.Request) bool {
			if ctx.Err() == nil && len(s.Objects("")) == 2 {
				cancel()
				panic(http.ErrAbortHandler) // else the response can arrive before the client sees that it is canceled
			}
			return false
		}
		s.Start(t)
		f := file(t, lines...)
		r, err := importer(s.URL).Import(ctx, f)
		if !errors.Is(err, context.Canceled) || len(r.Imported) < 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		r, err = importer(s.URL).Import(t.Context(), f)
		if err != nil || len(r.Existing)+len(r.Imported) != 3 || len(r.Existing) < 2 || !slices.Equal(s.Objects(""), all) {
			t.Errorf("%+v, %v: %q", r, err, s.Objects(""))
		}
	})
}

// said is an API without tenants that answers each import alike.
type said struct {
	answer   string
	requests int
}

func (s *said) Do(context.Context, string, string, url.Values, []byte) (int, []byte, error) {
	return http.StatusNotFound, nil, nil
}

func (s *said) Post(context.Context, string, string, []byte) (int, []byte, error) {
	s.requests++
	return http.StatusOK, []byte(s.answer), nil
}

func (s *said) Refused() string { return "" }

// FuzzImporter_Import: whatever a file and a response hold, there is an error, or each object has one outcome, after at most one request
// for each object.
func FuzzImporter_Import(f *testing.F) {
	pattern := object("index-pattern", "p", isPattern)
	f.Add(pattern, `{"successResults":[{"type":"index-pattern","id":"p"}]}`)
	f.Add(pattern+"\n"+object("search", "s", isSearch, "index-pattern:p"), `{"successResults":[{"type":"search","id":"s"}],"errors":[{"type":"index-pattern","id":"p","error":{"type":"conflict"}}]}`)
	f.Add(pattern+"\n"+pattern, `{"errors":[{"type":"index-pattern","id":"p","error":{"type":"missing_references","references":[{"type":"a","id":"b"}]}}]}`)
	f.Add(`{"type":"a","attributes":{"title":1},"references":null}`, `null`)
	path := filepath.Join(f.TempDir(), "f")
	f.Fuzz(func(t *testing.T, content, answer string) {
		defer fuzzing.Bounded(t, len(content)+len(answer))()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		api := &said{answer: answer}
		i := importer("")
		i.Connect = func(context.Context, string) (dashboards.API, error) { return api, nil }
		r, err := i.Import(t.Context(), dashboards.File{Path: path})
		n := 0
		if content != "" {
			n = strings.Count(strings.TrimSuffix(content, "\n"), "\n") + 1
		}
		const tries = 4 // of a response that is not JSON
		if len(outcome(r)) != n && err == nil || len(outcome(r)) > n || api.requests > max(n, tries) {
			t.Errorf("%q for %d objects after %d requests, %v", outcome(r), n, api.requests, err)
		}
	})
}
