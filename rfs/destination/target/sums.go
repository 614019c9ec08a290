package target

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/bulk"
)

// actions iterates over the action lines of a bulk body.
type actions struct{ rest []byte }

// next returns the next action; ok is false after the last. It skips the action's source line, which deletions do not have.
func (a *actions) next() (it item, ok bool, err error) {
	line, rest, _ := bytes.Cut(a.rest, []byte{'\n'})
	if len(line) == 0 {
		return item{}, false, nil
	}
	s := scanner{b: line}
	it, err = s.item()
	if a.rest = rest; string(it.op) != "delete" {
		_, a.rest, _ = bytes.Cut(rest, []byte{'\n'})
	}
	return it, err == nil, err
}

// errSum returns the error for a response that does not match the request: it is unknown which documents arrived.
func errSum(format string, args ...any) error {
	return fmt.Errorf("it does not add up: "+format+": %w", append(args, fault.ErrUnavailable)...)
}

// readItems checks the answer to a bulk request of n items against its body and returns the rejected items, and the items that
// replaced a document. It returns fault.ErrUnavailable unless operation, index, id, status and count of all items match.
func (c *Client) readItems(ctx context.Context, body []byte, n int, answer []byte) (res bulk.Result, err error) {
	sent := actions{body}
	seen, errs, err := parseBulk(answer, func(pos int, got *item) error {
		want, ok, err := sent.next()
		if err != nil {
			return fmt.Errorf("action line: %w", err)
		}
		if ok && string(want.op) != string(got.op) {
			return errSum("%q was sent, it answers for %q", want.op, got.op)
		}
		if !got.arrived() {
			if got.status < 300 && got.status != 0 && !got.dropped() {
				return errSum("status %d with an error", got.status)
			}
			r := got.refusal(pos)
			if strings.Contains(r.Reason, "can't change the target index") {
				return pipelineError(r.Reason, want.index)
			}
			res.Refused = append(res.Refused, r)
			return nil
		}
		if got.status != http.StatusOK && got.status != http.StatusCreated && !got.gone() {
			return errSum("status %d of an item without an error", got.status)
		}
		var other error
		if ok {
			other = c.sameDocument(ctx, &want, got)
			switch {
			case c.conf.RunPipelines && errors.Is(other, fault.ErrConfig):
				other = nil // the user may not look the name up
			case c.conf.RunPipelines && errors.Is(other, errOther):
			case errors.Is(other, errOther):
				return c.byPipeline(ctx, want.index, other)
			case other != nil:
				return other
			}
		}
		switch {
		case other != nil: // a pipeline of the user changed its index or id
			res.Moved++
		case got.replaced():
			res.Replaced = append(res.Replaced, bulk.Replacement{Pos: pos, Copies: copies(&want, got)})
		}
		return nil
	})
	switch {
	case err != nil && (ctx.Err() != nil || errors.Is(err, fault.ErrUnavailable) || errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrUnsupported)):
		return bulk.Result{}, err
	case err != nil:
		return bulk.Result{}, fmt.Errorf("%w: %w", err, fault.ErrUnavailable)
	case seen != n:
		return bulk.Result{}, errSum("it speaks of %d items of %d", seen, n)
	case errs && len(res.Refused) == 0:
		return bulk.Result{}, errSum("it states errors, but every item was taken")
	}
	return res, nil
}

// errOther means that an answer is for a document with another index or id than sent. It is a fault.ErrUnavailable.
var errOther = fmt.Errorf("another document: %w", fault.ErrUnavailable)

// byPipeline returns the error for an answer with another document than sent to an index: fault.ErrUnsupported if the
// index has a final pipeline, which would change further documents, else other.
func (c *Client) byPipeline(ctx context.Context, index []byte, other error) error {
	name, ok := unquoted(index)
	if !ok {
		return other
	}
	final, err := c.FinalPipelines(ctx, []string{name})
	if err != nil {
		return other
	}
	for _, pipeline := range final {
		return pipelineError(fmt.Sprintf("the final pipeline %s changes documents: %s", pipeline, fault.Text(other)), index)
	}
	return other
}

// pipelineError returns the error for documents that a pipeline moves, so that their session cannot find them.
func pipelineError(what string, index []byte) error {
	name, ok := unquoted(index)
	if !ok || name == "" {
		name = "INDEX"
	}
	return fmt.Errorf(`%s; remove the pipeline (PUT %s/_settings {"index.final_pipeline":"_none"}) and delete what it has moved, then run the same command again; or accept what pipelines do (--run-pipelines) in a new session: %w`, what, name, fault.ErrUnsupported)
}

// sameDocument returns an error unless an item has the index and the id that were sent.
func (c *Client) sameDocument(ctx context.Context, want, got *item) error {
	if want.id != nil && !sameText(want.id, got.id) {
		return fmt.Errorf("it does not add up: document %q was sent, it answers for %q: %w", want.id, got.id, errOther)
	}
	return c.sameIndex(ctx, want.index, got.index)
}

// sameText reports whether two JSON strings, without their quotes, are equal after decoding escapes.
func sameText(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	if bytes.IndexByte(a, '\\') < 0 && bytes.IndexByte(b, '\\') < 0 {
		return false
	}
	x, xok := unquoted(a)
	y, yok := unquoted(b)
	return xok && yok && x == y
}

func unquoted(b []byte) (text string, ok bool) {
	err := json.Unmarshal(append(append([]byte{'"'}, b...), '"'), &text)
	return text, err == nil
}

// leads caches the indices behind the names that documents were sent to: the index of an alias,
// the backing indices of a data stream.
type leads struct {
	mu    sync.Mutex
	known map[string]map[string]bool
}

const maxLeads = 10_000 // names at which the cache is cleared

// has reports whether an index is behind a name, and whether the indices of the name are cached.
func (l *leads) has(name, index string) (leads, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all, known := l.known[name]
	return all[index], known
}

func (l *leads) set(name string, indices map[string]bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known == nil || len(l.known) >= maxLeads {
		l.known = map[string]map[string]bool{}
	}
	l.known[name] = indices
}

// sameIndex returns an error unless a document that was sent to one name was written to that index, or to an index of that alias or
// data stream. It looks the name up once.
func (c *Client) sameIndex(ctx context.Context, sent, got []byte) error {
	if sent == nil || sameText(sent, got) {
		return nil
	}
	name, ok := unquoted(sent)
	index, ok2 := unquoted(got)
	if !ok || !ok2 || index == "" {
		return errSum("the document was sent to index %q, it answers for %q", sent, got)
	}
	other := fmt.Errorf("it does not add up: the document was sent to index %q, it answers for %q: %w", name, index, errOther)
	if there, known := c.leads.has(name, index); there {
		return nil
	} else if known && c.conf.RunPipelines { // avoids a request for each document that a pipeline moves
		return other
	}
	var behind map[string]struct{}
	path := "/" + url.PathEscape(name) + "/_settings/index.uuid"
	err := c.get(ctx, path, nil, &behind)
	if errors.Is(err, fault.ErrRejected) { // not found: it has no indices
		c.leads.set(name, nil)
		return fmt.Errorf("%w; %s", other, err.Error())
	}
	if err != nil {
		return fmt.Errorf("find the index behind %s: %w", name, err)
	}
	all := make(map[string]bool, len(behind))
	for x := range behind {
		all[x] = true
	}
	c.leads.set(name, all)
	if !all[index] {
		return other
	}
	return nil
}
