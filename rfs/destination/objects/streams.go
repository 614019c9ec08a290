package objects

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/pattern"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/target"
)

// ErrRollover means that a policy would roll a data stream over while documents are created in it.
var ErrRollover = fmt.Errorf("a policy rolls the data stream over: %w", fault.ErrConfig)

// CheckStream returns an error unless documents may be created in a data stream of the target: a
// template must create a stream of this name, and no policy may roll it over, since a document that is
// sent again would then be created in the next backing index as well. A manual rollover can still
// cause duplicates. Errors are fault.ErrConfig with the remedy, such as ErrRollover, and fault.ErrUnavailable.
func CheckStream(ctx context.Context, c rest.API, stream string) error {
	makes, err := MakesStream(ctx, c, stream)
	if err != nil {
		return err
	}
	if !makes {
		return NoStreamTemplate(stream)
	}
	return CheckRollover(ctx, c, stream)
}

// NoStreamTemplate returns the error for a stream without a template.
func NoStreamTemplate(stream string) error {
	return fmt.Errorf("data stream %s: the target has no index template that makes a stream of this name: create one first, or leave out --data-streams create: %w", stream, fault.ErrConfig)
}

// MakesStream reports whether the target has an index template that creates a data stream of this name.
func MakesStream(ctx context.Context, c rest.API, stream string) (bool, error) {
	var answer struct {
		Templates []struct {
			Body metadata.StreamTemplate `json:"index_template"`
		} `json:"index_templates"`
	}
	if err := rest.Get(ctx, c, "/_index_template", nil, &answer); err != nil {
		return false, err
	}
	all := make([]metadata.StreamTemplate, 0, len(answer.Templates))
	for _, t := range answer.Templates {
		all = append(all, t.Body)
	}
	return metadata.MakesStream(all, stream), nil
}

// CheckRollover returns ErrRollover if a policy of the target rolls the stream over.
func CheckRollover(ctx context.Context, c rest.API, stream string) error {
	policy, err := rollover(ctx, c, stream)
	if err != nil || policy == "" {
		return err
	}
	return fmt.Errorf("data stream %s: %w: it has the policy %s, and documents sent again after it would exist twice: detach it until the migration is complete", stream, ErrRollover, policy)
}

// TargetStream is a data stream of a target.
type TargetStream struct {
	UUID    string   // of its oldest backing index; it identifies the stream
	Indices []string // its backing indices, oldest first
}

// FindStream returns a data stream of the target; nil if it has none of this name.
func FindStream(ctx context.Context, c rest.API, name string) (*TargetStream, error) {
	var answer struct {
		Streams []struct {
			Indices []struct {
				Name string `json:"index_name"`
				UUID string `json:"index_uuid"`
			} `json:"indices"`
		} `json:"data_streams"`
	}
	err := rest.Get(ctx, c, "/_data_stream/"+url.PathEscape(name), nil, &answer)
	if fault.HasStatus(err, http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed) || errors.Is(err, target.ErrNotAnswered) {
		return nil, nil // 400: an alias has the name, or the target does not support data streams
	}
	if err != nil || len(answer.Streams) == 0 || len(answer.Streams[0].Indices) == 0 {
		return nil, err
	}
	found := &TargetStream{UUID: answer.Streams[0].Indices[0].UUID}
	for _, x := range answer.Streams[0].Indices {
		found.Indices = append(found.Indices, x.Name)
	}
	return found, nil
}

// Holders returns the indices that have an alias of the name on the target, sorted. index reports whether the name belongs to an
// index, or to something else that is not an alias. FindStream finds data streams.
func Holders(ctx context.Context, c rest.API, name string) (holders []string, index bool, err error) {
	if err := rest.Call(ctx, c, http.MethodHead, "/"+url.PathEscape(name), nil, nil, nil); fault.HasStatus(err, http.StatusNotFound) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	var indices map[string]json.RawMessage
	alias, err := getMaybe(ctx, c, "/_alias/"+url.PathEscape(name), &indices)
	if err != nil || !alias || len(indices) == 0 {
		return nil, true, err
	}
	return slices.Sorted(maps.Keys(indices)), false, nil
}

// CreateStream creates a data stream from its template. If the stream exists, it is not changed, and created is false.
func CreateStream(ctx context.Context, c rest.API, name string) (created bool, err error) {
	err = rest.Call(ctx, c, http.MethodPut, "/_data_stream/"+url.PathEscape(name), nil, nil, nil)
	if target.IsExists(err) {
		return false, nil
	}
	return err == nil, err
}

// attachedPolicies returns the ISM policies that manage an index, or the backing indices of a data stream, by index; none if
// the target has no ISM.
func attachedPolicies(ctx context.Context, c rest.API, name string) (map[string]string, error) {
	var explained map[string]json.RawMessage
	if _, err := getMaybe(ctx, c, "/_plugins/_ism/explain/"+url.PathEscape(name), &explained); err != nil {
		return nil, err
	}
	managed := map[string]string{}
	for index, raw := range explained {
		var x struct {
			Old string `json:"index.plugins.index_state_management.policy_id"`
			ID  string `json:"policy_id"`
		}
		if json.Unmarshal(raw, &x) != nil { // totals are numbers
			continue
		}
		if policy := cmp.Or(x.ID, x.Old); policy != "" {
			managed[index] = policy
		}
	}
	return managed, nil
}

// rollover returns an ISM policy with a rollover that manages the stream, or will manage its future indices; "" for none.
func rollover(ctx context.Context, c rest.API, stream string) (string, error) {
	var all struct {
		Policies []struct {
			ID     string          `json:"_id"`
			Policy json.RawMessage `json:"policy"`
		} `json:"policies"`
	}
	if there, err := getMaybe(ctx, c, "/_plugins/_ism/policies", &all); err != nil || !there {
		return "", err
	}
	managed, err := attachedPolicies(ctx, c, stream)
	if err != nil {
		return "", err
	}
	attached := map[string]bool{}
	for _, policy := range managed {
		attached[policy] = true
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
			fits = fits || slices.ContainsFunc(f.Patterns, func(p string) bool { return pattern.Star(p, stream) })
		}
		if rolls && fits {
			return p.ID, nil
		}
	}
	return "", nil
}

// getMaybe is rest.Get, but returns false if the target has no such object, or does not support this kind of object.
func getMaybe(ctx context.Context, c rest.API, path string, into any) (bool, error) {
	err := rest.Get(ctx, c, path, nil, into)
	if errors.Is(err, target.ErrNotAnswered) || fault.HasStatus(err, http.StatusNotFound, http.StatusMethodNotAllowed) ||
		fault.HasStatus(err, http.StatusBadRequest) && strings.Contains(err.Error(), "no handler found") {
		return false, nil
	}
	return err == nil, err
}

// IsStream reports whether a name of the target is a data stream. It returns fault.ErrConfig if the name does not exist, since
// sending documents to it would create an index with guessed mappings.
func IsStream(ctx context.Context, c interface {
	rest.API
	IndexExists(ctx context.Context, name string) (bool, error)
}, index string) (bool, error) {
	exists, err := c.IndexExists(ctx, index)
	switch {
	case err != nil:
		return false, fmt.Errorf("index %s: %w", index, err)
	case !exists:
		return false, fmt.Errorf("index %s is not on the target: create it with its mappings first, or leave its documents in the files with --index-exclude %s: %w", index, index, fault.ErrConfig)
	}
	stream, err := FindStream(ctx, c, index)
	if err != nil && !errors.Is(err, fault.ErrConfig) { // without the permission to ask, the target rejects unsuitable requests
		return false, fmt.Errorf("index %s: %w", index, err)
	}
	return stream != nil, nil
}
