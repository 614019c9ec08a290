package target

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// Client sends the requests of rfs/destination/bulk.
var _ bulk.Sender = (*Client)(nil)

// keepAnswer is the size of the largest answer buffer that is reused, in bytes.
const keepAnswer = 4 << 20

// longBody is the maximum length of a compressed body, in bytes. Compressing a longer one, a single document, would keep two copies
// of it in memory.
const longBody = 32 << 20

// Send posts one bulk body of n items; see bulk.Sender. If the response does not match the request item by item,
// the error is fault.ErrUnavailable, because it is unknown which documents were indexed. Default
// pipelines are switched off (pipeline=_none) unless Config.RunPipelines is set.
func (c *Client) Send(ctx context.Context, body []byte, n int) (bulk.Result, error) {
	query := url.Values{"filter_path": {"took,errors,items.*._index,items.*._id,items.*.status,items.*._version,items.*.result,items.*.error"}}
	if !c.conf.RunPipelines && !c.serverless {
		query.Set("pipeline", "_none")
	}
	if c.serverless {
		kind, err := c.collection(ctx)
		if err != nil {
			return bulk.Result{}, err
		}
		if (Version{Collection: kind}).ChoosesIDs() {
			if len(body) > longBody { // the copy without ids would be too large
				return bulk.Result{}, fmt.Errorf("a body of %d bytes for a collection that chooses ids, of at most %d: %w", len(body), longBody, bulk.ErrTooLarge)
			}
			if body, err = appendWithoutIDs(make([]byte, 0, len(body)), body); err != nil {
				return bulk.Result{}, err
			}
		}
	}
	encoding, path, sent := "", "/_bulk", body
	if len(body) >= unnamedBytes && len(body)/max(n, 1) <= unnamedLength {
		s := c.squeezer()
		defer c.gzips.Put(s)
		var index []byte
		var ok bool
		if s.unnamed, index, ok = appendUnnamed(s.unnamed[:0], body); ok {
			body, path = s.unnamed, "/"+url.PathEscape(string(index))+"/_bulk"
		}
	}
	answered := func(int) {}
	if c.conf.CompressRequests && (n > 1 || len(body) <= longBody) {
		var compressed bool
		if compressed, answered = c.encodings.choose(); compressed {
			s := c.squeezer()
			defer c.gzips.Put(s)
			packed, err := s.pack(body)
			if err != nil {
				return bulk.Result{}, err
			}
			body, encoding = packed, "gzip"
		}
	}
	buf := c.answerBuffer()
	defer func() {
		if buf.Cap() <= keepAnswer {
			c.answers.Put(buf)
		}
	}()
	const call = "POST /_bulk"
	res, err := c.send(context.WithValue(ctx, spread{}, true), http.MethodPost, path, query, "application/x-ndjson", encoding, body, buf, bulkAnswer(n, len(sent)))
	if err != nil {
		return bulk.Result{}, err
	}
	if res.StatusCode == http.StatusRequestEntityTooLarge {
		return bulk.Result{}, fmt.Errorf("%s of %d bytes: status 413: %w", call, len(body), bulk.ErrTooLarge)
	}
	if err := c.classifyError(call, res.StatusCode, buf.Bytes()); err != nil {
		return bulk.Result{RetryAfter: retryAfter(res.Header, time.Now()), NoneTaken: res.StatusCode == http.StatusTooManyRequests}, err
	}
	told, err := c.readItems(ctx, sent, n, buf.Bytes())
	if page := fault.Page(buf.Bytes()); err != nil && page != "" {
		return bulk.Result{}, fmt.Errorf("%s: %s: %s: %w", call, c.who(), page, fault.ErrUnavailable)
	}
	if err != nil {
		return bulk.Result{}, fmt.Errorf("%s: answer of %s: %w", call, c.name, err)
	}
	if len(told.Refused) == 0 {
		answered(len(sent))
	}
	told.RetryAfter = retryAfter(res.Header, time.Now())
	return told, nil
}

func (c *Client) answerBuffer() *bytes.Buffer {
	if b, ok := c.answers.Get().(*bytes.Buffer); ok {
		b.Reset()
		return b
	}
	return new(bytes.Buffer)
}
