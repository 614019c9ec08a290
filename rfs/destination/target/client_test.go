package target

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
	"github.com/rfsd/rfsd/testing/fuzzing"
	"github.com/rfsd/rfsd/testing/targettest"
)

// serve returns a client of a server with one handler.
func serve(t *testing.T, h http.HandlerFunc, change ...func(*Config)) *Client {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	conf := Config{URL: s.URL, Timeout: 5 * time.Second}
	for _, f := range change {
		f(&conf)
	}
	return opened(t, conf)
}

// opened returns a client that is closed at the end of the test.
func opened(t *testing.T, conf Config) *Client {
	t.Helper()
	c, err := New(t.Context(), conf)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

// answer is a handler that always says the same.
func answer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i+1 < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const twoItems = `{"index":{"_index":"a","_id":"1"}}` + "\n{}\n" + `{"index":{"_index":"a","_id":"2"}}` + "\n{}\n"

func TestEveryAnswerToABulkRequestFallsIntoOneCategory(t *testing.T) {
	const taken = `{"took":1,"errors":false,"items":[{"index":{"_index":"a","_id":"1","status":201}},{"index":{"_index":"a","_id":"2","status":200}}]}`
	for _, c := range []struct {
		name    string
		status  int
		body    string
		headers []string
		want    error
		pause   time.Duration
		words   string
	}{
		{"taken", 200, taken, nil, nil, 0, ""},
		{"fewer items than sent", 200, `{"items":[{"index":{"_index":"a","_id":"1","status":201}}]}`, nil, fault.ErrUnavailable, 0, "1 items of 2"},
		{"more items than sent", 200, strings.Replace(taken, `]}`, `,{"index":{"_index":"a","_id":"3","status":201}}]}`, 1), nil, fault.ErrUnavailable, 0, "3 items of 2"},
		{"status of no end", 200, strings.Replace(taken, "201", "100", 1), nil, fault.ErrUnavailable, 0, "does not add up: status 100"},
		{"status of another success", 200, strings.Replace(taken, "201", "202", 1), nil, fault.ErrUnavailable, 0, "does not add up: status 202"},
		{"no status", 200, strings.Replace(taken, `"status":201`, `"x":1`, 1), nil, fault.ErrUnavailable, 0, "does not add up: status 0"},
		{"errors without a refused item", 200, strings.Replace(taken, "false", "true", 1), nil, fault.ErrUnavailable, 0, "states errors"},
		{"another operation", 200, strings.Replace(taken, `{"index":{"_index"`, `{"delete":{"_index"`, 1), nil, fault.ErrUnavailable, 0, `"index" was sent, it answers for "delete"`},
		{"two operations in an item", 200, strings.Replace(taken, `{"index"`, `{"create":{"status":201},"index"`, 1), nil, fault.ErrUnavailable, 0, "one operation"},
		{"another document", 200, strings.Replace(taken, `"_id":"1"`, `"_id":"7"`, 1), nil, fault.ErrUnavailable, 0, `document "1" was sent`},
		{"no index", 200, strings.Replace(taken, `"_index":"a",`, ``, 1), nil, fault.ErrUnavailable, 0, `index "a"`},
		{"cut off", 200, taken[:len(taken)-5], nil, fault.ErrUnavailable, 0, "ends early"},
		{"a page of a proxy", 200, "<html>hello</html>", nil, fault.ErrUnavailable, 0, "the answer is a page, not the response of a cluster; check the address: hello"},
		{"too large", 413, "", nil, bulk.ErrTooLarge, 0, "413"},
		{"too many", 429, `{"error":{"type":"rejected_execution_exception","reason":"queue full"},"status":429}`, []string{"Retry-After", "7"}, fault.ErrUnavailable, 7 * time.Second, "queue full"},
		{"a balancer that asks for an hour", 503, "", []string{"Retry-After", "3600"}, fault.ErrUnavailable, time.Minute, "503"},
		{"a balancer that names a day in 2100", 503, "", []string{"Retry-After", "Fri, 01 Jan 2100 00:00:00 GMT"}, fault.ErrUnavailable, time.Minute, "503"},
		{"bad gateway", 502, "bad gateway", nil, fault.ErrUnavailable, 0, "bad gateway"},
		{"unavailable", 503, "", nil, fault.ErrUnavailable, 0, "503"},
		{"gateway timeout", 504, "", nil, fault.ErrUnavailable, 0, "504"},
		{"internal error", 500, "", nil, fault.ErrUnavailable, 0, "500"},
		{"who are you", 401, "Unauthorized", nil, fault.ErrConfig, 0, "for user anonymous"},
		{"not allowed", 403, `{"error":{"type":"security_exception","reason":"no permissions for [indices:data/write/bulk]"}}`, nil, fault.ErrConfig, 0, "no permissions"},
		{"bad request", 400, `{"error":{"type":"illegal_argument_exception","reason":"malformed","caused_by":{"type":"x","reason":"line 3"}}}`, nil, fault.ErrRejected, 0, "malformed; caused by line 3"},
		{"error as text", 400, `{"error":"ElasticsearchParseException[bad]","status":400}`, nil, fault.ErrRejected, 0, "ElasticsearchParseException[bad]"},
		{"redirect", 301, "", []string{"Location", "http://user:secret@elsewhere:9200/_bulk"}, fault.ErrConfig, 0, "elsewhere:9200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := serve(t, answer(c.status, c.body, c.headers...)).Send(t.Context(), []byte(twoItems), 2)
			if !errors.Is(err, c.want) {
				t.Fatalf("error %v, want category %v", err, c.want)
			}
			if err != nil && (!strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "secret")) {
				t.Errorf("error states %q, want %q in it and no secret", err, c.words)
			}
			if r.RetryAfter != c.pause {
				t.Errorf("pause %v, want %v", r.RetryAfter, c.pause)
			}
		})
	}
}

func TestRefusedItemsKeepTheirPlaceAndTheTargetsWords(t *testing.T) {
	c := serve(t, answer(200, `{"took":30,"errors":true,"items":[
 {"index":{"_index":"a","_id":"1","status":201}},
 {"index":{"status":400,"error":{"type":"mapper_parsing_exception","reason":"failed to parse field [a] \"x\"","caused_by":{"type":"number_format_exception","reason":"For input string: \"y\""}}}},
 {"create":{"status":429,"error":{"type":"cluster_block_exception","reason":"index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"}}},
 {"index":{"error":{"type":"cluster_block_exception","reason":"index [b] blocked by: [FORBIDDEN/8/index write (api)];"},"status":403}}]}`))
	body := twoItems + strings.Replace(twoItems, "index", "create", 1)
	r, err := c.Send(t.Context(), []byte(body), 4)
	if err != nil {
		t.Fatal(err)
	}
	want := []bulk.Refusal{
		{Pos: 1, Status: 400, Type: "mapper_parsing_exception", Reason: `failed to parse field [a] "x"; caused by For input string: "y"`},
		{Pos: 2, Status: 429, Type: "cluster_block_exception", Reason: "index [a] blocked by: [TOO_MANY_REQUESTS/12/disk usage exceeded flood-stage watermark];"},
		{Pos: 3, Status: 403, Type: "cluster_block_exception", Reason: "index [b] blocked by: [FORBIDDEN/8/index write (api)];"},
	}
	if len(r.Refused) != len(want) {
		t.Fatalf("refused %+v", r.Refused)
	}
	for i := range want {
		if r.Refused[i] != want[i] {
			t.Errorf("refusal %d: %+v, want %+v", i, r.Refused[i], want[i])
		}
	}
	if r.Refused[0].Retryable() || !r.Refused[1].Retryable() || r.Refused[2].Retryable() {
		t.Error("only the flood stage passes by itself")
	}
}

func TestDocumentsArriveWhereTheyWereSent(t *testing.T) {
	sent := `{"create":{"_index":"logs","_id":"a/\u00e9"}}` + "\n{}\n"
	took := func(index string) string {
		return `{"errors":false,"items":[{"create":{"_index":"` + index + `","_id":"a\/\u00e9","status":201}}]}`
	}
	settings := func(names ...string) string {
		return `{"` + strings.Join(names, `":{"settings":{}},"`) + `":{"settings":{}}}`
	}
	for _, c := range []struct {
		name, index string
		behind      string
		status      int
		pipelines   bool
		want        error
		asked       int
	}{
		{"the index itself", "logs", "", 404, false, nil, 0},
		{"a backing index of a data stream", ".ds-logs-2026.01.01-000002", settings(".ds-logs-2026.01.01-000001", ".ds-logs-2026.01.01-000002"), 200, false, nil, 1},
		{"the index behind an alias", "logs-v2", settings("logs-v2"), 200, false, nil, 1},
		{"an index beside the alias", "other", settings("logs-v2"), 200, false, fault.ErrUnavailable, 2},
		{"what looks like a backing index", ".ds-logs-2026.01.01-000009", settings("logs"), 200, false, fault.ErrUnavailable, 2},
		{"a name that leads nowhere", "other", `{"error":{"type":"index_not_found_exception"}}`, 404, false, fault.ErrUnavailable, 2},
		{"the target may not be asked", "other", `{"error":{"type":"security_exception","reason":"no permissions"}}`, 403, false, fault.ErrConfig, 2},
		{"a pipeline may move it", "other", settings("logs-v2"), 200, true, nil, 1},
		{"a pipeline may move it from an index that is missing", "other", "", 404, true, nil, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := 0
			cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/_bulk" {
					answer(200, took(c.index))(w, r)
					return
				}
				if r.URL.Path == "/logs/_settings/index.final_pipeline" {
					answer(200, `{}`)(w, r)
					return
				}
				if r.URL.Path != "/logs/_settings/index.uuid" {
					t.Errorf("asked for %s", r.URL)
				}
				asked++
				answer(c.status, c.behind)(w, r)
			}, func(conf *Config) { conf.RunPipelines = c.pipelines })
			for range 2 {
				if _, err := cl.Send(t.Context(), []byte(sent), 1); !errors.Is(err, c.want) || (err == nil) != (c.want == nil) {
					t.Errorf("%v, want %v", err, c.want)
				}
			}
			if asked != c.asked {
				t.Errorf("asked %d times, want %d", asked, c.asked)
			}
		})
	}
}

func TestBulkRequestSkipsPipelinesAndAsksForStatusAndErrorOnly(t *testing.T) {
	for _, run := range []bool{false, true} {
		var got *http.Request
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			got = r
			answer(200, `{"items":[]}`)(w, r)
		}, func(c *Config) { c.RunPipelines, c.UserAgent = run, "rfsd/test" })
		if _, err := c.Send(t.Context(), []byte(twoItems), 0); err != nil {
			t.Fatal(err)
		}
		q := got.URL.Query()
		if q.Get("filter_path") != "took,errors,items.*._index,items.*._id,items.*.status,items.*._version,items.*.result,items.*.error" || (q.Get("pipeline") == "_none") == run ||
			got.Header.Get("Content-Type") != "application/x-ndjson" || got.Header.Get("User-Agent") != "rfsd/test" {
			t.Errorf("RunPipelines %v: %s %v", run, got.URL, got.Header)
		}
	}
}

func TestCompressedBodiesArriveWhole(t *testing.T) {
	body := strings.Repeat(twoItems, 1000)
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		z, err := gzip.NewReader(r.Body)
		if err != nil || r.Header.Get("Content-Encoding") != "gzip" {
			t.Errorf("encoding %q: %v", r.Header.Get("Content-Encoding"), err)
			return
		}
		if b, err := io.ReadAll(z); err != nil || string(b) != body {
			t.Errorf("%d bytes, %v", len(b), err)
		}
		answer(200, `{"items":[]}`)(w, r)
	}, func(c *Config) { c.CompressRequests = true })
	for range 3 { // the compressor is used again
		if _, err := c.Send(t.Context(), []byte(body), 0); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAnswersAreCompressedUnlessAskedNotToBe(t *testing.T) {
	for _, plain := range []bool{false, true} {
		c := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if compressed := r.Header.Get("Accept-Encoding") == "gzip"; compressed == plain {
				t.Errorf("plain answers %v: accepts %q", plain, r.Header.Get("Accept-Encoding"))
			}
			answer(200, `{}`)(w, r)
		}, func(c *Config) { c.PlainAnswers = plain })
		if status, _, err := c.Do(t.Context(), http.MethodGet, "/", nil, nil); err != nil || status != 200 {
			t.Errorf("%d, %v", status, err)
		}
	}
}

func TestNoAnswerIsUnavailableUnlessTheCallerGaveUp(t *testing.T) {
	quit := make(chan struct{})
	c := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-quit
	}, func(c *Config) { c.Timeout = 30 * time.Millisecond })
	defer close(quit)
	if _, err := c.Send(t.Context(), []byte(twoItems), 2); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("timeout: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Send(ctx, []byte(twoItems), 2); !errors.Is(err, context.Canceled) || errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("given up: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed, err := New(t.Context(), Config{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer closed.Close() //nolint:errcheck // nothing is open
	l.Close()
	if _, _, err := closed.Do(t.Context(), "GET", "/", nil, nil); !errors.Is(err, fault.ErrUnavailable) {
		t.Errorf("a port without a listener: %v", err)
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	log := &targettest.RequestLog{}
	c := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	}, func(c *Config) { c.Wrap = log.Wrap })
	if _, _, err := c.Do(t.Context(), "POST", "/x/_update/1", nil, []byte("{}")); !errors.Is(err, fault.ErrUnavailable) {
		t.Fatalf("error %v", err)
	}
	if got := log.Requests(); len(got) != 1 || got[0] != "POST /x/_update/1" {
		t.Fatalf("requests %q", got)
	}
}

func TestPasswordIsSentButNeverShown(t *testing.T) {
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != "ann" || p != "s3cret" {
			t.Errorf("user %q, password %q", u, p)
		}
		w.WriteHeader(401)
	}, func(c *Config) { c.URL = strings.Replace(c.URL, "://", "://ann:s3cret@", 1) })
	_, err := c.Send(t.Context(), []byte(twoItems), 2)
	if err == nil || strings.Contains(err.Error()+c.Name(), "s3cret") || !strings.Contains(err.Error(), "user ann") {
		t.Errorf("name %s, error %v", c.Name(), err)
	}
}

func TestWrongConfigurationIsRefusedBeforeAnythingIsSent(t *testing.T) {
	for _, c := range []Config{
		{URL: ""}, {URL: "localhost:9200"}, {URL: "ftp://x"}, {URL: "http://u:s3cret@x:port"}, {URL: "http://x?u=s3cret#"},
		{URL: "https://x", CACert: "absent"}, {URL: "https://x", ClientCert: "only"}, {URL: "https://x", ClientCert: "absent", ClientKey: "absent"},
	} {
		if _, err := New(t.Context(), c); !errors.Is(err, fault.ErrConfig) || strings.Contains(err.Error(), "u:s3cret") {
			t.Errorf("%+v: %v", c, err)
		}
	}
	t.Setenv("OPENSEARCH_GO_REQUEST_TIMEOUT", "1")
	if _, err := New(t.Context(), Config{URL: "http://127.0.0.1:1"}); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("the environment overrides options: %v", err)
	}
}

func TestInfoKnowsBothProductsAndSeesThroughTheDisguise(t *testing.T) {
	for _, c := range []struct {
		root string
		want Version
	}{
		{`{"cluster_uuid":"c1","version":{"distribution":"opensearch","number":"2.19.4"}}`, Version{"opensearch", "2.19.4", 2, 19, "c1", ""}},
		{`{"cluster_uuid":"_na_","version":{"number":"7.10.2"},"tagline":"You Know, for Search"}`, Version{"elasticsearch", "7.10.2", 7, 10, "", ""}},
		{`{"version":{"number":"7.10.2"},"tagline":"The OpenSearch Project: https://opensearch.org/"}`, Version{"opensearch", "1.3.14", 1, 3, "", ""}},
	} {
		cl := serve(t, func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/_nodes/_local" {
				answer(200, `{"nodes":{"x":{"version":"1.3.14"}}}`)(w, r)
				return
			}
			answer(200, c.root)(w, r)
		})
		if got, err := cl.Info(t.Context()); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.root, got, err)
		}
	}
	if _, err := serve(t, answer(404, ``)).Info(t.Context()); !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), "--target-aws-service aoss") {
		t.Errorf("no answer to GET /: %v", err)
	}
	if _, err := serve(t, answer(200, `{"version":{"number":"weird"}}`)).Info(t.Context()); !errors.Is(err, fault.ErrConfig) {
		t.Errorf("no version: %v", err)
	}
}

func FuzzParseBulk(f *testing.F) {
	f.Add([]byte(`{"took":1,"errors":false,"items":[{"index":{"status":201}}]}`))
	f.Add([]byte(`{"items":[{"index":{"status":400,"error":{"type":"a","reason":"b\"","caused_by":{"reason":"c"}}}}]}`))
	f.Add([]byte(`{"items":[],"x":[[{"y":null}],1e5,true]} `))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer fuzzing.Bounded(t, len(b))()
		next := 0
		items, _, err := parseBulk(b, func(pos int, it *item) error {
			if pos != next {
				t.Fatalf("item %d after %d", pos, next)
			}
			next++
			it.refusal(pos)
			return nil
		})
		if err == nil && items != next {
			t.Fatalf("%d items, %d were shown", items, next)
		}
	})
}

func BenchmarkParseBulkOf1000(b *testing.B) {
	var body bytes.Buffer
	body.WriteString(`{"took":1,"errors":false,"items":[`)
	for i := range 1000 {
		if i > 0 {
			body.WriteByte(',')
		}
		body.WriteString(`{"index":{"_index":"logs","_id":"abcdefghijklmnopqrst","status":201}}`)
	}
	body.WriteString("]}")
	b.SetBytes(int64(body.Len()))
	b.ReportAllocs()
	for b.Loop() {
		if n, _, err := parseBulk(body.Bytes(), func(int, *item) error { return nil }); n != 1000 || err != nil {
			b.Fatal(n, err)
		}
	}
}
