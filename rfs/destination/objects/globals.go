package objects

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/rest"
	"github.com/rfsd/rfsd/rfs/destination/metadata"
)

// places is the path of each kind. create states that requests have a parameter of that name, which prevents
// replacing an existing object.
var places = map[metadata.Kind]struct {
	path   string
	create bool
}{
	metadata.LegacyTemplate:    {"/_template/", true},
	metadata.ComponentTemplate: {"/_component_template/", true},
	metadata.IndexTemplate:     {"/_index_template/", true},
	metadata.Pipeline:          {"/_ingest/pipeline/", false},
	metadata.Script:            {"/_scripts/", false},
	metadata.Policy:            {"/_plugins/_ism/policies/", false}, // creates only: replacing needs a sequence number
	metadata.StatePolicy:       {"/_plugins/_ism/policies/", false},
}

// GlobalResult is the result of EnsureGlobals. Names are "<kind> <name>".
type GlobalResult struct {
	Created []string           // in the order of the plan
	Existed []string           // unchanged
	Left    []metadata.LeftOut // of the plan, and objects that the target does not support
	Changes []metadata.Change  // of created objects only
}

// EnsureGlobals creates the objects that the target lacks and never changes existing ones. It may be
// repeated, and several processes may run it concurrently. It repeats the request for a template without the features
// that the target reports as unsupported. It leaves out pipelines, scripts and policies without an equivalent on the target,
// and templates whose names an existing template of the same priority covers. Any other
// rejection of a template is an error (fault.ErrRejected), returned after all other objects were tried. Further
// errors are fault.ErrUnavailable and fault.ErrConfig. The result is valid even with an error. l records
// each creation; if it is nil, nothing is recorded.
func EnsureGlobals(ctx context.Context, c rest.API, plan metadata.GlobalPlan, l Ledger) (GlobalResult, error) {
	if l == nil {
		l = unrecorded{}
	}
	r := GlobalResult{Left: plan.Left}
	unsupported := metadata.NewUnsupported()
	var refusals []error
	for _, o := range plan.Objects {
		there, err := hasObject(ctx, c, o)
		if err == nil && there {
			if err := l.Decide(ctx, string(o.Kind), o.Name); err != nil {
				return r, fmt.Errorf("%s: %w", o.Label(), err)
			}
			r.Existed = append(r.Existed, o.Label())
			continue
		}
		var changes []metadata.Change
		if err == nil {
			changes, err = createObject(ctx, c, o, unsupported, l)
		}
		left := leftOut(o, err)
		if rerr := recordOutcome(ctx, l, o, err); rerr != nil {
			return r, errors.Join(err, fmt.Errorf("%s: %w", o.Label(), rerr))
		}
		switch {
		case err == nil:
			r.Created = append(r.Created, o.Label())
			r.Changes = append(r.Changes, changes...)
		case isThere(err): // another worker was faster
			r.Existed = append(r.Existed, o.Label())
		case left != "":
			r.Left = append(r.Left, metadata.LeftOut{Kind: o.Kind, Name: o.Name, Reason: left})
			if o.Kind == metadata.Pipeline {
				unsupported.RecordPipeline(o.Name)
			}
		case errors.Is(err, fault.ErrRejected):
			refusals = append(refusals, fmt.Errorf("%s (create it by hand, or leave it out with an allow-list): %w", o.Label(), err))
		default:
			return r, fmt.Errorf("%s: %w", o.Label(), err)
		}
	}
	return r, errors.Join(refusals...)
}

// recordOutcome completes the record of an object, or withdraws it if the target rejected the object. After a request
// without an answer the record stays an intent.
func recordOutcome(ctx context.Context, l Ledger, o metadata.Global, err error) error {
	switch {
	case err == nil:
		return l.Confirm(ctx, string(o.Kind), o.Name)
	case isThere(err):
		return l.Decide(ctx, string(o.Kind), o.Name)
	case errors.Is(err, fault.ErrRejected):
		return l.Withdraw(ctx, string(o.Kind), o.Name)
	}
	return nil
}

// hasObject reports whether the target has an object of this kind and name.
func hasObject(ctx context.Context, c rest.API, o metadata.Global) (bool, error) {
	err := request(ctx, c, http.MethodGet, o, nil)
	if fault.HasStatus(err, http.StatusNotFound) {
		return false, nil
	}
	return err == nil, err
}

// createObject creates an object, and repeats the request without the features that the target reports as unsupported.
func createObject(ctx context.Context, c rest.API, o metadata.Global, known *metadata.Unsupported, l Ledger) ([]metadata.Change, error) {
	unsupported := known.OfOneObject()
	mark, refused := l.Mark(ctx)
	if refused != nil {
		return nil, refused
	}
	for range maxTries {
		body, changes, err := o.ConvertFor(unsupported)
		if err != nil {
			return nil, err
		}
		if body, err = mark.Put(string(o.Kind), o.Name, body); err != nil {
			return nil, err
		}
		if err := l.Intend(ctx, string(o.Kind), o.Name); err != nil {
			return nil, err
		}
		if refused = request(ctx, c, http.MethodPut, o, body); refused == nil {
			return changes, nil
		}
		if !isTemplate(o.Kind) || !unsupported.Record(refused) {
			break
		}
	}
	return nil, refused
}

func isTemplate(k metadata.Kind) bool {
	return k == metadata.LegacyTemplate || k == metadata.ComponentTemplate || k == metadata.IndexTemplate
}

func request(ctx context.Context, c rest.API, method string, o metadata.Global, body json.RawMessage) error {
	place := places[o.Kind]
	path, query := place.path+url.PathEscape(o.Name), url.Values{}
	if method == http.MethodPut && place.create {
		query.Set("create", "true")
	}
	return rest.Call(ctx, c, method, path, query, body, nil)
}

// isThere reports whether the target rejected an object because it already exists. All versions answer 400 with
// this message for templates, and 409 for policies.
func isThere(err error) bool {
	var status *fault.StatusError
	return errors.As(err, &status) && (status.Status == http.StatusConflict ||
		status.Status == http.StatusBadRequest && strings.HasSuffix(status.Reason, "already exists"))
}

// leftOut returns the reason why a rejected object is left out without stopping the migration, or "".
func leftOut(o metadata.Global, err error) string {
	var status *fault.StatusError
	if !errors.As(err, &status) || !errors.Is(err, fault.ErrRejected) || isThere(err) {
		return ""
	}
	switch {
	case (o.Kind == metadata.Policy || o.Kind == metadata.StatePolicy) && (strings.Contains(status.Reason, "no handler found") || status.Status == http.StatusMethodNotAllowed):
		return "the target has no ISM"
	case !isTemplate(o.Kind):
		return "the target refuses it: " + status.Reason
	case strings.Contains(status.Reason, "same priority"):
		return "a template of the target has the same priority and patterns in common: " + status.Reason
	}
	return ""
}
