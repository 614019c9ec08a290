package oscms

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/coordination/cms"
)

// errScripts means that inline scripts are disabled in the cluster.
var errScripts = errors.New("the cluster runs no inline scripts")

// refused is a result that a script threw.
type refused struct{ result cms.Result }

func (r refused) Error() string { return "refused: " + r.result.String() }

// cause is the error object of an answer.
type cause struct {
	Type     string `json:"type"`
	Reason   string `json:"reason"`
	CausedBy *cause `json:"caused_by"`
}

// chain returns the error and its causes, outermost first, at most 16.
func (c *cause) chain() []*cause {
	var out []*cause
	for ; c != nil && len(out) < 16; c = c.CausedBy {
		out = append(out, c)
	}
	return out
}

// request sends one request. Statuses from 300 on are errors.
func (s *Store) request(ctx context.Context, method, path string, query url.Values, body []byte) ([]byte, error) {
	rctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	status, answer, err := s.cfg.Client.Do(rctx, method, path, query, body)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil && (errors.Is(err, fault.ErrConfig) || errors.Is(err, fault.ErrRejected) || errors.Is(err, fault.ErrUnavailable)):
		return nil, fmt.Errorf("coordination store: %w", err)
	case err != nil:
		return nil, fmt.Errorf("coordination store: %s %s: %w: %w", method, path, err, fault.ErrUnavailable)
	case status < 300:
		return answer, nil
	}
	return answer, fmt.Errorf("coordination store: %s %s: %w", method, path, answerError(status, answer))
}

// answerError returns the error of a failed request, with its category.
func answerError(status int, answer []byte) error {
	var a struct {
		Error json.RawMessage `json:"error"`
	}
	top := &cause{}
	if json.Unmarshal(answer, &a) == nil && json.Unmarshal(a.Error, top) != nil {
		top.Reason = strings.Trim(string(a.Error), `"`)
	}
	chain := top.chain()
	for _, c := range chain {
		if name, ok := strings.CutPrefix(c.Reason, "rfsd:"); ok {
			if v, ok := cms.ParseResult(name); ok {
				return refused{v}
			}
		}
		if strings.Contains(c.Reason, "cannot execute [inline] scripts") || strings.Contains(c.Reason, "script_lang not supported") {
			return fmt.Errorf("%w: %s", errScripts, c.Reason)
		}
	}
	inner := chain[len(chain)-1]
	said := fmt.Errorf("status %d", status)
	text, remedy := fault.Explain(status, inner.Type, inner.Reason)
	for i, more := range []string{text, remedy} {
		if more != "" {
			said = fmt.Errorf("%w%s%s", said, [...]string{": ", "; "}[i], more)
		}
	}
	switch {
	case status == http.StatusNotFound && top.Type == "index_not_found_exception":
		return fmt.Errorf("%w: %w", said, cms.ErrStoreGone)
	case status == http.StatusNotFound:
		return fmt.Errorf("%w: %w", said, cms.ErrNotFound)
	case status == http.StatusConflict:
		return fmt.Errorf("%w: %w", said, cms.ErrConflict)
	case top.Type == "cluster_block_exception", fault.Transient(status, top.Type, top.Reason):
		return fmt.Errorf("%w: %w", said, fault.ErrUnavailable)
	case status == http.StatusUnauthorized, status == http.StatusForbidden:
		return fmt.Errorf("%w: %w", said, fault.ErrConfig)
	}
	return fmt.Errorf("%w: %w", said, fault.ErrRejected)
}
