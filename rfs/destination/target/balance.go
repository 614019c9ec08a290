package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Times of a balancer.
const (
	identifyTimeout  = 5 * time.Second
	minAbsence       = time.Second // before an address that did not answer is probed again; doubled up to maxAbsence
	maxAbsence       = 30 * time.Second
	discoverInterval = 5 * time.Minute
	maxIdentity      = 64 << 10 // bytes of the answer that identifies a node
	maxNodeList      = 4 << 20
)

// balancer is a transport that sends each request to one of the addresses of a cluster. Documents go to the address with the
// fewest requests in flight, all other requests to the first that answers, so that they see one clock and one
// cluster state. An address is used once it has returned the UUID of the cluster, and after a failed request only once it has
// returned it again. It is safe for concurrent use.
type balancer struct {
	next     http.RoundTripper
	header   http.Header // of the balancer's own requests
	role     string
	scheme   string
	path     string
	discover bool
	signs    bool
	log      *slog.Logger
	ctx      context.Context // of the balancer's own requests; done when the client is closed
	stop     context.CancelFunc
	own      sync.WaitGroup // goroutines of its own requests

	identifying chan struct{} // held by the request that identifies all addresses

	mu      sync.Mutex
	all     []*address
	turn    int
	cluster string // UUID; "" until an address has returned it
	foreign error  // a given address belongs to another cluster
	asked   time.Time
	asking  bool // for the nodes
}

// address is one address of a cluster, guarded by the balancer's mutex.
type address struct {
	host     string // host:port
	given    bool   // by the user; otherwise discovered
	at       string // IP:port that host was connected to when it last identified itself
	known    bool   // it has returned the UUID of the cluster
	live     bool
	left     bool // reported as left out
	probing  bool
	underWay int
	absence  time.Duration
	next     time.Time // time of the next probe
}

func newBalancer(ctx context.Context, conf Config, given []*url.URL, header http.Header, next http.RoundTripper) *balancer {
	b := &balancer{
		next: next, header: header, role: conf.Role, scheme: given[0].Scheme, path: given[0].Path, discover: conf.Discover,
		signs: conf.SigV4 != nil, log: conf.Log, identifying: make(chan struct{}, 1),
	}
	b.ctx, b.stop = context.WithCancel(ctx)
	for _, u := range given {
		b.all = append(b.all, &address{host: u.Host, given: true})
	}
	return b
}

// close cancels the balancer's own requests and blocks until they have ended.
func (b *balancer) close() {
	b.stop()
	b.own.Wait()
}

// spread marks requests that may go to any address.
type spread struct{}

// RoundTrip sends the request to one address. An error names it.
func (b *balancer) RoundTrip(req *http.Request) (*http.Response, error) {
	a, err := b.choose(req.Context())
	if err != nil {
		return nil, err
	}
	res, err := b.next.RoundTrip(b.to(a, req))
	gone := err != nil && !errors.Is(err, context.Canceled) ||
		err == nil && (res.StatusCode == http.StatusBadGateway || res.StatusCode == http.StatusGatewayTimeout)
	b.mu.Lock()
	a.underWay--
	if gone && a.live {
		a.live, a.absence, a.next = false, minAbsence, time.Now().Add(minAbsence)
		b.leaveOut(a, err)
	}
	b.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("%s://%s: %w", b.scheme, a.host, err)
	}
	return res, nil
}

// to returns a copy of the request for the address.
func (b *balancer) to(a *address, req *http.Request) *http.Request {
	to, u := *req, *req.URL
	u.Scheme, u.Host = b.scheme, a.host
	to.URL, to.Host = &u, a.host
	return &to
}

// leaveOut reports once that an address is not used. The mutex is held.
func (b *balancer) leaveOut(a *address, err error) {
	if a.left {
		return
	}
	a.left = true
	if b.log != nil {
		b.log.Warn("an address of the cluster is left out until it answers", "role", b.role, "address", a.host, "error", err)
	}
}

// choose returns an address, which the caller releases by lowering underWay.
func (b *balancer) choose(ctx context.Context) (*address, error) {
	if a, err := b.pick(ctx); a != nil || err != nil {
		return a, err
	}
	select {
	case b.identifying <- struct{}{}:
		defer func() { <-b.identifying }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if a, err := b.pick(ctx); a != nil || err != nil {
		return a, err
	}
	errs := b.identifyAll(ctx)
	if a, err := b.pick(ctx); a != nil || err != nil {
		return a, err
	}
	// If an address may recover, report only such errors, so that the caller retries.
	if passing := slices.DeleteFunc(slices.Clone(errs), lasting); len(passing) > 0 {
		errs = passing
	}
	return nil, errors.Join(errs...)
}

// lasting reports whether an address stays out of use until something is corrected.
func lasting(err error) bool { return errors.Is(err, fault.ErrConfig) || untrusted(err) }

// pick returns an address that answers, or nil, and starts the due probes in the background.
func (b *balancer) pick(ctx context.Context) (*address, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.foreign != nil {
		return nil, b.foreign
	}
	var best *address
	everywhere := ctx.Value(spread{}) != nil
	for i := range b.all {
		a := b.all[i]
		if everywhere {
			a = b.all[(b.turn+i)%len(b.all)]
		}
		switch {
		case !a.live:
		case best == nil, everywhere && a.underWay < best.underWay:
			best = a
		}
	}
	if best == nil {
		return nil, nil
	}
	if everywhere {
		b.turn = slices.Index(b.all, best) + 1
	}
	best.underWay++
	b.askWhatIsDue()
	return best, nil
}

// askWhatIsDue starts the due probes of addresses that did not answer, and the due discovery of nodes. The mutex is held.
func (b *balancer) askWhatIsDue() {
	now := time.Now()
	if b.ctx.Err() != nil {
		return
	}
	for _, a := range b.all {
		if a.live || a.probing || now.Before(a.next) {
			continue
		}
		a.probing = true
		b.own.Go(func() { _ = b.identify(b.ctx, a) }) // identify records the result
	}
	if b.discover && !b.asking && (b.asked.IsZero() || now.Sub(b.asked) >= discoverInterval) {
		b.asking = true
		b.own.Go(b.discoverNodes)
	}
}

// identifyAll identifies all addresses, the given ones first, and returns the errors of unusable ones.
func (b *balancer) identifyAll(ctx context.Context) []error {
	b.mu.Lock()
	all := slices.Clone(b.all)
	for _, a := range all {
		a.probing = true
	}
	b.mu.Unlock()
	errs := make([]error, len(all))
	var asked sync.WaitGroup
	for i, a := range all {
		asked.Go(func() { errs[i] = b.identify(ctx, a) })
	}
	asked.Wait()
	return errs
}

// identify requests the UUID of the cluster from one address, and records whether the address can be used.
func (b *balancer) identify(ctx context.Context, a *address) error {
	var node struct {
		UUID string `json:"cluster_uuid"`
	}
	at := ""
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) { at = c.Conn.RemoteAddr().String() }}
	err := b.get(httptrace.WithClientTrace(ctx, trace), a, "/", maxIdentity, &node)
	if err == nil && (node.UUID == "" || node.UUID == noUUID) {
		err = fmt.Errorf("%s://%s does not name its cluster (cluster_uuid): %w", b.scheme, a.host, fault.ErrUnavailable)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	a.probing = false
	if err == nil && b.cluster == "" {
		b.cluster = node.UUID
	}
	if err == nil && node.UUID != b.cluster {
		err = fmt.Errorf("%s://%s belongs to another cluster (%s instead of %s): nothing is sent there: %w", b.scheme, a.host, node.UUID, b.cluster, fault.ErrConfig)
		if a.given && !a.known {
			b.foreign = err
		}
	}
	if err == nil {
		if a.left && b.log != nil {
			b.log.Info("an address of the cluster answers again", "role", b.role, "address", a.host)
		}
		a.known, a.live, a.left, a.absence, a.at = true, true, false, 0, at
		return nil
	}
	if ctx.Err() == nil {
		a.absence = min(max(2*a.absence, minAbsence), maxAbsence)
		a.next = time.Now().Add(a.absence)
		b.leaveOut(a, err)
	}
	return err
}

// get decodes a JSON answer of one address, of at most most bytes, into to.
func (b *balancer) get(ctx context.Context, a *address, path string, most int64, to any) error {
	ctx, cancel := context.WithTimeout(ctx, identifyTimeout)
	defer cancel()
	at := b.scheme + "://" + a.host
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+b.path+path, nil)
	if err != nil {
		return fmt.Errorf("%s: %w: %w", at, err, fault.ErrConfig)
	}
	req.Header = b.header.Clone()
	if b.signs {
		req.Header.Set(hashHeader, bodyHash(nil))
	}
	res, err := b.next.RoundTrip(req)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	defer res.Body.Close() //nolint:errcheck // the answer has been read
	if res.StatusCode >= 300 && res.StatusCode < 400 {
		return fmt.Errorf("%s redirects to %s, to which nothing is sent: %w", at, redacted(res.Header.Get("Location")), fault.ErrConfig)
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, most+1))
	if err != nil {
		return fmt.Errorf("%s: %w: %w", at, err, fault.ErrUnavailable)
	}
	if err := fault.CheckStatus(http.MethodGet+" "+at+path, res.StatusCode, body); err != nil {
		return err
	}
	if int64(len(body)) > most || json.Unmarshal(body, to) != nil {
		return fmt.Errorf("%s: the answer to GET %s does not come from a cluster: %w", at, path, fault.ErrUnavailable)
	}
	return nil
}

// discoverNodes requests the addresses of the cluster's nodes, and adds new ones. They are used after they have
// identified themselves over TLS. Addresses that the cluster does not list any more stay, and fail when their nodes stop. A node that
// was given by name is not added by its IP.
func (b *balancer) discoverNodes() {
	b.mu.Lock()
	i := slices.IndexFunc(b.all, func(a *address) bool { return a.given && a.live })
	var from *address
	if i >= 0 {
		from = b.all[i]
	}
	b.mu.Unlock()
	var found []published
	err := fmt.Errorf("no address that was given answers: %w", fault.ErrUnavailable)
	if from != nil {
		found, err = b.nodes(from)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.asking, b.asked = false, time.Now()
	if err != nil && b.ctx.Err() == nil && b.log != nil {
		b.log.Warn("the nodes of the cluster are unknown, the addresses that were given are used", "role", b.role, "error", err)
	}
	for _, p := range found {
		there := func(a *address) bool { return a.host == p.host || a.given && a.at == p.at }
		if len(b.all) < maxNodes && !slices.ContainsFunc(b.all, there) {
			b.all = append(b.all, &address{host: p.host})
		}
	}
}

// published is the address of a discovered node.
type published struct {
	host string // host:port
	at   string // IP:port
}

// nodes returns the addresses of the nodes that accept documents. Invalid addresses are logged and left out.
func (b *balancer) nodes(from *address) ([]published, error) {
	var answer struct {
		Nodes map[string]struct {
			Roles []string
			HTTP  struct {
				Address string `json:"publish_address"`
			}
		}
	}
	if err := b.get(b.ctx, from, "/_nodes/http?filter_path=nodes.*.roles,nodes.*.http.publish_address", maxNodeList, &answer); err != nil {
		return nil, err
	}
	var found []published
	for _, n := range answer.Nodes {
		takes := func(role string) bool { return role == "ingest" || strings.HasPrefix(role, "data") }
		if len(n.Roles) > 0 && !slices.ContainsFunc(n.Roles, takes) {
			continue // a dedicated cluster manager
		}
		p, err := publishedHost(n.HTTP.Address)
		if err != nil {
			if b.log != nil {
				b.log.Warn("an address that the cluster names is not used", "role", b.role, "error", err)
			}
			continue
		}
		found = append(found, p)
	}
	slices.SortFunc(found, func(a, b published) int { return strings.Compare(a.host, b.host) })
	return found, nil
}

// publishedHost parses http.publish_address, which is IP:PORT or NAME/IP:PORT.
func publishedHost(text string) (published, error) {
	name, address, named := strings.Cut(text, "/")
	if !named {
		name, address = "", text
	}
	ip, port, err := net.SplitHostPort(address)
	if err == nil && net.ParseIP(ip) == nil {
		err = errors.New("no IP address")
	}
	if n, perr := net.LookupPort("tcp", port); err == nil && (perr != nil || n == 0 || strings.Trim(port, "0123456789") != "") {
		err = errors.New("no port")
	}
	if strings.ContainsAny(name, "@/:?#%\\ ") {
		err = errors.New("no host name")
	}
	if err != nil {
		return published{}, fmt.Errorf("%.100q is not an address of the form IP:PORT or NAME/IP:PORT: %w", text, err)
	}
	if name == "" {
		name = ip
	}
	return published{net.JoinHostPort(name, port), net.JoinHostPort(ip, port)}, nil
}
