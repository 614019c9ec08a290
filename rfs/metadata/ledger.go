package metadata

import (
	"context"
	"encoding/json"
	"net/url"
	"strconv"
	"strings"
)

// Ledger records what is created: before the request that creates an object, and after its answer.
type Ledger interface {
	// Intend records an object that is not there and is going to be created; sent is the body of the request.
	Intend(ctx context.Context, kind, name string, sent json.RawMessage) error
	// Confirm records an object whose creation the target has just acknowledged.
	Confirm(ctx context.Context, kind, name string) error
	// Decide completes what Intend recorded of an object that the target has, and whose creation was not acknowledged.
	Decide(ctx context.Context, kind, name string) error
	// Withdraw takes back what Intend recorded: the target refused the object.
	Withdraw(ctx context.Context, kind, name string) error
}

type unrecorded struct{}

func (unrecorded) Intend(context.Context, string, string, json.RawMessage) error { return nil }
func (unrecorded) Confirm(context.Context, string, string) error                 { return nil }
func (unrecorded) Decide(context.Context, string, string) error                  { return nil }
func (unrecorded) Withdraw(context.Context, string, string) error                { return nil }

// ObjectPath returns the path of an object that belongs to no index, "" for another kind.
func ObjectPath(kind Kind, name string) string {
	place, ok := places[kind]
	if !ok {
		return ""
	}
	return place.path + url.PathEscape(name)
}

// SameObject reports whether an object of the target has everything that was sent to create it. Settings may be nested or
// flat, and values text or not.
func SameObject(sent, object []byte) bool {
	want, err := decode(sent)
	if err != nil || len(want) == 0 {
		return false
	}
	have, err := decode(object)
	if err != nil {
		return false
	}
	is := leaves(have)
	for path, v := range leaves(want) {
		if is[path] != v {
			return false
		}
	}
	return true
}

// leaves returns the values of an object by path. Settings of indices have their full names.
func leaves(m map[string]any) map[string]string {
	out := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case nil:
		case map[string]any:
			settings := path == "settings." || path == "template.settings."
			if settings {
				for k, x := range indexSettings(v) {
					out[path+k] = x
				}
				return
			}
			for k, x := range v {
				walk(path+k+".", x)
			}
		case []any:
			for i, x := range v {
				walk(path+strconv.Itoa(i)+".", x)
			}
		default:
			out[strings.TrimSuffix(path, ".")] = plain(v)
		}
	}
	walk("", m)
	return out
}
