package signer

import (
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// published are the worked examples of the specification, with the signatures printed there.
var published = []struct {
	name, service, region, at  string
	id, secret, method, target string
	headers                    map[string]string
	signed, signature          string
}{
	{"list users", "iam", "us-east-1", "20150830T123600Z", "AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
		"GET", "http://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08",
		map[string]string{"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"},
		"content-type;host;x-amz-date", "5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
	{"range of an object", "s3", "us-east-1", "20130524T000000Z", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"GET", "http://examplebucket.s3.amazonaws.com/test.txt",
		map[string]string{"Range": "bytes=0-9", hashHeader: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"host;range;x-amz-content-sha256;x-amz-date", "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"},
	{"objects of a bucket", "s3", "us-east-1", "20130524T000000Z", "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
		"GET", "http://examplebucket.s3.amazonaws.com/?max-keys=2&prefix=J",
		map[string]string{hashHeader: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		"host;x-amz-content-sha256;x-amz-date", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"},
}

func TestPublishedExamplesAreLetInAndNothingElseIs(t *testing.T) {
	for _, c := range published {
		at, err := time.Parse(dateLayout, c.at)
		if err != nil {
			t.Fatal(err)
		}
		request := func() (*http.Request, *Verifier) {
			r := httptest.NewRequest(c.method, c.target, nil)
			for k, v := range c.headers {
				r.Header.Set(k, v)
			}
			r.Header.Set("X-Amz-Date", c.at)
			r.Header.Set("Authorization", algorithm+" Credential="+c.id+"/"+c.at[:8]+"/"+c.region+"/"+c.service+"/aws4_request, SignedHeaders="+c.signed+", Signature="+c.signature)
			v := &Verifier{Region: c.region, Service: c.service, Now: func() time.Time { return at.Add(time.Minute) }}
			v.Add(c.id, Key{Secret: c.secret})
			return r, v
		}
		r, v := request()
		if err := v.Verify(r); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		for name, spoil := range map[string]func(r *http.Request, v *Verifier){
			"secret":          func(_ *http.Request, v *Verifier) { v.Add(c.id, Key{Secret: c.secret + "x"}) },
			"unknown id":      func(_ *http.Request, v *Verifier) { v.Remove(c.id) },
			"token missing":   func(_ *http.Request, v *Verifier) { v.Add(c.id, Key{Secret: c.secret, Token: "t"}) },
			"token not asked": func(r *http.Request, _ *Verifier) { r.Header.Set(tokenHeader, "t") },
			"region":          func(_ *http.Request, v *Verifier) { v.Region = "eu-west-1" },
			"service":         func(_ *http.Request, v *Verifier) { v.Service = "other" },
			"late":            func(_ *http.Request, v *Verifier) { v.Now = func() time.Time { return at.Add(6 * time.Minute) } },
			"early":           func(_ *http.Request, v *Verifier) { v.Now = func() time.Time { return at.Add(-6 * time.Minute) } },
			"method":          func(r *http.Request, _ *Verifier) { r.Method = "DELETE" },
			"host":            func(r *http.Request, _ *Verifier) { r.Host = "other" },
			"path":            func(r *http.Request, _ *Verifier) { r.RequestURI = "/other" },
			"query":           func(r *http.Request, _ *Verifier) { r.URL.RawQuery += "&x=y" },
			"date":            func(r *http.Request, _ *Verifier) { r.Header.Set("X-Amz-Date", at.Add(time.Second).Format(dateLayout)) },
			"body":            func(r *http.Request, _ *Verifier) { r.Body = io.NopCloser(strings.NewReader("x")) },
			"amz header":      func(r *http.Request, _ *Verifier) { r.Header.Set("X-Amz-Meta-Other", "1") },
			"no signature":    func(r *http.Request, _ *Verifier) { r.Header.Del("Authorization") },
			"required":        func(_ *http.Request, v *Verifier) { v.Require = []string{"x-amz-request-payer"} },
		} {
			r, v := request()
			spoil(r, v)
			if err := v.Verify(r); Reason(err) == nil {
				t.Errorf("%s with another %s: %v", c.name, name, err)
			}
		}
	}
}

func TestAReceivedPathIsEncodedOnceMoreAndAQueryStrictly(t *testing.T) {
	for _, c := range []struct{ uri, path, store, query string }{
		{"/_doc/a%2Fb?q=a%20b&a=%C3%A4", "/_doc/a%252Fb", "/_doc/a/b", "a=%C3%A4&q=a%20b"},
		{"/x?b=2&a=2&a=1&flag", "/x", "/x", "a=1&a=2&b=2&flag="},
		{"/x?q=a+b", "/x", "/x", "q=a%2Bb"},
	} {
		r := httptest.NewRequest("GET", "http://h"+c.uri, nil)
		r.RequestURI = c.uri
		if got := canonicalPath(r, false); got != c.path {
			t.Errorf("%s: path %s", c.uri, got)
		}
		if got := canonicalPath(r, true); got != c.store {
			t.Errorf("%s: path of a store %s", c.uri, got)
		}
		if got := canonicalQuery(r.URL.RawQuery); got != c.query {
			t.Errorf("%s: query %s", c.uri, got)
		}
	}
}

func TestTheSigningKeyIsThePublishedOne(t *testing.T) {
	k := signingKey("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", authorization{day: "20150830", region: "us-east-1", service: "iam"})
	if got := hex.EncodeToString(k); got != "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9" {
		t.Error(got)
	}
}
