// Package dashboardstest imitates the API of OpenSearch Dashboards and of its security plugin for tests.
//
// It follows the sources of OpenSearch Dashboards 2.19 and 3.x: src/core/server/saved_objects/import (importSavedObjectsFromStream,
// validateReferences, checkConflicts, createSavedObjects), routes/import.ts and bulk_get.ts, service/lib/repository.ts (bulkCreate runs the
// migrations of all objects before it writes the first), http/lifecycle_handlers.ts; and resolve in server/multitenancy/tenant_resolver.ts
// of the security plugin. Parsing of forms and the answer with status 413 were compared with @hapi/hapi 20, the server's library; tenants are
// compared with the security plugin of OpenSearch 2.19.4 (TestImporter_TenantsOfTheSecurityPlugin). No complete server was at hand.
package dashboardstest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Server is an OpenSearch Dashboards. Its fields are set before the first request.
type Server struct {
	URL string

	User, Password string          // "": anyone
	Tenants        map[string]bool // that the user has, and may write; nil: no security plugin
	NoGlobal       bool            // multitenancy.tenants.enable_global is false
	Forwards       bool            // multitenancy.enabled is false, and requestHeadersAllowlist has securitytenant
	MaxBytes       int64           // savedObjects.maxImportPayloadBytes
	MaxObjects     int             // savedObjects.maxImportExportSize
	Broken         string          // id of an object whose migration fails with a TypeError
	Sourceless     string          // id of an object whose data source does not exist
	// Before answers a request in place of the server, unless it returns false. It may be called concurrently.
	Before func(w http.ResponseWriter, r *http.Request) bool

	mu       sync.Mutex
	objects  map[string]map[string]Object // by tenant, type and id
	requests []string
}

// Object is a saved object.
type Object struct {
	Type       string            `json:"type"`
	ID         string            `json:"id"`
	Attributes map[string]any    `json:"attributes,omitempty"`
	References []Object          `json:"references,omitempty"`
	Migrated   map[string]string `json:"migrationVersion,omitempty"`
}

func (o Object) key() string { return o.Type + ":" + o.ID }

// private is the name of the user's own tenant in requests to OpenSearch.
const private = "__user__"

// newest are the importable types with the versions of their last migrations; "" for none.
var newest = map[string]string{"index-pattern": "7.6.0", "visualization": "7.10.0", "dashboard": "7.9.3", "search": "7.9.3", "query": "", "url": ""}

// Start serves s until the test ends.
func (s *Server) Start(t *testing.T) *Server {
	t.Helper()
	s.MaxBytes, s.MaxObjects = cmp.Or(s.MaxBytes, 26214400), cmp.Or(s.MaxObjects, 10000)
	s.objects = map[string]map[string]Object{}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Put creates objects of a tenant; "" is the global one.
func (s *Server) Put(tenant string, all ...Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects[tenant] == nil {
		s.objects[tenant] = map[string]Object{}
	}
	for _, o := range all {
		s.objects[tenant][o.key()] = o
	}
}

// Objects returns the sorted types and ids of the objects of a tenant.
func (s *Server) Objects(tenant string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := []string{}
	for key := range s.objects[tenant] {
		all = append(all, key)
	}
	slices.Sort(all)
	return all
}

// Object returns an object of a tenant.
func (s *Server) Object(tenant, key string) Object {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects[tenant][key]
}

// Requests returns methods and paths of the requests so far.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// failure is the body of an unsuccessful answer.
type failure struct {
	Status  int    `json:"statusCode"`
	Error   string `json:"error"`
	Message string `json:"message"`
}

func fail(status int, format string, args ...any) *failure {
	return &failure{status, http.StatusText(status), fmt.Sprintf(format, args...)}
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	if s.Before != nil && s.Before(w, r) {
		return
	}
	body, err := s.answer(r)
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err != nil {
		w.WriteHeader(err.Status)
		body = err
	}
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) answer(r *http.Request) (any, *failure) {
	if user, password, _ := r.BasicAuth(); s.User != "" && (user != s.User || password != s.Password) {
		return nil, fail(http.StatusUnauthorized, "Authentication Exception")
	}
	if r.Method == http.MethodPost && r.Header.Get("osd-xsrf") == "" {
		return nil, fail(http.StatusBadRequest, "Request must contain a osd-xsrf header.")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	tenant := s.Tenant(r.Header.Get("securitytenant"))
	if _, has := s.Tenants[tenant]; s.Forwards && tenant != "" && !has && r.Method == http.MethodPost {
		return nil, fail(http.StatusForbidden, "no permissions for [] and User [name=%s]", s.User)
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /api/v1/auth/authinfo":
		if s.Tenants == nil {
			break
		}
		return map[string]any{"user_name": s.User, "user_requested_tenant": tenant, "tenants": s.Tenants}, nil
	case "POST /api/saved_objects/_bulk_get":
		return s.find(tenant, r)
	case "POST /api/saved_objects/_import":
		return s.imported(tenant, r)
	}
	return nil, fail(http.StatusNotFound, "Not Found")
}

// Tenant returns the tenant of a request with that header, "" for the global one: without an error it is another one if the user does not have the wanted one.
func (s *Server) Tenant(wanted string) string {
	if s.Tenants == nil {
		return ""
	}
	if s.Forwards {
		return wanted
	}
	if _, has := s.Tenants[wanted]; has {
		return wanted
	}
	if strings.EqualFold(wanted, "global") && !s.NoGlobal {
		return ""
	}
	return private // the first of multitenancy.tenants.preferred by default
}

// find answers _bulk_get.
func (s *Server) find(tenant string, r *http.Request) (any, *failure) {
	var asked []Object
	const mostBytes = 1048576 // server.maxPayload
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBytes+1))
	switch {
	case err != nil || len(body) > mostBytes:
		return nil, fail(http.StatusRequestEntityTooLarge, "Payload content length greater than maximum allowed: %d", mostBytes)
	case json.Unmarshal(body, &asked) != nil:
		return nil, fail(http.StatusBadRequest, "[request body]: expected value of type [array]")
	}
	all := []any{}
	for _, o := range asked {
		_, supported := newest[o.Type]
		is, exists := s.objects[tenant][o.key()]
		switch {
		case !supported:
			all = append(all, map[string]any{"id": o.ID, "type": o.Type, "error": fail(http.StatusBadRequest, "Unsupported saved object type: '%s': Bad Request", o.Type)})
		case !exists:
			all = append(all, map[string]any{"id": o.ID, "type": o.Type, "error": fail(http.StatusNotFound, "Saved object [%s/%s] not found", o.Type, o.ID)})
		default:
			all = append(all, is)
		}
	}
	return map[string]any{"saved_objects": all}, nil
}

// objectsOf reads the file of an import.
func (s *Server) objectsOf(r *http.Request) (all []Object, _ *failure) {
	r.Body = http.MaxBytesReader(nil, r.Body, s.MaxBytes)
	file, header, err := r.FormFile("file")
	var long *http.MaxBytesError
	switch {
	case errors.As(err, &long):
		return nil, fail(http.StatusRequestEntityTooLarge, "Payload content length greater than maximum allowed: %d", s.MaxBytes)
	case err != nil:
		return nil, fail(http.StatusUnsupportedMediaType, "Unsupported Media Type")
	case filepath.Ext(header.Filename) != ".ndjson":
		return nil, fail(http.StatusBadRequest, "Invalid file extension %s", filepath.Ext(header.Filename))
	}
	seen := map[string]bool{}
	var twice []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, int(s.MaxBytes))
	for lines.Scan() {
		var o Object
		if err := json.Unmarshal(lines.Bytes(), &o); err != nil {
			return nil, fail(http.StatusBadRequest, "%v", err)
		}
		if seen[o.key()] {
			twice = append(twice, o.key())
		}
		seen[o.key()] = true
		all = append(all, o)
	}
	switch {
	case len(all) > s.MaxObjects:
		return nil, fail(http.StatusBadRequest, "Can't import more than %d objects", s.MaxObjects)
	case len(twice) > 0:
		return nil, fail(http.StatusBadRequest, "Non-unique import objects detected: [%s]: Bad Request", strings.Join(twice, ","))
	}
	return all, nil
}

// imported answers _import with overwrite=false.
func (s *Server) imported(tenant string, r *http.Request) (any, *failure) {
	all, failed := s.objectsOf(r)
	if failed != nil {
		return nil, failed
	}
	var errs []any
	refused, resolvable := map[string]bool{}, false
	refuse := func(o Object, reason map[string]any) {
		refused[o.key()] = true
		resolvable = resolvable || reason["type"] != "unsupported_type"
		title := o.Attributes["title"]
		errs = append(errs, map[string]any{"id": o.ID, "type": o.Type, "title": title, "meta": map[string]any{"title": title}, "error": reason})
	}
	inFile := map[string]bool{}
	for _, o := range all {
		if _, supported := newest[o.Type]; !supported {
			refuse(o, map[string]any{"type": "unsupported_type"})
			continue
		}
		inFile[o.key()] = true
	}
	for _, o := range all {
		var lacks []map[string]string
		for _, ref := range o.References {
			_, exists := s.objects[tenant][ref.key()]
			if (ref.Type == "index-pattern" || ref.Type == "search") && !exists && !inFile[ref.key()] {
				lacks = append(lacks, map[string]string{"type": ref.Type, "id": ref.ID})
			}
		}
		if s.Sourceless != "" && o.ID == s.Sourceless {
			refuse(o, map[string]any{"type": "missing_data_source", "dataSourceName": "s"})
		}
		if inFile[o.key()] && len(lacks) > 0 {
			refuse(o, map[string]any{"type": "missing_references", "references": lacks})
		}
	}
	for _, o := range all {
		if _, exists := s.objects[tenant][o.key()]; exists && inFile[o.key()] {
			refuse(o, map[string]any{"type": "conflict"})
		}
	}
	accepted := slices.DeleteFunc(slices.Clone(all), func(o Object) bool { return refused[o.key()] })
	if !resolvable { // else they count as successes, but none is created
		if failed := s.create(tenant, accepted); failed != nil {
			return nil, failed
		}
	}
	answer := map[string]any{"successCount": len(accepted), "success": len(errs) == 0}
	var results []any
	for _, o := range accepted {
		results = append(results, map[string]any{"type": o.Type, "id": o.ID, "meta": map[string]any{"title": o.Attributes["title"]}})
	}
	if len(results) > 0 {
		answer["successResults"] = results
	}
	if len(errs) > 0 {
		answer["errors"] = errs
	}
	return answer, nil
}

// create migrates all objects and then creates them; after a failed migration none.
func (s *Server) create(tenant string, all []Object) *failure {
	for _, o := range all {
		if v := o.Migrated[o.Type]; v != "" && v != newest[o.Type] && (newest[o.Type] == "" || strings.HasPrefix(v, "8.")) {
			return fail(http.StatusUnprocessableEntity, "Document %q has property %q which belongs to a more recent version of OpenSearch Dashboards [%s]. The last known version is [%s]", o.ID, o.Type, v, newest[o.Type])
		}
		if s.Broken != "" && o.ID == s.Broken {
			return fail(http.StatusInternalServerError, "An internal server error occurred.")
		}
	}
	if s.objects[tenant] == nil {
		s.objects[tenant] = map[string]Object{}
	}
	for _, o := range all {
		s.objects[tenant][o.key()] = o
	}
	return nil
}
