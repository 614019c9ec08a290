package rebuild

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/source/lucene"
)

// TestTrieOrder: names come layer by layer, those with the same hash as they were added.
func TestTrieOrder(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"one layer, by the low bits of the hash", "a b @", "@ a b"},            // 64, 97, 98: 0, 33, 34
		{"names that share their low bits come after others", "! a z", "z ! a"}, // 33, 97, 122
		{"the same hash", "Aa BB z", "z Aa BB"},
		{"nothing", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var nodes []*node
			for _, name := range strings.Fields(c.in) {
				nodes = append(nodes, &node{leaf: name, params: &params{}})
			}
			var got []string
			for _, n := range trieOrder(nodes) {
				got = append(got, n.leaf)
			}
			if s := strings.Join(got, " "); s != c.want {
				t.Errorf("%q is ordered as %q, want %q", c.in, s, c.want)
			}
		})
	}
}

// TestDerivedTypes names what cannot be rebuilt out of a derived source.
func TestDerivedTypes(t *testing.T) {
	const understood = `"a":{"type":"keyword"},"b":{"type":"text"},"c":{"type":"scaled_float","scaling_factor":10},
		"d":{"type":"constant_keyword","value":"x"},"e":{"type":"date","format":"epoch_second"},"f":{"type":"binary","store":true}`
	for _, c := range []struct{ name, mapping, want string }{
		{"all is understood", ``, ""},
		{"a keyword that leaves out long values", `,"x":{"type":"keyword","ignore_above":9}`, "x (keyword)"},
		{"a keyword that is normalized", `,"x":{"type":"keyword","normalizer":"lowercase"}`, "x (keyword)"},
		{"a field that is copied", `,"x":{"type":"text","copy_to":"y"}`, "x (text)"},
		{"a number without its factor", `,"x":{"type":"scaled_float"}`, "x (scaled_float)"},
		{"a moment in a format that is unknown", `,"x":{"type":"date","format":"EEE"}`, "x (date)"},
		{"text that is nowhere", `,"x":{"type":"match_only_text"}`, "x (match_only_text)"},
		{"a type of which nothing is known", `,"x":{"type":"holographic"}`, "x (holographic)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			all, err := StatesDerived(json.RawMessage(`{"properties":{` + understood + c.mapping + `}}`))
			var lost []string
			for _, f := range all {
				if f.State == Lost {
					lost = append(lost, f.Field+" ("+f.Type+")")
				}
			}
			if s := strings.Join(lost, ", "); s != c.want || err != nil || len(all) < 6 {
				t.Errorf("%q (%v), want %q", s, err, c.want)
			}
		})
	}
}

// TestStoredOfAnotherType: a stored value that the type cannot have is not written.
func TestStoredOfAnotherType(t *testing.T) {
	text := func(s string) lucene.StoredValue {
		return lucene.StoredValue{Kind: lucene.StoredString, Bytes: []byte(s)}
	}
	for name, render := range map[string]renderStored{
		"long": storedNumber(appendLong), "float": storedFloat, "digits": storedDigits, "boolean": storedBoolean, "point": storedGeo, "term": storedTerm(appendUTF8),
	} {
		for _, v := range []lucene.StoredValue{text("x"), text("-1"), text("1"), text("NaN,1"), text("1,Inf"), text("1,2,3"), text("true")} {
			if s := string(v.Bytes); name == "digits" && s == "1" {
				continue
			}
			if got := render([]byte("before"), v); string(got) != "before" {
				t.Errorf("%s: %q became %s", name, v.Bytes, got)
			}
		}
	}
	for name, render := range map[string]renderStored{"text": storedText8, "boolean": storedBoolean, "digits": storedDigits, "point": storedGeo} {
		if got := render(nil, lucene.StoredValue{Kind: lucene.StoredLong, Int: 1}); len(got) != 0 {
			t.Errorf("%s: a number became %s", name, got)
		}
	}
}

// TestDerivedRefusesObjects: objects that a derived index cannot have are no part of a source.
func TestDerivedRefusesObjects(t *testing.T) {
	for _, mapping := range []string{
		`{"properties":{"o":{"type":"nested"}}}`, `{"properties":{"o":{"type":"object","enabled":false}}}`, `{"enabled":false}`,
	} {
		r, err := NewDerived(json.RawMessage(mapping))
		if err != nil {
			t.Fatal(err)
		}
		got, err := derived{}.object(t.Context(), &segment{Rebuilder: r}, nil, r.root)
		if err == nil || !strings.Contains(err.Error(), "cannot be rebuilt") {
			t.Errorf("%s: %s, %v", mapping, got, err)
		}
	}
	if _, err := NewDerived(json.RawMessage(`{"properties":[]}`)); err == nil {
		t.Error("a mapping that is none was accepted")
	}
}
