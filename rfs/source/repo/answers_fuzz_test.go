package repo

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// FuzzMessages: what an error quotes of a store is short, and on one line.
func FuzzMessages(f *testing.F) {
	for _, body := range []string{
		`{"error":{"code":403,"message":"no access.","errors":[{"reason":"forbidden"}]}}`, `{"error":"text"}`, "No such object: b/o",
		"<html>", "<Error><Code>C</Code><Message>m\nRequestId:1</Message></Error>", "\x1b[2J", strings.Repeat("ü", 400),
	} {
		f.Add([]byte(body))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		reason, message := gcsReasons(body)
		for _, text := range []string{reason, message, messageOf(body)} {
			if len(text) > maxSentence+len("…") || strings.ContainsAny(text, "\n\r\x1b") || utf8.Valid(body) && !utf8.ValidString(text) {
				t.Errorf("%q", text)
			}
		}
	})
}

// FuzzListing: whatever a server answers to a listing, it ends, and names lie below the prefix.
func FuzzListing(f *testing.F) {
	f.Add([]byte(`{"items":[{"name":"p/a","size":"3","generation":"1"}],"nextPageToken":"x"}`))
	f.Add([]byte(`{"items":[{"name":"q/a","size":"-1"}]}`))
	f.Add([]byte(`<?xml version="1.0"?><EnumerationResults><Blobs><Blob><Name>p/a</Name><Properties><Content-Length>3</Content-Length></Properties></Blob></Blobs><NextMarker>x</NextMarker></EnumerationResults>`))
	f.Add([]byte(`<EnumerationResults><Blobs><Blob><Name Encoded="true">p%2Fa</Name></Blob></Blobs></EnumerationResults>`))
	f.Fuzz(func(t *testing.T, body []byte) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/xml")
			w.Write(body) //nolint:errcheck // a test
		}))
		defer server.Close()
		ctx := t.Context()
		g, err := NewGCS(ctx, "gs://b/p", GCSOptions{Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		a, err := NewAzure(ctx, "azblob://b/p", AzureOptions{Endpoint: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Repository{g, a} {
			n := 0
			for blob, err := range r.List(ctx, "") {
				if err != nil {
					break
				}
				if blob.Size < 0 && r == Repository(g) || strings.HasSuffix(blob.Name, "/") {
					t.Errorf("%+v", blob)
				}
				if n++; n > 5000 { // a server that repeats a page
					break
				}
			}
		}
	})
}

// FuzzPart: an announced answer passes only if it holds the range that is asked for.
func FuzzPart(f *testing.F) {
	f.Add(int64(0), int64(10), int64(10), "bytes 0-9/100", "v")
	f.Add(int64(5), int64(-1), int64(95), "bytes 5-99/100", "")
	f.Add(int64(5), int64(10), int64(100), "", "")
	f.Fuzz(func(t *testing.T, off, n, length int64, ranged, version string) {
		if off < 0 || n < -1 || n == 0 || off > 1<<20 || n > 1<<20 || length > 1<<20 {
			t.Skip()
		}
		rc, _, err := openPart(context.Background(), fixed{answer{io.NopCloser(bytes.NewReader(make([]byte, max(length, 0)))), length, ranged, version}}, part{"b", off, n, ""}, defaultStall)
		if err != nil {
			return
		}
		defer rc.Close()
		b, err := io.ReadAll(rc)
		if n > 0 && int64(len(b)) != n && !errors.Is(err, fault.ErrUnavailable) {
			t.Errorf("%d bytes of %d from %d on, %v, of an answer of %d with the range %q", len(b), n, off, err, length, ranged)
		}
	})
}

// fixed answers the same to all.
type fixed struct{ a answer }

func (f fixed) ask(context.Context, part) (answer, error) { return f.a, nil }
