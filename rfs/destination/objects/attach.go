package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// Attach attaches an ISM policy of the target to an index that a policy managed at the source. It may be repeated. refused is the
// reason why the policy is not attached, "" if it is. Errors are fault.ErrUnavailable and fault.ErrConfig.
func Attach(ctx context.Context, c rest.API, index string, a metadata.Attachment) (refused string, err error) {
	policy, rolls, err := policyFor(ctx, c, a)
	if err != nil || policy == "" {
		return fmt.Sprintf("the target has no policy %s", a.Named()), err
	}
	managed, err := attachedPolicies(ctx, c, index)
	switch {
	case err != nil:
		return "", err
	case managed[index] == policy:
		return "", nil
	case managed[index] != "":
		return "the target manages it by the policy " + managed[index], nil
	}
	if rolls {
		if refused, err := setRolloverAlias(ctx, c, index, a.Alias); err != nil || refused != "" {
			return refused, err
		}
	}
	body, err := json.Marshal(map[string]string{"policy_id": policy})
	if err != nil {
		return "", fmt.Errorf("policy of %s: %w", index, err)
	}
	var answer struct {
		Updated int `json:"updated_indices"`
		Failed  []struct {
			Reason string `json:"reason"`
		} `json:"failed_indices"`
	}
	if err := rest.Call(ctx, c, http.MethodPost, "/_plugins/_ism/add/"+url.PathEscape(index), nil, body, &answer); err != nil {
		return asRefusal(err)
	}
	if len(answer.Failed) > 0 {
		return answer.Failed[0].Reason, nil
	}
	if answer.Updated == 0 {
		return "the target attached it to no index", nil
	}
	return "", nil
}

// policyFor returns the name of the policy to attach, "" if the target lacks it, and whether it rolls indices over. An index that was
// rolled over gets its original policy only if that has no rollover.
func policyFor(ctx context.Context, c rest.API, a metadata.Attachment) (name string, rolls bool, err error) {
	for _, name := range []string{a.Named(), a.Policy} {
		var answer struct {
			Policy struct {
				States []struct {
					Actions []map[string]json.RawMessage `json:"actions"`
				} `json:"states"`
			} `json:"policy"`
		}
		there, err := getMaybe(ctx, c, ObjectPath(metadata.Policy, name), &answer)
		if err != nil {
			return "", false, fmt.Errorf("policy %s: %w", name, err)
		}
		if !there {
			continue
		}
		rolls := false
		for _, s := range answer.Policy.States {
			for _, action := range s.Actions {
				rolls = rolls || action["rollover"] != nil
			}
		}
		if !rolls || !a.RolledOver {
			return name, rolls, nil
		}
	}
	return "", false, nil
}

// setRolloverAlias sets the rollover alias of an index, without which ISM never rolls it over.
func setRolloverAlias(ctx context.Context, c rest.API, index, alias string) (refused string, err error) {
	if alias == "" {
		return "its policy rolls over, and no alias is known for that", nil
	}
	var has map[string]json.RawMessage
	there, err := getMaybe(ctx, c, "/"+url.PathEscape(index)+"/_alias/"+url.PathEscape(alias), &has)
	if err != nil || !there {
		return fmt.Sprintf("its policy rolls over by the alias %s, which it lacks", alias), err
	}
	body, err := json.Marshal(map[string]string{"index.plugins.index_state_management.rollover_alias": alias})
	if err != nil {
		return "", fmt.Errorf("alias of %s: %w", index, err)
	}
	return asRefusal(rest.Call(ctx, c, http.MethodPut, "/"+url.PathEscape(index)+"/_settings", nil, body, nil))
}

// asRefusal returns the target's reason if err is a rejection, else err.
func asRefusal(err error) (string, error) {
	var status *fault.StatusError
	if errors.As(err, &status) && errors.Is(err, fault.ErrRejected) {
		return status.Reason, nil
	}
	return "", err
}

// SetPatterns adds the index patterns in o.Later to a policy that the session of l created, unless it has been changed since. It
// may be repeated. refused is the reason of the target's rejection, "" if the policy has the patterns or was changed.
func SetPatterns(ctx context.Context, c rest.API, o metadata.Global, l Ledger) (refused string, err error) {
	var is struct {
		Version     int             `json:"_version"`
		SeqNo       int64           `json:"_seq_no"`
		PrimaryTerm int64           `json:"_primary_term"`
		Policy      json.RawMessage `json:"policy"`
	}
	path := ObjectPath(o.Kind, o.Name)
	there, err := getMaybe(ctx, c, path, &is)
	if err != nil || !there || is.Version != 1 || l == nil {
		return "", err
	}
	mark, err := l.Mark(ctx)
	if err != nil || !mark.Matches(string(o.Kind), o.Name, is.Policy) {
		return "", err
	}
	body, err := mark.Put(string(o.Kind), o.Name, o.Body)
	if err != nil {
		return "", err
	}
	whole, err := metadata.DecodeObject(body)
	if err != nil {
		return "", err
	}
	child(whole, "policy")["ism_template"] = o.Later
	if body, err = json.Marshal(whole); err != nil {
		return "", fmt.Errorf("encode: %w", err)
	}
	only := url.Values{"if_seq_no": {strconv.FormatInt(is.SeqNo, 10)}, "if_primary_term": {strconv.FormatInt(is.PrimaryTerm, 10)}}
	return asRefusal(rest.Call(ctx, c, http.MethodPut, path, only, body, nil))
}
