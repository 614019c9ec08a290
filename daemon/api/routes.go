package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"time"

	_ "embed" // the description of the API

	"github.com/rfsd/rfsd/daemon/cert"
	"github.com/rfsd/rfsd/daemon/status"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/session"
)

// caller is an authenticated caller: its role, and its name for records.
type caller struct {
	role cert.Role
	name string
}

// route is one route of the API. handler panics if it has no roles.
type route struct {
	method, path string
	roles        []cert.Role
	summary      string
	query        []string // names of parameters
	answer       any      // a value of the response's type; nil if it is not JSON
	body         any      // a value of the request's type
	serve        func(s *Server, w http.ResponseWriter, r *http.Request, who caller) error
}

var (
	allRoles  = []cert.Role{cert.Reader, cert.Operator, cert.Node}
	operators = []cert.Role{cert.Operator}
	nodesOnly = []cert.Role{cert.Node}
)

//go:embed openapi.json
var description []byte

// Responses and request bodies in addition to package status.
type (
	// Done is the response of a healthy node.
	Done struct {
		Done string `json:"done"`
	}
	// Failed is the body of every error response.
	Failed struct {
		Error    string `json:"error"`
		Category string `json:"category"` // unavailable, config, rejected, unknown, internal
	}
	// OrderArguments are the arguments of an order.
	OrderArguments struct {
		Nodes   []string `json:"nodes,omitempty"`   // of resume and drain, by name; none: the whole fleet
		Workers *int     `json:"workers,omitempty"` // of scale: desired number of workers of the fleet; null: each node decides
		Setting string   `json:"setting,omitempty"` // of set: max-rate, max-read-rate or target-max-latency
		Value   *int64   `json:"value,omitempty"`   // of set: bytes per second, or ms; 0: no limit; null: the options apply
	}
)

// routes returns the whole API.
func routes() []route {
	return []route{
		{method: "GET", path: "/v1/status", roles: allRoles, summary: "Node, workers and migration, with its age", answer: status.Report{}, serve: (*Server).status},
		{method: "GET", path: "/v1/stream", roles: allRoles, summary: "The status again whenever it changes, as server-sent events", serve: (*Server).stream},
		{method: "GET", path: "/v1/items", roles: allRoles, summary: "Work items and their sums", query: []string{"id", "index", "state", "limit"}, answer: status.ItemList{}, serve: (*Server).items},
		{method: "GET", path: "/v1/events", roles: allRoles, summary: "Events, newest last", query: []string{"limit"}, answer: []status.Event{}, serve: (*Server).events},
		{method: "GET", path: "/v1/failures", roles: allRoles, summary: "Work given up, by reason, and failed documents; documents=false leaves the list of single documents out", query: []string{"index", "documents"}, answer: status.Failures{}, serve: (*Server).failures},
		{method: "GET", path: "/v1/logs", roles: operators, summary: "Last log lines of node and workers", query: []string{"limit"}, answer: []status.LogLine{}, serve: (*Server).logs},
		{method: "GET", path: "/v1/report", roles: allRoles, summary: "An account of the migration: state, items, lease times, failed documents, events", answer: status.Account{}, serve: (*Server).account},
		{method: "POST", path: "/v1/pause", roles: operators, summary: "Every worker of the fleet hands off and waits", answer: status.Ordered{}, serve: order(session.OrderPause)},
		{method: "POST", path: "/v1/resume", roles: operators, summary: "The fleet works again, or the named nodes that were drained", body: OrderArguments{}, answer: status.Ordered{}, serve: order(session.OrderResume)},
		{method: "POST", path: "/v1/drain", roles: operators, summary: "Every worker of the fleet hands off, or of the named nodes, because they are going to stop", body: OrderArguments{}, answer: status.Ordered{}, serve: order(session.OrderDrain)},
		{method: "POST", path: "/v1/scale", roles: operators, summary: "Wanted number of workers of the fleet", body: OrderArguments{}, answer: status.Ordered{}, serve: order(session.OrderScale)},
		{method: "POST", path: "/v1/set", roles: operators, summary: "A limit that replaces the option of every node", body: OrderArguments{}, answer: status.Ordered{}, serve: order(session.OrderSet)},
		{method: "GET", path: "/v1/peer/hints", roles: nodesOnly, summary: "For other nodes: the hints of a kind", query: []string{"kind"}, serve: (*Server).hints},
		{method: "GET", path: "/v1/peer/reading", roles: nodesOnly, summary: "For other nodes: what the leader read of the coordination store after a time in epoch ms, packed; empty if nothing", query: []string{"after"}, serve: (*Server).reading},
		{method: "GET", path: "/v1/openapi.json", roles: allRoles, summary: "This description", serve: (*Server).describe},
		{method: "GET", path: "/metrics", roles: allRoles, summary: "Metrics as Prometheus reads them", serve: (*Server).metrics},
		{method: "GET", path: "/healthz", roles: allRoles, summary: "200 while the process need not be started again", answer: Done{}, serve: (*Server).healthz},
		{method: "GET", path: "/readyz", roles: allRoles, summary: "200 while the node works for the migration", answer: Done{}, serve: (*Server).readyz},
		{method: "GET", path: "/{$}", roles: allRoles, summary: "The status page", serve: (*Server).page},
		{method: "GET", path: "/page/{file}", roles: allRoles, summary: "Parts of the status page", serve: (*Server).page},
		{method: "GET", path: "/docs/{file}", roles: allRoles, summary: "Documentation that the status page links to, as text", serve: (*Server).page},
	}
}

// handler returns the router, which authenticates every request.
func (s *Server) handler(auth authenticator) http.Handler {
	mux := http.NewServeMux()
	for _, r := range routes() {
		if len(r.roles) == 0 {
			panic("route " + r.path + " has no roles")
		}
		mux.HandleFunc(r.method+" "+r.path, func(w http.ResponseWriter, req *http.Request) { s.authorize(w, req, r, auth) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")
		if (req.Method == http.MethodGet || req.Method == http.MethodHead) && (req.ContentLength != 0 || len(req.TransferEncoding) > 0) {
			last(w)
			s.fail(w, fmt.Errorf("a %s takes no body: %w", req.Method, fault.ErrConfig))
			return
		}
		// Authenticate before routing so that unknown paths are not disclosed.
		if _, err := auth.authenticate(req); err != nil {
			last(w)
			s.fail(w, err)
			return
		}
		mux.ServeHTTP(w, req)
	})
}

// last makes the response the last one of its connection, without waiting for a request body.
func last(w http.ResponseWriter) {
	w.Header().Set("Connection", "close")
	_ = http.NewResponseController(w).SetReadDeadline(time.Unix(1, 0)) // long ago
}

func (s *Server) authorize(w http.ResponseWriter, req *http.Request, r route, auth authenticator) {
	who, err := auth.authenticate(req)
	if err == nil && !slices.Contains(r.roles, who.role) {
		err = denied(fmt.Sprintf("the role %s may not %s %s: that takes the operators' socket on the node's machine (--socket of rfsd run), or a certificate of the role %s", who.role, r.method, req.URL.Path, r.roles[0]))
	}
	if err != nil {
		s.fail(w, err)
		return
	}
	req.Body = http.MaxBytesReader(w, req.Body, maxBody)
	if r.path != "/v1/stream" {
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	if err := r.serve(s, w, req, who); err != nil {
		s.fail(w, err)
	}
}

// deniedError is a 403.
type deniedError struct{ why string }

func (e *deniedError) Error() string { return e.why }
func (e *deniedError) Unwrap() error { return fault.ErrRejected }

func denied(why string) error { return &deniedError{why} }

func (s *Server) fail(w http.ResponseWriter, err error) {
	code, category := http.StatusInternalServerError, "internal"
	var no *deniedError
	switch {
	case errors.As(err, &no):
		code, category = http.StatusForbidden, "rejected"
	case errors.Is(err, session.ErrOrderUnknown):
		code, category = http.StatusGatewayTimeout, "unknown"
	case errors.Is(err, fault.ErrUnavailable):
		code, category = http.StatusServiceUnavailable, "unavailable"
	case errors.Is(err, fault.ErrConfig):
		code, category = http.StatusBadRequest, "config"
	case errors.Is(err, fault.ErrRejected):
		code, category = http.StatusConflict, "rejected"
	}
	writeJSON(w, code, Failed{Error: fault.Text(err), Category: category})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // on failure the client is gone
}

func ok(w http.ResponseWriter, v any, err error) error {
	if err == nil {
		writeJSON(w, http.StatusOK, v)
	}
	return err
}

func (s *Server) status(w http.ResponseWriter, r *http.Request, _ caller) error {
	return ok(w, s.node.Status(r.Context()), nil)
}

func (s *Server) items(w http.ResponseWriter, r *http.Request, _ caller) error {
	limit, err := number(r, "limit")
	if err != nil {
		return err
	}
	q := r.URL.Query()
	list, err := s.node.Items(r.Context(), status.ItemFilter{ID: q.Get("id"), Index: q.Get("index"), States: q["state"], Limit: limit})
	return ok(w, list, err)
}

func (s *Server) events(w http.ResponseWriter, r *http.Request, _ caller) error {
	limit, err := number(r, "limit")
	if err != nil {
		return err
	}
	all, err := s.node.Events(r.Context(), limit)
	return ok(w, orEmpty(all), err)
}

func (s *Server) failures(w http.ResponseWriter, r *http.Request, who caller) error {
	f, err := s.node.Failures(r.Context())
	if err != nil {
		return err
	}
	if who.role != cert.Operator || r.URL.Query().Get("documents") == "false" {
		f = f.WithoutDocuments()
	}
	return ok(w, f.Of(r.URL.Query().Get("index")), nil)
}

func (s *Server) account(w http.ResponseWriter, r *http.Request, _ caller) error {
	a, err := s.node.Account(r.Context())
	return ok(w, a, err)
}

func (s *Server) logs(w http.ResponseWriter, r *http.Request, _ caller) error {
	limit, err := number(r, "limit")
	if err != nil {
		return err
	}
	return ok(w, orEmpty(s.node.Logs(r.Context(), limit)), nil)
}

// errNoFleet is the response to other nodes when this node has no fleet.
var errNoFleet = fmt.Errorf("this node has no fleet: %w", fault.ErrUnavailable)

func (s *Server) hints(w http.ResponseWriter, r *http.Request, _ caller) error {
	if s.conf.Peer == nil {
		return errNoFleet
	}
	all, err := s.conf.Peer.Hints(r.URL.Query().Get("kind"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(all) // on failure the client is gone
	return nil
}

func (s *Server) reading(w http.ResponseWriter, r *http.Request, _ caller) error {
	if s.conf.Peer == nil {
		return errNoFleet
	}
	after, err := strconv.ParseInt(r.URL.Query().Get("after"), 10, 64)
	if err != nil {
		return fmt.Errorf("invalid after: want a number: %w", fault.ErrConfig)
	}
	packed, err := s.conf.Peer.PackedReading(time.UnixMilli(after))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/zstd")
	_, _ = w.Write(packed) // on failure the client is gone
	return nil
}

func orEmpty[T any](all []T) []T {
	if all == nil {
		return []T{}
	}
	return all
}

func number(r *http.Request, name string) (int, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > 1_000_000 {
		return 0, fmt.Errorf("invalid %s=%q: want a number between 0 and 1000000: %w", name, text, fault.ErrConfig)
	}
	return n, nil
}

// order returns the handler of orders of a kind.
func order(kind session.OrderKind) func(*Server, http.ResponseWriter, *http.Request, caller) error {
	return func(s *Server, w http.ResponseWriter, r *http.Request, who caller) error {
		var with OrderArguments
		if err := body(r, &with); err != nil {
			return err
		}
		done, err := s.node.Order(r.Context(), session.Order{Kind: kind, Nodes: with.Nodes, Workers: with.Workers, Setting: with.Setting, Value: with.Value, Who: who.name})
		return ok(w, done, err)
	}
}

// body decodes the body of a request, if it has one.
func body(r *http.Request, into any) error {
	dec := json.NewDecoder(r.Body)
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("body: %w: %w", err, fault.ErrConfig)
	}
	return nil
}

func (s *Server) describe(w http.ResponseWriter, _ *http.Request, _ caller) error {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(description)
	return nil
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request, _ caller) error {
	s.node.Metrics().ServeHTTP(w, r)
	return nil
}

func (s *Server) healthz(w http.ResponseWriter, _ *http.Request, _ caller) error {
	return well(w, s.node.Healthy())
}

func (s *Server) readyz(w http.ResponseWriter, _ *http.Request, _ caller) error {
	return well(w, s.node.Ready())
}

func well(w http.ResponseWriter, err error) error {
	if err != nil {
		writeJSON(w, http.StatusServiceUnavailable, Failed{Error: fault.Text(err), Category: "unavailable"})
		return nil
	}
	return ok(w, Done{"ok"}, nil)
}

func (s *Server) page(w http.ResponseWriter, r *http.Request, _ caller) error {
	if s.conf.Page == nil {
		http.NotFound(w, r)
		return nil
	}
	s.conf.Page.ServeHTTP(w, r)
	return nil
}

// Intervals of the event stream.
const (
	streamEvery = 500 * time.Millisecond // minimum between two statuses
	streamBeat  = 15 * time.Second
)

func (s *Server) stream(w http.ResponseWriter, r *http.Request, who caller) error {
	places := s.streams[who.role]
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	default:
		return fmt.Errorf("%d clients of the role %s follow already: %w", maxStreams, who.role, fault.ErrUnavailable)
	}
	ctx := r.Context()
	changed := s.node.Subscribe(ctx)
	out := http.NewResponseController(w)
	_ = out.SetReadDeadline(time.Time{}) // remove the request's deadline
	w.Header().Set("Content-Type", "text/event-stream")
	beat := time.NewTicker(streamBeat)
	defer beat.Stop()
	for {
		b, err := json.Marshal(s.node.Status(ctx))
		if err != nil {
			return fmt.Errorf("status: %w", err)
		}
		_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := fmt.Fprintf(w, "event: status\ndata: %s\n\n", b); err != nil {
			return nil // the client is gone
		}
		if out.Flush() != nil {
			return nil
		}
		pause := time.NewTimer(streamEvery)
		select {
		case <-ctx.Done():
			pause.Stop()
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-beat.C:
		}
	}
}
