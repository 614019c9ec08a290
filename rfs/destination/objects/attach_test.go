package objects_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
	"github.com/rfsd/rfsd/rfs/destination/objects"
)

// noted is a target that also keeps the requests that change something.
type noted struct {
	recording
	sent *[]string
}

func (n noted) Do(ctx context.Context, method, path string, query url.Values, body []byte) (int, []byte, error) {
	if method != "GET" {
		*n.sent = append(*n.sent, strings.TrimSpace(method+" "+path+" "+query.Encode()+" "+string(body)))
	}
	return n.recording.Do(ctx, method, path, query, body)
}

// TestAttach_AsTheTargetAnswers has answers of OpenSearch 2.19.4 with the plugin for index management.
func TestAttach_AsTheTargetAnswers(t *testing.T) {
	type answers = recording
	const (
		plain   = `{"_id":"p","_version":1,"policy":{"policy_id":"p","states":[{"name":"hot","actions":[{"read_only":{}}]}]}}`
		rolling = `{"_id":"p","_version":1,"policy":{"policy_id":"p","states":[{"name":"hot","actions":[{"rollover":{"min_doc_count":3,"copy_alias":false}}]}]}}`
		none    = `{"x":{"index.plugins.index_state_management.policy_id":null,"index.opendistro.index_state_management.policy_id":null,"enabled":null},"total_managed_indices":0}`
		by      = `{"x":{"index.plugins.index_state_management.policy_id":"p","index":"x","policy_id":"p","enabled":true},"total_managed_indices":1}`
		other   = `{"x":{"index":"x","policy_id":"q","enabled":true},"total_managed_indices":1}`
		done    = `{"updated_indices":1,"failures":false,"failed_indices":[]}`
		has     = `{"updated_indices":0,"failures":true,"failed_indices":[{"index_name":"x","index_uuid":"u","reason":"This index already has a policy, use the update policy API to update index policies"}]}`
		alias   = `{"x":{"aliases":{"w":{"is_write_index":true}}}}`
		add     = `POST /_plugins/_ism/add/x  {"policy_id":"p"}`
	)
	rolled := strings.Replace(plain, `"_id":"p"`, `"_id":"p-rolled-over"`, 1)
	for _, c := range []struct {
		name    string
		of      metadata.Attachment
		on      answers
		refused string
		sent    []string
		err     error
	}{
		{"a policy", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, plain}, "GET /_plugins/_ism/explain/x": {200, none}, "POST /_plugins/_ism/add/x": {200, done}}, "", []string{add}, nil},
		{"attached already", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, plain}, "GET /_plugins/_ism/explain/x": {200, by}}, "", nil, nil},
		{"managed by another", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, plain}, "GET /_plugins/_ism/explain/x": {200, other}}, "by the policy q", nil, nil},
		{"attached meanwhile", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, plain}, "GET /_plugins/_ism/explain/x": {200, none}, "POST /_plugins/_ism/add/x": {200, has}}, "already has a policy", []string{add}, nil},
		{"no policy", metadata.Attachment{Policy: "p"}, answers{}, "has no policy p", nil, nil},
		{"no plugin", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {400, `{"error":"no handler found for uri [/_plugins/_ism/policies/p] and method [GET]"}`}}, "has no policy p", nil, nil},
		{
			"one that rolls over", metadata.Attachment{Policy: "p", Alias: "w"},
			answers{"GET /_plugins/_ism/policies/p": {200, rolling}, "GET /_plugins/_ism/explain/x": {200, none}, "GET /x/_alias/w": {200, alias}, "PUT /x/_settings": {200, `{"acknowledged":true}`}, "POST /_plugins/_ism/add/x": {200, done}},
			"", []string{`PUT /x/_settings  {"index.plugins.index_state_management.rollover_alias":"w"}`, add}, nil,
		},
		{"one that rolls over without the alias", metadata.Attachment{Policy: "p", Alias: "w"}, answers{"GET /_plugins/_ism/policies/p": {200, rolling}, "GET /_plugins/_ism/explain/x": {200, none}}, "alias w, which it lacks", nil, nil},
		{"one that rolls over by no alias", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, rolling}, "GET /_plugins/_ism/explain/x": {200, none}}, "no alias is known", nil, nil},
		{
			"an index that was rolled over", metadata.Attachment{Policy: "p", Alias: "w", RolledOver: true},
			answers{"GET /_plugins/_ism/policies/p-rolled-over": {200, rolled}, "GET /_plugins/_ism/explain/x": {200, none}, "POST /_plugins/_ism/add/x": {200, done}}, "", []string{`POST /_plugins/_ism/add/x  {"policy_id":"p-rolled-over"}`}, nil,
		},
		{"an index that was rolled over, and a policy that would wait without end", metadata.Attachment{Policy: "p", Alias: "w", RolledOver: true}, answers{"GET /_plugins/_ism/policies/p": {200, rolling}}, "has no policy p-rolled-over", nil, nil},
		{"an outage", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {503, ""}}, "", nil, fault.ErrUnavailable},
		{"forbidden", metadata.Attachment{Policy: "p"}, answers{"GET /_plugins/_ism/policies/p": {200, plain}, "GET /_plugins/_ism/explain/x": {200, none}, "POST /_plugins/_ism/add/x": {403, ""}}, "", []string{add}, fault.ErrConfig},
	} {
		t.Run(c.name, func(t *testing.T) {
			var sent []string
			refused, err := objects.Attach(t.Context(), noted{c.on, &sent}, "x", c.of)
			if c.err != nil {
				if !errors.Is(err, c.err) {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || !strings.Contains(refused, c.refused) || (refused == "") != (c.refused == "") || !slices.Equal(sent, c.sent) {
				t.Errorf("%q, %v, sent %q", refused, err, sent)
			}
		})
	}
}

// marking is a ledger whose objects carry a mark.
type marking struct{ objects.Ledger }

func (marking) Mark(context.Context) (objects.Mark, error) {
	return objects.Mark{Session: "s", Token: "t"}, nil
}

// TestSetPatterns_OnlyOfTheSession changes a policy once, if the session created it and no other client changed it.
func TestSetPatterns_OnlyOfTheSession(t *testing.T) {
	const mark = `rfsd:{\"session\":\"s\",\"kind\":\"ism-policy\",\"name\":\"p\",\"mark\":\"t\"}`
	o := metadata.Global{Kind: metadata.StatePolicy, Name: "p", Body: json.RawMessage(`{"policy":{"states":[]}}`), Later: json.RawMessage(`[{"index_patterns":["a-*"]}]`)}
	for _, c := range []struct{ name, is, sent, answer, refused string }{
		{"its own", `{"_id":"p","_version":1,"_seq_no":7,"_primary_term":2,"policy":{"description":"` + mark + `"}}`, `PUT /_plugins/_ism/policies/p if_primary_term=2&if_seq_no=7 {"policy":{"description":"` + mark + `","ism_template":[{"index_patterns":["a-*"]}],"states":[]}}`, `{}`, ""},
		{"another's", `{"_id":"p","_version":1,"_seq_no":7,"_primary_term":2,"policy":{"description":"d"}}`, "", `{}`, ""},
		{"changed since", `{"_id":"p","_version":2,"_seq_no":7,"_primary_term":2,"policy":{"description":"` + mark + `"}}`, "", `{}`, ""},
		{"gone", "", "", `{}`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			on := recording{"PUT /_plugins/_ism/policies/p": {200, c.answer}}
			if c.is != "" {
				on["GET /_plugins/_ism/policies/p"] = struct {
					status int
					body   string
				}{200, c.is}
			}
			var sent []string
			refused, err := objects.SetPatterns(t.Context(), noted{on, &sent}, o, marking{})
			if got := strings.Join(sent, "\n"); err != nil || refused != c.refused || got != c.sent {
				t.Errorf("%q, %v, sent %s", refused, err, got)
			}
		})
	}
}
