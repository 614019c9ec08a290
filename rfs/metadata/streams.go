package metadata

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/fault"
	"github.com/rfsd/rfsd/rfs/target"
)

// StreamPart says what becomes of one backing index of a data stream: an ordinary index.
type StreamPart struct {
	Stream string
	Alias  string // the stream's name; "" when something else on the target has it
	Writes bool   // the newest: the alias writes to it
}

// StreamParts gives each backing index its place, by the name of the backing index. taken says which
// names the target, or another index of the migration, has already.
func StreamParts(g Globals, taken func(name string) bool) map[string]StreamPart {
	parts := map[string]StreamPart{}
	for _, stream := range keys(g.DataStreams) {
		backing := g.DataStreams[stream]
		for i, name := range backing {
			p := StreamPart{Stream: stream, Alias: stream, Writes: i == len(backing)-1}
			if taken(stream) {
				p.Alias, p.Writes = "", false
			}
			parts[name] = p
		}
	}
	return parts
}

// BackingName is the name of a backing index on a target. It stays, unless the target refuses names
// that begin with a dot: then it is without (.ds-logs-2024.01.01-000001 is ds-logs-2024.01.01-000001).
func BackingName(name string, dotsRefused bool) string {
	if dotsRefused {
		return strings.TrimLeft(name, ".")
	}
	return name
}

// With gives a backing index the alias that stands in for its stream. Documents may be added by it to
// the newest, as they were to the stream.
func (p StreamPart) With(x Index) (Index, error) {
	if p.Alias == "" {
		return x, nil
	}
	all := map[string]any{}
	if len(x.Aliases) > 0 && string(x.Aliases) != "null" {
		var err error
		if all, err = decode(x.Aliases); err != nil {
			return x, fmt.Errorf("aliases of %s: %w", x.Name, err)
		}
	}
	all[p.Alias] = map[string]any{"is_write_index": p.Writes}
	raw, err := json.Marshal(all)
	x.Aliases = raw
	return x, err
}

// CheckStream says whether documents may be created in a data stream of the target by op create: a
// template makes a stream of its name, and no policy that rolls it over is attached, for then a document that is
// sent again lands in the next backing index as well. Even so, duplicates are possible when somebody
// rolls it over by hand. Errors: fault.ErrConfig with the remedy, fault.ErrUnavailable.
func CheckStream(ctx context.Context, c Requester, stream string) error {
	var templates struct {
		Templates []struct {
			Name string `json:"name"`
			Body struct {
				Patterns []string        `json:"index_patterns"`
				Priority int             `json:"priority"`
				Stream   json.RawMessage `json:"data_stream"`
			} `json:"index_template"`
		} `json:"index_templates"`
	}
	if err := ask(ctx, c, "/_index_template", &templates); err != nil {
		return err
	}
	best, makes := -1, false
	for _, t := range templates.Templates {
		fits := slices.ContainsFunc(t.Body.Patterns, func(p string) bool { return matches(p, stream) })
		if fits && t.Body.Priority > best {
			best, makes = t.Body.Priority, len(t.Body.Stream) > 0 && string(t.Body.Stream) != "null"
		}
	}
	if !makes {
		return fmt.Errorf("data stream %s: the target has no index template that makes a stream of this name: create one first, or leave out --data-streams create: %w", stream, fault.ErrConfig)
	}
	policy, err := rollover(ctx, c, stream)
	if err != nil || policy == "" {
		return err
	}
	return fmt.Errorf("data stream %s: the policy %s would roll it over while documents are on their way, and what is sent again would be there twice: detach it until the migration is complete: %w", stream, policy, fault.ErrConfig)
}

// rollover names an ISM policy with a rollover that manages the stream, or will manage its indices.
func rollover(ctx context.Context, c Requester, stream string) (string, error) {
	var all struct {
		Policies []struct {
			ID     string          `json:"_id"`
			Policy json.RawMessage `json:"policy"`
		} `json:"policies"`
	}
	if there, err := askISM(ctx, c, "/_plugins/_ism/policies", &all); err != nil || !there {
		return "", err
	}
	var explained map[string]json.RawMessage
	if _, err := askISM(ctx, c, "/_plugins/_ism/explain/"+stream, &explained); err != nil {
		return "", err
	}
	attached := map[string]bool{}
	for _, raw := range explained {
		var x struct {
			Old string `json:"index.plugins.index_state_management.policy_id"`
			ID  string `json:"policy_id"`
		}
		if json.Unmarshal(raw, &x) == nil { // totals are numbers
			attached[cmp.Or(x.ID, x.Old)] = true
		}
	}
	for _, p := range all.Policies {
		var body struct {
			States []struct {
				Actions []map[string]json.RawMessage `json:"actions"`
			} `json:"states"`
			For []struct {
				Patterns []string `json:"index_patterns"`
			} `json:"ism_template"`
		}
		if err := json.Unmarshal(p.Policy, &body); err != nil {
			return "", fmt.Errorf("policy %s of the target: %w", p.ID, err)
		}
		rolls, fits := false, attached[p.ID]
		for _, s := range body.States {
			rolls = rolls || slices.ContainsFunc(s.Actions, func(a map[string]json.RawMessage) bool { return a["rollover"] != nil })
		}
		for _, f := range body.For {
			fits = fits || slices.ContainsFunc(f.Patterns, func(pattern string) bool { return matches(pattern, stream) })
		}
		if rolls && fits {
			return p.ID, nil
		}
	}
	return "", nil
}

// askISM is ask; false when the target has no ISM, or nothing of that name.
func askISM(ctx context.Context, c Requester, path string, into any) (bool, error) {
	status, answer, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	switch {
	case err != nil:
		return false, err
	case status == http.StatusNotFound, status == http.StatusMethodNotAllowed, status == http.StatusBadRequest && strings.Contains(string(answer), "no handler found"):
		return false, nil
	}
	return true, read(path, status, answer, into)
}

func ask(ctx context.Context, c Requester, path string, into any) error {
	status, answer, err := c.Do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		return err
	}
	return read(path, status, answer, into)
}

func read(path string, status int, answer []byte, into any) error {
	if err := target.Judge("GET "+path, status, answer); err != nil {
		return err
	}
	if err := json.Unmarshal(answer, into); err != nil {
		return fmt.Errorf("GET %s: %w: %w", path, err, fault.ErrRejected)
	}
	return nil
}
