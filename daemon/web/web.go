// Package web is the status page of a node: static files without a build step, which use only the API of the node that serves them, and the
// documentation pages that they link to.
package web

import (
	"embed"
	"io/fs"
	"net/http"
	"path"
	"strings"

	"github.com/rfsd/rfsd/docs"
)

//go:embed page
var files embed.FS

// policy restricts the page to requests to its own node, and forbids framing. It is the second line of defence: names of indices are set as
// text, never as markup.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"

var types = map[string]string{
	".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
	".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml", ".md": "text/plain; charset=utf-8",
}

// Handler serves the page at /, its parts at /page/NAME, and documentation as text at /docs/NAME.
func Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var from fs.ReadFileFS = files
		name := "page/" + path.Base(r.URL.Path)
		switch {
		case r.URL.Path == "/":
			name = "page/index.html"
		case strings.HasPrefix(r.URL.Path, "/docs/"):
			from, name = docs.Pages, path.Base(r.URL.Path)
		}
		b, err := from.ReadFile(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		h := w.Header()
		h.Set("Content-Type", types[path.Ext(name)])
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		_, _ = w.Write(b) // the client may be gone
	})
}
