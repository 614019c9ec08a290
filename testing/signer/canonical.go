package signer

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// canonicalRequest returns the canonical request of the specification: method, path, query, signed headers with their values, their names,
// and the hash of the body.
func canonicalRequest(r *http.Request, signed []string, payload string, store bool) string {
	var b strings.Builder
	b.WriteString(r.Method + "\n" + canonicalPath(r, store) + "\n" + canonicalQuery(r.URL.RawQuery) + "\n")
	for _, name := range signed {
		b.WriteString(name + ":" + headerValue(r, name) + "\n")
	}
	b.WriteString("\n" + strings.Join(signed, ";") + "\n" + payload)
	return b.String()
}

// canonicalPath encodes the received path once more, except for object stores, whose paths are encoded once in total.
func canonicalPath(r *http.Request, store bool) string {
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if i := strings.Index(raw, "://"); i >= 0 { // absolute form, as sent to proxies
		raw = "/" + strings.TrimLeft(raw[strings.Index(raw[i+3:]+"/", "/")+i+3:], "/")
	}
	if raw == "" {
		raw = "/"
	}
	if store {
		if plain, err := url.PathUnescape(raw); err == nil {
			raw = plain
		}
	}
	return encode(raw, "/")
}

// canonicalQuery decodes each name and value, encodes them strictly and sorts the pairs. A plus is a literal plus; only %20 is a space.
func canonicalQuery(raw string) string {
	if raw == "" {
		return ""
	}
	type pair struct{ name, value string }
	var pairs []pair
	for part := range strings.SplitSeq(raw, "&") {
		name, value, _ := strings.Cut(part, "=")
		pairs = append(pairs, pair{encode(decoded(name), ""), encode(decoded(value), "")})
	}
	slices.SortFunc(pairs, func(a, b pair) int {
		if a.name != b.name {
			return strings.Compare(a.name, b.name)
		}
		return strings.Compare(a.value, b.value)
	})
	out := make([]string, len(pairs))
	for i, p := range pairs {
		out[i] = p.name + "=" + p.value
	}
	return strings.Join(out, "&")
}

func decoded(s string) string {
	if plain, err := url.PathUnescape(s); err == nil {
		return plain
	}
	return s
}

// encode writes every byte as %XX except A–Z, a–z, 0–9, - . _ ~ and the bytes in keep.
func encode(s, keep string) string {
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		switch {
		case c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', c >= '0' && c <= '9', strings.IndexByte("-._~"+keep, c) >= 0:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// headerValue joins the values of a header, trimmed and with runs of spaces reduced to one.
func headerValue(r *http.Request, name string) string {
	switch name {
	case "host":
		return r.Host
	case "content-length":
		return strconv.FormatInt(r.ContentLength, 10)
	}
	values := slices.Clone(r.Header.Values(name))
	for i, v := range values {
		values[i] = strings.Join(strings.Fields(v), " ")
	}
	return strings.Join(values, ",")
}
