package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
)

// upgraded is an index of an upgrade. Each version of the chain adds documents to it and deletes some that the previous version added.
type upgraded struct {
	name, settings, properties string
	children                   bool // a type of children with _parent, for versions before 6
	// document returns the source of a document and additional members of its action line; wave is the index of the version.
	document func(wave, n int) (source string, meta []string)
}

// upgradedIndices returns the indices of a chain: plain, with nested objects, with routings, and with parents and children.
func upgradedIndices(u upgradeSteps) []upgraded {
	key := `"routing":`
	if u.versions[0] < "6" {
		key = `"_routing":`
	}
	all := []upgraded{
		{"kept", `"number_of_shards":1`, plain, false, func(wave, n int) (string, []string) { return note(wave*100 + n), nil }},
		{"nested", `"number_of_shards":1`, `"n":{"type":"long"},"parts":{"type":"nested","properties":{"q":{"type":"long"},"deep":{"type":"nested","properties":{"v":{"type":"long"}}}}}`, false,
			func(wave, n int) (string, []string) {
				return fmt.Sprintf(`{"n":%d,"parts":[{"q":%d,"deep":[{"v":1},{"v":%d}]},{"q":2}]}`, wave*100+n, n, n%7), nil
			}},
		{"routed", `"number_of_shards":3`, plain, false, func(wave, n int) (string, []string) {
			return note(wave*100 + n), []string{key + quote(strconv.Itoa(n%5))}
		}},
	}
	// Every fifth document is a parent of the four that follow it.
	parent := func(wave, n int) string { return fmt.Sprintf("%d-%d", wave, n-n%5) }
	switch {
	case u.join:
		settings := `"number_of_shards":3`
		if u.versions[0] == "5.6.16" { // which has join fields only in indices of a single type
			settings += `,"mapping.single_type":true`
		}
		all = append(all, upgraded{"related", settings, `"n":{"type":"long"},"relation":{"type":"join","relations":{"parent":"child"}}`, false, func(wave, n int) (string, []string) {
			meta := []string{key + quote(parent(wave, n))}
			if n%5 == 0 {
				return fmt.Sprintf(`{"n":%d,"relation":"parent"}`, n), meta
			}
			return fmt.Sprintf(`{"n":%d,"relation":{"name":"child","parent":%s}}`, n, quote(parent(wave, n))), meta
		}})
	case u.versions[0] < "6":
		all = append(all, upgraded{"related", `"number_of_shards":3`, `"n":{"type":"long"}`, true, func(wave, n int) (string, []string) {
			if n%5 == 0 {
				return fmt.Sprintf(`{"n":%d}`, n), nil
			}
			return fmt.Sprintf(`{"n":%d}`, n), []string{`"_type":"child"`, `"_parent":` + quote(parent(wave, n))}
		}})
	}
	return all
}

// inPlace creates indices on the first version and continues to write to them on the later ones.
func (l *lab) inPlace(ctx context.Context, u upgradeSteps) error {
	for wave, v := range u.versions {
		if err := l.boot(ctx, v); err != nil {
			return err
		}
		for _, x := range upgradedIndices(u) {
			if err := l.wave(ctx, x, wave); err != nil {
				return fmt.Errorf("%s on %s: %w", x.name, v, err)
			}
		}
		if wave == len(u.versions)-1 {
			break
		}
		if err := l.park(ctx); err != nil {
			return err
		}
	}
	if err := l.register(ctx, nil); err != nil {
		return err
	}
	return l.take(ctx, "snap1", "")
}

// wave writes the documents of one version to an index; the first version creates it.
func (l *lab) wave(ctx context.Context, x upgraded, wave int) error {
	switch {
	case wave > 0:
		if err := l.put(ctx, http.MethodGet, "/"+x.name, nil); err != nil {
			return fmt.Errorf("the index did not survive the upgrade: %w", err)
		}
	case x.children:
		types := fmt.Sprintf(`{%q:{"properties":{%s}},"child":{"_parent":{"type":%q},"properties":{%s}}}`, typeName, x.properties, typeName, x.properties)
		if err := l.put(ctx, http.MethodPut, "/"+x.name, fmt.Sprintf(`{"settings":{"number_of_replicas":0,%s},"mappings":%s}`, x.settings, types)); err != nil {
			return err
		}
	default:
		if err := l.create(ctx, x.name, x.settings, x.properties); err != nil {
			return err
		}
	}
	var b body
	for n := range 50 {
		source, meta := x.document(wave, n)
		b.index(fmt.Sprintf("%d-%d", wave, n), source, meta...)
	}
	for n := range 10 * wave {
		_, meta := x.document(wave-1, n*3)
		b.remove(fmt.Sprintf("%d-%d", wave-1, n*3), meta...)
	}
	return l.load(ctx, x.name, &b)
}
