package dashboards

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"mime/multipart"
	"net/http"
	"net/textproto"
	"slices"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/retry"
)

// answer is the response to an import.
type answer struct {
	Results []Object `json:"successResults"`
	Errors  []struct {
		Object
		Error refusal `json:"error"`
	} `json:"errors"`
}

// refusal is the error of one object.
type refusal struct {
	Type       string   `json:"type"`
	Message    string   `json:"message"`
	References []Object `json:"references"`
}

// The types of errors of objects.
const (
	conflict          = "conflict"
	ambiguousConflict = "ambiguous_conflict"
	missingReferences = "missing_references"
	unsupportedType   = "unsupported_type"
	unknown           = "unknown"
)

// text returns the reason for a user.
func (r refusal) text() string {
	switch {
	case r.Type == missingReferences:
		return missing(r.References)
	case r.Type == unsupportedType:
		return "OpenSearch Dashboards has no such type"
	case r.Type == ambiguousConflict:
		return "several objects of OpenSearch Dashboards come from the same object"
	case r.Message != "":
		return r.Message
	}
	return r.Type
}

// dividing are statuses of a whole request that one of its objects may cause: a body that is too large, an object twice, a version from the
// future, a migration that fails. Nothing was created.
var dividing = []int{http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusInternalServerError}

// send imports objects. Without the objects that exist or lack references it repeats the request: in their presence OpenSearch Dashboards
// creates none of the others, although its answer counts them as successes. A refused request is divided until its cause is one object.
func (x *importing) send(ctx context.Context, all []object) error {
	for len(all) > 0 {
		a, err := x.post(ctx, all)
		if fault.HasStatus(err, dividing...) {
			if len(all) == 1 {
				x.refuse(all[0].Object, reasonOf(err))
				return nil
			}
			half := len(all) / 2
			if err := x.send(ctx, all[:half]); err != nil {
				return err
			}
			return x.send(ctx, all[half:])
		}
		if err == nil {
			all, err = x.settle(all, a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reasonOf returns the message of an unsuccessful answer.
func reasonOf(err error) string {
	var e *fault.StatusError
	if errors.As(err, &e) && e.Reason != "" {
		return fmt.Sprintf("status %d: %s", e.Status, e.Reason)
	}
	return fault.Text(err)
}

// settle records the outcome of objects, and returns objects to send again.
func (x *importing) settle(all []object, a answer) (again []object, err error) {
	refused, created := map[string]refusal{}, true
	for _, e := range a.Errors {
		if e.Error.Type != unsupportedType && e.Error.Type != unknown {
			created = false
		}
		refused[e.key()] = e.Error // the last one of an object: a conflict comes after missing references
	}
	accepted := map[string]bool{}
	for _, o := range a.Results {
		accepted[o.key()] = true
	}
	i := slices.IndexFunc(all, func(o object) bool { _, is := refused[o.key()]; return !is && !accepted[o.key()] })
	if i >= 0 {
		return nil, fmt.Errorf("the response to an import of %d objects does not name %s; OpenSearch Dashboards since 1.0 is supported: %w", len(all), all[i].Object, fault.ErrUnsupported)
	}
	for _, o := range all {
		r, is := refused[o.key()]
		switch {
		case is && r.Type == conflict:
			x.Existing = append(x.Existing, o.Object)
		case is:
			x.refuse(o.Object, r.text())
		case created:
			x.Imported = append(x.Imported, o.Object)
		default:
			again = append(again, o)
		}
	}
	if len(again) == len(all) {
		return nil, fmt.Errorf("the response to an import refuses objects that were not sent: %w", fault.ErrUnsupported)
	}
	return again, nil
}

// post sends an import, without overwriting.
func (x *importing) post(ctx context.Context, all []object) (a answer, err error) {
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	part, err := form.CreatePart(textproto.MIMEHeader{
		"Content-Disposition": {`form-data; name="file"; filename="saved-objects.ndjson"`}, "Content-Type": {"application/ndjson"},
	})
	if err != nil {
		return a, err
	}
	for _, o := range all {
		if _, err := part.Write(o.line); err != nil {
			return a, err
		}
	}
	if err := form.Close(); err != nil {
		return a, err
	}
	const path = "/api/saved_objects/_import"
	err = x.call(ctx, http.MethodPost+" "+path, &a, func(ctx context.Context) (int, []byte, error) {
		return x.api.Post(ctx, path, form.FormDataContentType(), body.Bytes())
	})
	return a, err
}

// call decodes the response to a request into out. It repeats the request while no response arrives; an import that arrived unnoticed makes
// its objects exist. A status of 500 is not repeated, because a single object may cause it.
func (x *importing) call(ctx context.Context, name string, out any, send func(context.Context) (int, []byte, error)) error {
	policy := retry.Policy{Tries: 4, First: 2 * time.Second, Max: 8 * time.Second, Sleep: x.Pause, Passes: func(err error) bool {
		return errors.Is(err, fault.ErrUnavailable) && !fault.HasStatus(err, http.StatusInternalServerError)
	}}
	return policy.Do(ctx, func(ctx context.Context) error {
		status, answer, err := send(ctx)
		if err != nil {
			return err
		}
		err = fault.Decode(name, status, answer, out)
		var e *fault.StatusError
		if errors.As(err, &e) {
			var body struct{ Message string } // OpenSearch has it elsewhere
			if json.Unmarshal(answer, &body) == nil && body.Message != "" {
				e.Reason = body.Message
			}
			switch status {
			case http.StatusUnauthorized:
				e.Remedy = x.api.Refused()
			case http.StatusNotFound:
				e.Remedy = "the address is not the one of OpenSearch Dashboards; check --dashboards-host, also its path, such as /_dashboards"
			}
		}
		return err
	})
}

// expect records what an import of objects would do: it asks for them and for the objects that they refer to.
func (x *importing) expect(ctx context.Context, all []object) error {
	var ask []Object
	for _, o := range all {
		ask = append(ask, o.Object)
		for _, r := range o.needs {
			if !x.known[r.key()] {
				ask = append(ask, r)
			}
		}
	}
	there, refused, err := x.find(ctx, ask)
	if err != nil {
		return err
	}
	for key := range there {
		x.known[key] = true
	}
	for _, o := range all {
		lacks := slices.DeleteFunc(slices.Clone(o.needs), func(r Object) bool { return x.known[r.key()] })
		switch reason := refused[o.key()]; {
		case there[o.key()]:
			x.Existing = append(x.Existing, o.Object)
		case reason != "":
			x.refuse(o.Object, reason)
		case len(lacks) > 0:
			x.refuse(o.Object, missing(lacks))
		default:
			x.known[o.key()] = true
			x.Imported = append(x.Imported, o.Object)
		}
	}
	return nil
}

// find returns the objects that exist, and the reasons of OpenSearch Dashboards for not looking for others.
func (x *importing) find(ctx context.Context, all []Object) (there map[string]bool, refused map[string]string, err error) {
	there, refused = map[string]bool{}, map[string]string{}
	type asked struct {
		Type   string   `json:"type"`
		ID     string   `json:"id"`
		Fields []string `json:"fields"`
	}
	for part := range slices.Chunk(all, maxObjects) {
		var ask []asked
		for _, o := range part {
			ask = append(ask, asked{o.Type, o.ID, []string{"title"}})
		}
		body, err := json.Marshal(ask)
		if err != nil {
			return nil, nil, err
		}
		var answer struct {
			Objects []struct {
				Object
				Error *struct {
					StatusCode int
					Message    string
				}
			} `json:"saved_objects"`
		}
		const path = "/api/saved_objects/_bulk_get"
		err = x.call(ctx, http.MethodPost+" "+path, &answer, func(ctx context.Context) (int, []byte, error) {
			return x.api.Do(ctx, http.MethodPost, path, nil, body)
		})
		if err != nil {
			return nil, nil, err
		}
		if len(answer.Objects) != len(part) {
			return nil, nil, fmt.Errorf("the response names %d of %d objects: %w", len(answer.Objects), len(part), fault.ErrUnsupported)
		}
		for _, o := range answer.Objects {
			switch {
			case o.Error == nil:
				there[o.key()] = true
			case o.Error.StatusCode != http.StatusNotFound:
				refused[o.key()] = o.Error.Message
			}
		}
	}
	return there, refused, nil
}
