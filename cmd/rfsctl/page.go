package main

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

const pageHelp = `Serves the status page of a node on the loopback interface of this machine, asking the node with
your socket or certificate, and opens it in the browser. The address holds a token that opens the
page once; the browser then has a cookie for a host name below .localhost that no other port of
this machine receives. Other users of this machine get no access. The page is read-only. Ctrl-C
ends it.`

func pageCommand() *cli.Command {
	return config.Command(cli.Command{Name: "page", Usage: "open the status page in a browser", Description: pageHelp}, openPage)
}

// servedPage is the result of rfsctl page.
type servedPage struct {
	Address string `json:"address"`
}

func openPage(ctx context.Context, call *config.Call, o config.ShowPage) error {
	nodes, err := openNodes(o.Asked.Nodes)
	if err != nil {
		return err
	}
	node, base, err := nodes.Dial(ctx)
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", o.Page.Port))
	if err != nil {
		return fmt.Errorf("--port: %w: %w", err, fault.ErrConfig)
	}
	p, err := newPageProxy(l.Addr(), node, base)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{Handler: p, ReadHeaderTimeout: 5 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	fmt.Fprintf(call.Out, "the status page, once and from this machine: %s\n", p.address())
	if err := errors.Join(call.Out.Result(servedPage{p.address()}), call.Out.Flush()); err != nil {
		return err
	}
	if !o.Page.NoBrowser {
		forget := browse(ctx, p.address())
		defer forget()
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("status page: %w", err)
	}
	return nil
}

// pageProxy passes requests of one browser on to a node.
type pageProxy struct {
	host  string // what the browser has to call us
	proxy *httputil.ReverseProxy

	mu     sync.Mutex
	token  string // "" once it was used
	cookie string
}

const pageCookie = "rfsd-page"

// originBytes is the length of the random part of the page's host name. Cookies belong to hosts, not to ports: the name
// keeps the cookie from every other port of this machine. Browsers resolve names under .localhost to loopback.
const originBytes = 16

func newPageProxy(listen net.Addr, node *http.Client, base string) (*pageProxy, error) {
	_, port, err := net.SplitHostPort(listen.String())
	if err != nil {
		return nil, fmt.Errorf("address of the page: %w", err)
	}
	host := net.JoinHostPort(randomToken()[:2*originBytes]+".localhost", port)
	to, err := url.Parse(base)
	if err != nil {
		return nil, fmt.Errorf("address of the node: %w", err)
	}
	p := &pageProxy{host: host, token: randomToken(), cookie: randomToken()}
	p.proxy = &httputil.ReverseProxy{
		Transport: node.Transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			r.Out.Host = to.Host
			r.Out.Header.Del("Cookie") // ours, not the node's
			r.Out.Header.Del("Origin")
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) {
			http.Error(w, "the node does not answer", http.StatusBadGateway)
		},
	}
	return p, nil
}

func randomToken() string {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

func (p *pageProxy) address() string { return "http://" + p.host + "/?token=" + p.token }

// ServeHTTP lets the bearer of the token in once and its cookie from then on, for reading only.
func (p *pageProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	origin := r.Header.Get("Origin")
	switch {
	case r.Host != p.host, origin != "" && origin != "http://"+p.host:
		http.Error(w, "not the address of this page", http.StatusForbidden)
	case r.Method != http.MethodGet:
		http.Error(w, "the page only reads", http.StatusMethodNotAllowed)
	case r.URL.Path == "/" && r.URL.Query().Has("token"):
		p.admit(w, r)
	case !p.known(r):
		http.Error(w, "open the address that rfsctl page printed; it works once", http.StatusForbidden)
	case !ofPage(r.URL.Path):
		http.Error(w, "not part of the page", http.StatusForbidden)
	default:
		p.proxy.ServeHTTP(w, r)
	}
}

// ofPage reports whether the page needs the path; nothing else is passed on.
func ofPage(path string) bool {
	switch path {
	case "/", "/v1/stream", "/v1/events", "/v1/failures":
		return true
	}
	name, ok := strings.CutPrefix(path, "/page/")
	if !ok {
		name, ok = strings.CutPrefix(path, "/docs/")
	}
	return ok && name != "" && !strings.ContainsAny(name, "/\\")
}

func (p *pageProxy) admit(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	good := p.token != "" && equal(r.URL.Query().Get("token"), p.token)
	if good {
		p.token = ""
	}
	p.mu.Unlock()
	if !good {
		http.Error(w, "this token was used or is wrong; start rfsctl page again", http.StatusForbidden)
		return
	}
	// Lax, as the browser comes here from another place; nothing but reading is possible anyway.
	http.SetCookie(w, &http.Cookie{Name: pageCookie, Value: p.cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
	w.Header().Set("Referrer-Policy", "no-referrer")
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (p *pageProxy) known(r *http.Request) bool {
	c, err := r.Cookie(pageCookie)
	return err == nil && equal(c.Value, p.cookie)
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// browse opens an address in the user's browser by way of a file that only this user can read: the
// arguments of a program are visible to every user. Without a browser only the address is printed.
func browse(ctx context.Context, address string) (forget func()) {
	nothing := func() {}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	dir, err := os.MkdirTemp("", "rfsctl-page-")
	if err != nil {
		return nothing
	}
	forget = func() { _ = os.RemoveAll(dir) }
	name := filepath.Join(dir, "page.html")
	if os.WriteFile(name, []byte(`<!doctype html><meta http-equiv="refresh" content="0;url=`+address+`">`), 0o600) != nil {
		return forget
	}
	cmd := exec.CommandContext(ctx, program, name)
	if cmd.Start() != nil {
		return forget
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	return func() { forget(); <-ended }
}
