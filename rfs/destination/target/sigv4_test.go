package target

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/signer"
)

// Canaries: whatever fails, these words are in no error.
const (
	accessKey = "AKIDCANARY"
	secretKey = "canary-of-the-secret"
	token     = "canary-of-the-token"
)

// awsKeys gives this process credentials and hides those of its environment.
func awsKeys(t *testing.T, id, secret, token string) {
	t.Helper()
	signer.SetEnvironment(t, "", id, secret)
	t.Setenv("AWS_SESSION_TOKEN", token)
}

// guarded serves a handler behind a verifier of the service in eu-west-1.
func guarded(t *testing.T, service string, h http.HandlerFunc) (*signer.Verifier, string) {
	t.Helper()
	v := &signer.Verifier{Region: "eu-west-1", Service: service}
	v.Add(accessKey, signer.Key{Secret: secretKey, Token: token})
	s := httptest.NewServer(v.Handler(h))
	t.Cleanup(s.Close)
	return v, s.URL
}

func signedClient(t *testing.T, c Config) *Client {
	t.Helper()
	client, err := New(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

func TestSignedRequestsOfEveryKindAreLetIn(t *testing.T) {
	awsKeys(t, accessKey, secretKey, token)
	for _, service := range []string{"es"} {
		var got []byte
		_, address := guarded(t, service, func(w http.ResponseWriter, r *http.Request) {
			got, _ = io.ReadAll(r.Body)
			if r.Header.Get("Content-Encoding") == "gzip" {
				z, err := gzip.NewReader(bytes.NewReader(got))
				if err != nil {
					t.Error(err)
					return
				}
				got, _ = io.ReadAll(z)
			}
			answer(200, `{"took":1,"errors":false,"items":[{"index":{"_index":"a","_id":"1","status":201}},{"index":{"_index":"a","_id":"2","status":200}}]}`)(w, r)
		})
		for _, compress := range []bool{false, true} {
			c := signedClient(t, Config{URL: address, CompressRequests: compress, SigV4: &SigV4{Region: "eu-west-1", Service: service}})
			if _, err := c.Send(t.Context(), []byte(twoItems), 2); err != nil || string(got) != twoItems {
				t.Errorf("%s, compressed %v: %v, arrived %q", service, compress, err, got)
			}
			for _, call := range []struct {
				method, path string
				query        url.Values
				body         string
			}{
				{"GET", "/", nil, ""}, {"HEAD", "/index", nil, ""}, {"DELETE", "/index", nil, ""}, {"PUT", "/index", nil, `{"ü":1}`},
				{"GET", "/_doc/a%2Fb%20c%3A*", url.Values{"q": {"a b+c&d=é", "*"}, "a": {""}}, ""},
				{"POST", "/%3Clogs-%7Bnow%2Fd%7D%3E/_search", url.Values{"filter_path": {"hits.*,_x"}}, `{}`},
			} {
				var body []byte
				if call.body != "" {
					body = []byte(call.body)
				}
				status, said, err := c.Do(t.Context(), call.method, call.path, call.query, body)
				if err != nil || status != 200 || string(got) != call.body {
					t.Errorf("%s: %s %s: status %d %s, %v", service, call.method, call.path, status, said, err)
				}
			}
		}
	}
}

func TestWhatIsSignedWronglyIsRefusedWithAdvice(t *testing.T) {
	for _, c := range []struct {
		name              string
		id, secret, token string
		region, service   string
		verifier          func(*signer.Verifier)
		wrap              func(http.RoundTripper) http.RoundTripper
		advice            string
	}{
		{"secret", accessKey, secretKey + "x", token, "eu-west-1", "es", nil, nil, "check the secret access key"},
		{"key", "AKIDOTHER", secretKey, token, "eu-west-1", "es", nil, nil, "check the access key and its session token"},
		{"no token", accessKey, secretKey, "", "eu-west-1", "es", nil, nil, "check the access key and its session token"},
		{"token", accessKey, secretKey, token + "x", "eu-west-1", "es", nil, nil, "check the access key and its session token"},
		{"region", accessKey, secretKey, token, "us-east-1", "es", nil, nil, "state the AWS region"},
		{"clock", accessKey, secretKey, token, "eu-west-1", "es", func(v *signer.Verifier) {
			v.Now = func() time.Time { return time.Now().Add(10 * time.Minute) }
		}, nil, "set this machine's clock"},
		{"body", accessKey, secretKey, token, "eu-west-1", "es", nil, change(func(r *http.Request) {
			r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2
		}), "admits"},
		{"query", accessKey, secretKey, token, "eu-west-1", "es", nil, change(func(r *http.Request) { r.URL.RawQuery += "&more=1" }), "no proxy changes"},
		{"path", accessKey, secretKey, token, "eu-west-1", "es", nil, change(func(r *http.Request) { r.URL.Path = "/other/_bulk" }), "no proxy changes"},
		{"header", accessKey, secretKey, token, "eu-west-1", "es", nil, change(func(r *http.Request) { r.Header.Set("Content-Type", "text/plain") }), "no proxy changes"},
		{"policy", accessKey, secretKey, token, "eu-west-1", "es", nil, nil, "access policy of the target"},
	} {
		t.Run(c.name, func(t *testing.T) {
			awsKeys(t, c.id, c.secret, c.token)
			v, address := guarded(t, "es", answer(403, `{"Message":"User: arn:aws:iam::1:user/x is not authorized to perform: es:ESHttpPost"}`))
			if c.verifier != nil {
				c.verifier(v)
			}
			client := signedClient(t, Config{URL: address, Wrap: c.wrap, SigV4: &SigV4{Region: c.region, Service: c.service}})
			_, err := client.Send(t.Context(), []byte(twoItems), 2)
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.advice) || strings.Contains(err.Error(), "canary") {
				t.Errorf("error %v, want advice %q", err, c.advice)
			}
			if err != nil && !strings.Contains(err.Error(), "region "+c.region+", service "+c.service) {
				t.Errorf("%v does not say for what it was signed", err)
			}
		})
	}
}

// change alters requests behind the signature.
func change(f func(*http.Request)) func(http.RoundTripper) http.RoundTripper {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			f(r)
			return next.RoundTrip(r)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestARoleIsAssumedAndItsCredentialsRenewedWhenTheyAreOver(t *testing.T) {
	const arn = "arn:aws:iam::123456789012:role/migration"
	awsKeys(t, accessKey, secretKey, token)
	v, address := guarded(t, "es", answer(200, `{}`))
	v.Remove(accessKey) // only the role gets in
	roles := &signer.Roles{Verifier: &signer.Verifier{Region: "eu-west-1", Service: "sts"}, ARNs: []string{arn}, Grant: []*signer.Verifier{v}}
	roles.Verifier.Add(accessKey, signer.Key{Secret: secretKey, Token: token})
	sts := httptest.NewServer(roles.Handler())
	t.Cleanup(sts.Close)
	t.Setenv("AWS_ENDPOINT_URL_STS", sts.URL)

	c := signedClient(t, Config{URL: address, SigV4: &SigV4{Region: "eu-west-1", RoleARN: arn}})
	if status, said, err := c.Do(t.Context(), "GET", "/", nil, nil); err != nil || status != 200 {
		t.Fatalf("status %d %s, %v", status, said, err)
	}
	v.Expire()
	if _, _, err := c.Do(t.Context(), "GET", "/", nil, nil); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("expired: %v", err)
	}
	if status, said, err := c.Do(t.Context(), "GET", "/", nil, nil); err != nil || status != 200 || roles.Given() != 2 {
		t.Errorf("status %d %s, %v, after %d credentials", status, said, err, roles.Given())
	}
	_, err := New(t.Context(), Config{URL: address, SigV4: &SigV4{Region: "eu-west-1", RoleARN: arn + "-other"}})
	if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "not authorized to perform: sts:AssumeRole") || !strings.Contains(err.Error(), "must be allowed to assume the role") || strings.Contains(err.Error(), "canary") {
		t.Errorf("another role: %v", err)
	}
}

func TestSettingsForSigningThatCannotWorkAreRefusedAtOnce(t *testing.T) {
	for _, c := range []struct {
		name, id string
		conf     Config
		words    string
	}{
		{"no credentials", "", Config{URL: "http://h", SigV4: &SigV4{Region: "r"}}, "no AWS credentials, set AWS_ACCESS_KEY_ID"},
		{"no region", accessKey, Config{URL: "http://h", SigV4: &SigV4{}}, "give --target-aws-region or set AWS_REGION"},
		{"service", accessKey, Config{URL: "http://h", SigV4: &SigV4{Region: "r", Service: "s3"}}, `"s3" is neither es`},
		{"collection as coordinator", accessKey, Config{Role: "coordinator", URL: "http://h", SigV4: &SigV4{Region: "r", Service: "aoss"}}, "can only be a target"},
		{"collection as source", accessKey, Config{Role: "source", URL: "https://x1y2.us-west-2.aoss.amazonaws.com", SigV4: &SigV4{}}, "can only be a target"},
		{"collection without a signature", "", Config{URL: "https://x1y2.us-west-2.aoss.amazonaws.com"}, "give --target-aws-sigv4"},
		{"collection signed for a domain", accessKey, Config{URL: "https://x1y2.us-west-2.aoss.amazonaws.com", SigV4: &SigV4{Service: "es"}}, "signed for the service aoss"},
		{"collection with pipelines", accessKey, Config{URL: "https://x1y2.us-west-2.aoss.amazonaws.com", SigV4: &SigV4{}, RunPipelines: true}, "leave out --run-pipelines"},
		{"with a user", accessKey, Config{URL: "http://u:p@h", SigV4: &SigV4{Region: "r"}}, "exclude each other"},
	} {
		awsKeys(t, c.id, map[bool]string{true: secretKey}[c.id != ""], "")
		if _, err := New(t.Context(), c.conf); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

func TestRegionAndServiceAreReadFromTheNamesThatAWSGives(t *testing.T) {
	for host, want := range map[string][2]string{
		"search-logs-abc.eu-central-1.es.amazonaws.com": {"eu-central-1", "es"},
		"x1y2.us-west-2.aoss.amazonaws.com":             {"us-west-2", "aoss"},
		"x1y2.aoss.us-west-2.on.aws":                    {"us-west-2", "aoss"},
		"x1y2.lambda-url.us-west-2.on.aws":              {},
		"es.amazonaws.com":                              {},
		"localhost":                                     {},
		"bucket.s3.eu-west-1.amazonaws.com":             {},
	} {
		if region, service := fromHost(host); region != want[0] || service != want[1] {
			t.Errorf("%s: %q %q", host, region, service)
		}
	}
}
