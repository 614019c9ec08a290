package serverless_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/rfsd/rfsd/testing/fakecluster"
	"github.com/rfsd/rfsd/testing/serverless"
	"github.com/rfsd/rfsd/testing/signer"
)

const region, key, secret = "eu-west-1", "AKIDCOLLECTION", "secret-of-the-collection"

// caller sends requests to a collection in front of a cluster in memory, signed for a service, "" for no signature.
func caller(t *testing.T, c *serverless.Collection, service string) func(method, path, body string) (int, string) {
	t.Helper()
	cluster := httptest.NewServer(fakecluster.New())
	t.Cleanup(cluster.Close)
	server, door, err := c.Start(region, cluster.URL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	door.Add(key, signer.Key{Secret: secret})
	return func(method, path, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if service != "" {
			sum := sha256.Sum256([]byte(body))
			hash := hex.EncodeToString(sum[:])
			req.Header.Set("X-Amz-Content-Sha256", hash)
			length := req.ContentLength
			req.ContentLength = 0 // it is not signed
			err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: key, SecretAccessKey: secret}, req, hash, service, region, time.Now())
			if req.ContentLength = length; err != nil {
				t.Fatal(err)
			}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close() //nolint:errcheck // it was read
		answer, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(answer)
	}
}

func TestCollection_RefusesWhatServerlessRefuses(t *testing.T) {
	const withID, without = `{"index":{"_index":"a","_id":"1"}}` + "\n{}\n", `{"index":{"_index":"a"}}` + "\n{}\n"
	const vector = `{"settings":{"index.knn":true},"mappings":{"properties":{"v":{"type":"knn_vector","dimension":-1}}}}`
	all := []string{serverless.Search, serverless.TimeSeries, serverless.VectorSearch}
	for _, c := range []struct {
		of                 []string
		method, path, body string
		status             int
		words              string
	}{
		{all, "GET", "/", "", 404, ""},
		{all, "GET", "/_cluster/health", "", 404, ""},
		{all, "GET", "/_cluster/settings", "", 404, ""},
		{all, "GET", "/_nodes/stats", "", 404, ""},
		{all, "GET", "/_nodes/http", "", 404, ""},
		{all, "GET", "/a/_stats/docs", "", 404, ""},
		{all, "POST", "/a/_refresh", "", 404, ""},
		{all, "POST", "/a/_forcemerge", "", 404, ""},
		{all, "GET", "/a/_alias", "", 404, ""},
		{all, "PUT", "/_template/t", "{}", 404, ""},
		{all, "POST", "/_index_template/_simulate", "{}", 404, ""},
		{all, "PUT", "/_ingest/pipeline/p", "{}", 404, ""},
		{all, "PUT", "/_scripts/s", "{}", 404, ""},
		{all, "GET", "/_data_stream/d", "", 404, ""},
		{all, "GET", "/_plugins/_ism/policies", "", 404, ""},
		{all, "POST", "/_search/scroll", "{}", 404, ""},
		{all, "POST", "/_mget", "{}", 404, ""},
		{all, "POST", "/a/_delete_by_query", "{}", 404, ""},
		{all, "PUT", "/.rfs_control", "{}", 404, ""},
		{all, "POST", "/a/_bulk?pipeline=_none", without, 400, "unrecognized parameter: [pipeline]"},
		{all, "POST", "/_bulk?refresh=true", without, 400, "unrecognized parameter: [refresh]"},
		{all, "PUT", "/a", `{"settings":{"index":{"number_of_shards":"2"}}}`, 400, "handled by the collection"},
		{all, "PUT", "/a", `{"settings":{"index.number_of_replicas":0}}`, 400, "handled by the collection"},
		{all, "PUT", "/a", `{"settings":{"refresh_interval":"-1"}}`, 400, "handled by the collection"},
		{all, "PUT", "/a/_settings", `{"index.refresh_interval":"-1"}`, 400, "handled by the collection"},
		{[]string{serverless.Search}, "PUT", "/a", vector, 400, "KNN features not supported on SEARCH collection type"},
		{[]string{serverless.TimeSeries}, "PUT", "/a", vector, 400, "KNN features not supported on TIMESERIES collection type"},
		{[]string{serverless.VectorSearch}, "PUT", "/a", vector, 400, "Dimension value must be greater than 0"},
		{[]string{serverless.TimeSeries, serverless.VectorSearch}, "POST", "/_bulk", withID, 200, "Document ID is not supported in create/index operation request"},
		{[]string{serverless.TimeSeries, serverless.VectorSearch}, "PUT", "/a/_doc/1", "{}", 404, ""},
		{[]string{serverless.TimeSeries, serverless.VectorSearch}, "POST", "/a/_update/1", "{}", 404, ""},
	} {
		for _, kind := range c.of {
			it := &serverless.Collection{Type: kind}
			status, answer := caller(t, it, "aoss")(c.method, c.path, c.body)
			if status != c.status || !strings.Contains(answer, c.words) || c.words == "" && answer != "" || len(it.Refused()) != 1 {
				t.Errorf("%s: %s %s: status %d: %s; noted %q", kind, c.method, c.path, status, answer, it.Refused())
			}
		}
	}
}

func TestCollection_VerifiesSignatures(t *testing.T) {
	for _, service := range []string{"es", ""} {
		if status, answer := caller(t, &serverless.Collection{Type: serverless.Search}, service)("GET", "/a", ""); status != http.StatusForbidden {
			t.Errorf("signed for %q: status %d: %s", service, status, answer)
		}
	}
}

func TestCollection_TakesIndicesAndDocuments(t *testing.T) {
	it := &serverless.Collection{Type: serverless.Search, Refresh: 300 * time.Millisecond, Unknown: 200 * time.Millisecond, Full: 1}
	call := caller(t, it, "aoss")
	want := func(status int, words, method, path, body string) {
		t.Helper()
		if is, answer := call(method, path, body); is != status || !strings.Contains(answer, words) {
			t.Errorf("%s %s: status %d: %s; want %d, %s", method, path, is, answer, status, words)
		}
	}
	const document = `{"index":{"_index":"a","_id":"1"}}` + "\n{}\n"
	want(200, "acknowledged", "PUT", "/a", `{"settings":{"index.mapping.total_fields.limit":2000}}`)
	want(404, "index_not_found_exception", "GET", "/a", "")
	want(200, `"count":0`, "GET", "/a/_count", "")
	want(200, "service_quota_exceeded_exception", "POST", "/_bulk", document)
	want(200, `"errors":false`, "POST", "/_bulk", document)
	want(200, `"count":0`, "GET", "/a/_count", "")
	time.Sleep(it.Refresh)
	want(200, `"count":1`, "GET", "/a/_count", "")
	want(200, `"a"`, "GET", "/a", "")
	if refused := it.Refused(); !slices.Equal(refused, nil) {
		t.Errorf("refused %q", refused)
	}
}
