package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rfsd/rfsd/rfs/base/budget"
	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/overtime"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

// Limits of a page.
const (
	pageBytes = 4 << 20 // intended size
	// pageLimit is the size of a page beyond which it is requested again with fewer documents.
	pageLimit = 4 * pageBytes
	firstPage = 100
	maxPage   = 10_000 // the default of index.max_result_window
)

// readKeepAlive is the time after which the target closes an idle cursor.
const readKeepAlive = "5m"

// lateAnswer limits the time to wait for the id of a cursor, and to close it, after the reading has ended.
const lateAnswer = 10 * time.Second

// Hit is one document of a target. The slices are borrowed until the callback returns.
type Hit struct {
	ID, Routing []byte
	Source      []byte // as stored; nil if the target stores none
	// Sequence is the sequence number of the operation that wrote the document; -1 unless requested.
	Sequence int64
}

// Pace limits the load of a reading by the latency of its pages. *throttle.Latency implements it.
type Pace interface {
	// Begin is called before a page is requested, and blocks while no page should be requested. It returns the fraction
	// of a full page to request, and end, which is called when the response has arrived or failed.
	Begin() (part float64, end func(ctx context.Context) error)
}

// Reading describes how to read documents.
type Reading struct {
	Index string // one index, no alias
	Shard int
	// PointInTime reads with a point in time (see Version.HasPointInTime), otherwise with a scroll.
	PointInTime bool
	// Window is index.max_result_window of the index; 0 means 10,000.
	Window int
	// Size is the number of documents of the first page. ReadShard lowers it if a page is too long; nil: a
	// default. A scroll cannot change it midway: then the caller reads the shard again with the lower number.
	Size *int
	// Longest is the maximum length of a source in bytes; 0: the limit of other answers.
	Longest int64
	// Admit is called with the size of each page in bytes after it was read, and blocks until that size is allowed; nil: always allowed.
	Admit func(ctx context.Context, bytes int) error
	Pace  Pace // nil: none
	// Sequence requests the sequence number of each document.
	Sequence bool
	// Pause blocks before a page is requested again.
	Pause func(ctx context.Context, d time.Duration) error
}

// HasPointInTime reports whether the target supports points in time in the form of OpenSearch since 2.4.
func (v Version) HasPointInTime() bool {
	return v.Distribution == "opensearch" && (v.Major > 2 || v.Major == 2 && v.Minor >= 4)
}

// ReportsSequence reports whether a search returns sequence numbers.
func (v Version) ReportsSequence() bool { return v.Distribution == "opensearch" || v.Major >= 7 }

// ReadShard calls each with every visible root document of one consistent state of a shard. It closes the cursor at
// the target. It retries a page of a point in time if the response is lost. If the response of a scroll is lost, it returns
// fault.ErrUnavailable, and the shard must be read again from the start.
func (c *Client) ReadShard(ctx context.Context, r Reading, each func(Hit) error) error {
	if r.Size == nil {
		r.Size = new(int)
	}
	if *r.Size == 0 {
		*r.Size = firstPage
	}
	p := &pages{c: c, r: r, size: min(*r.Size, r.window()), part: 1}
	err := ctx.Err()
	if err == nil {
		err = p.open(ctx)
	}
	if err == nil {
		err = p.all(ctx, each)
	}
	p.shrink()
	// Close the cursor even if ctx is done.
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), lateAnswer)
	defer cancel()
	if cerr := p.close(closing); cerr != nil && err == nil && !errors.Is(cerr, fault.ErrUnavailable) {
		err = cerr
	}
	return err
}

// tries returns the retry policy for a page.
func (r Reading) tries() retry.Policy {
	return retry.Policy{Tries: 4, First: 2 * time.Second, Max: 8 * time.Second, Sleep: r.Pause}
}

func (r Reading) window() int {
	if r.Window <= 0 {
		return maxPage
	}
	return min(r.Window, maxPage)
}

// pages is a reading in progress.
type pages struct {
	c      *Client
	r      Reading
	size   int    // documents of the next page
	cursor string // id of the point in time or of the scroll; "" for none
	after  []byte // sort values of the last hit, JSON
	buf    bytes.Buffer
	part   float64       // fraction of a full page to request
	long   bool          // the next page is one document that is longer than a page
	held   *budget.Share // memory of buf for such a document
}

func (p *pages) open(ctx context.Context) error {
	if !p.r.PointInTime {
		return nil // the first page opens a scroll
	}
	query := url.Values{"keep_alive": {readKeepAlive}, "allow_partial_pit_creation": {"false"}, "preference": {p.shard()}}
	var answer struct {
		ID string `json:"pit_id"`
	}
	ctx, release := overtime.Context(ctx, lateAnswer)
	defer release()
	if err := p.c.call(ctx, http.MethodPost, "/"+url.PathEscape(p.r.Index)+"/_search/point_in_time", query, nil, &answer); err != nil {
		return err
	}
	if p.cursor = answer.ID; p.cursor == "" {
		return fmt.Errorf("point in time of %s: the answer of %s holds no pit_id: %w", p.r.Index, p.c.name, fault.ErrUnavailable)
	}
	return nil
}

func (p *pages) shard() string { return "_shards:" + strconv.Itoa(p.r.Shard) }

func (p *pages) close(ctx context.Context) error {
	if p.cursor == "" {
		return nil
	}
	path, body := "/_search/scroll", map[string][]string{"scroll_id": {p.cursor}}
	if p.r.PointInTime {
		path, body = "/_search/point_in_time", map[string][]string{"pit_id": {p.cursor}}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	err = p.c.call(ctx, http.MethodDelete, path, nil, b, nil)
	if fault.HasStatus(err, http.StatusNotFound) { // it has expired
		return nil
	}
	return err
}

// all reads page by page.
func (p *pages) all(ctx context.Context, each func(Hit) error) error {
	for {
		hits, err := p.page(ctx, each)
		if err != nil {
			return err
		}
		if hits == 0 {
			return nil
		}
		if p.r.Admit != nil {
			if err := p.r.Admit(ctx, p.buf.Len()); err != nil {
				return err
			}
		}
		perHit := max(p.buf.Len()/hits, 1)
		p.size = max(1, min(int(p.part*pageBytes)/perHit, 4*p.size, p.r.window()))
		p.shrink()
	}
}

// shrink releases the memory of a long page.
func (p *pages) shrink() {
	if p.buf.Cap() > pageLimit {
		p.buf = bytes.Buffer{}
	}
	p.held.Release()
	p.held, p.long = nil, false
}

// longest returns the maximum length of an answer with one document, in bytes.
func (r Reading) longest() int64 {
	if r.Longest > 0 {
		return r.Longest + answerHead
	}
	return maxAnswer
}

// lengthen allocates the buffer for an answer with one document that is longer than a page. It blocks until the budget has enough
// memory; this cannot deadlock, since no holder of memory waits for this answer.
func (p *pages) lengthen(ctx context.Context) (err error) {
	if p.held == nil {
		if p.held, err = p.c.conf.Memory.Take(ctx, p.r.longest()); err != nil {
			return err
		}
	}
	if int64(p.buf.Cap()) <= p.r.longest() {
		p.buf = *bytes.NewBuffer(make([]byte, 0, p.r.longest()+1))
	}
	return nil
}

// page fetches one page and passes its hits to each.
func (p *pages) page(ctx context.Context, each func(Hit) error) (hits int, err error) {
	for tries := p.r.tries().Start(); ; {
		if err = p.paced(ctx); err == nil {
			break
		}
		repeatable := p.r.PointInTime || p.cursor == ""
		if errors.Is(err, errLongAnswer) {
			*p.r.Size = max(1, p.size/8)
		}
		switch {
		case ctx.Err() != nil || !repeatable:
			return 0, err
		case errors.Is(err, errLongAnswer) && p.size > 1:
			p.size = *p.r.Size
			tries.Reset()
			continue
		case errors.Is(err, errLongAnswer) && !p.long && p.r.PointInTime:
			p.long = true
			tries.Reset()
			continue
		case errors.Is(err, errLongAnswer):
			return 0, fmt.Errorf("a document of %s: %w: %w; a larger --max-document-size reads longer ones", p.r.Index, err, fault.ErrUnsupported)
		}
		if err = tries.Again(ctx, err); err != nil {
			return 0, err
		}
	}
	return p.parse(each)
}

// paced fetches a page at the pace of the reading.
func (p *pages) paced(ctx context.Context) error {
	if p.r.Pace == nil {
		return p.fetch(ctx)
	}
	part, end := p.r.Pace.Begin()
	if part < p.part {
		p.size = max(1, int(float64(p.size)*part/p.part))
	}
	p.part = part
	err := p.fetch(ctx)
	if perr := end(ctx); err == nil {
		err = perr
	}
	return err
}

// fetch requests the next page and reads the answer into p.buf.
func (p *pages) fetch(ctx context.Context) error {
	path, query := "/_search", url.Values{"allow_partial_search_results": {"false"}}
	body := map[string]any{"size": p.size, "sort": []string{"_doc"}, "_source": true, "track_total_hits": false}
	if p.r.Sequence {
		body["seq_no_primary_term"] = true
	}
	switch {
	case p.r.PointInTime:
		body["pit"] = map[string]string{"id": p.cursor, "keep_alive": readKeepAlive}
		if p.after != nil {
			body["search_after"] = json.RawMessage(p.after)
		}
	case p.cursor == "":
		path = "/" + url.PathEscape(p.r.Index) + "/_search"
		query.Set("scroll", readKeepAlive)
		query.Set("preference", p.shard())
		delete(body, "track_total_hits")
		longer, release := overtime.Context(ctx, lateAnswer)
		defer release()
		ctx = longer
	default:
		path, query, body = "/_search/scroll", nil, map[string]any{"scroll": readKeepAlive, "scroll_id": p.cursor}
	}
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	limit := pageLimit
	if p.long || !p.r.PointInTime {
		limit = int(p.r.longest())
	}
	if p.long {
		if err := p.lengthen(ctx); err != nil {
			return err
		}
	}
	p.buf.Reset()
	res, err := p.c.send(ctx, http.MethodPost, path, query, "application/json", "", b, &p.buf, limit)
	if err != nil {
		return err
	}
	return p.c.classifyError("POST "+path, res.StatusCode, p.buf.Bytes())
}
