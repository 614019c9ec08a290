package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
)

// conditionEntry is the TOML form of a condition: on a field, or on other conditions.
type conditionEntry struct {
	Field  string  `toml:"field"`
	Equals any     `toml:"equals"`
	In     []any   `toml:"in"`
	Exists *bool   `toml:"exists"`
	Prefix *string `toml:"prefix"`
	GT     any     `toml:"gt"`
	GTE    any     `toml:"gte"`
	LT     any     `toml:"lt"`
	LTE    any     `toml:"lte"`

	All []conditionEntry `toml:"all"`
	Any []conditionEntry `toml:"any"`
	Not *conditionEntry  `toml:"not"`
}

// condition is a checked condition. If a field is a list, one of its values must match.
type condition struct {
	field  string
	in     []any
	exists *bool
	prefix *string
	bounds []bound

	all, any []condition
	not      *condition
}

// bound is one end of a range: compare(value, to) must be in ok.
type bound struct {
	to any
	ok func(order int) bool
}

func newCondition(e conditionEntry) (condition, error) {
	c := condition{field: e.Field, in: e.In, exists: e.Exists, prefix: e.Prefix}
	if e.Equals != nil {
		c.in = append(c.in, e.Equals)
	}
	for _, b := range []struct {
		to any
		ok func(int) bool
	}{
		{e.GT, func(o int) bool { return o > 0 }}, {e.GTE, func(o int) bool { return o >= 0 }},
		{e.LT, func(o int) bool { return o < 0 }}, {e.LTE, func(o int) bool { return o <= 0 }},
	} {
		if b.to != nil {
			c.bounds = append(c.bounds, b)
		}
	}
	about := 0
	for _, is := range []bool{e.Equals != nil, e.In != nil, e.Exists != nil, e.Prefix != nil, len(c.bounds) > 0} {
		if is {
			about++
		}
	}
	groups := 0
	for _, is := range []bool{e.All != nil, e.Any != nil, e.Not != nil} {
		if is {
			groups++
		}
	}
	switch {
	case e.Field != "" && (about != 1 || groups > 0):
		return c, fmt.Errorf("field %s: one of equals, in, exists, prefix, and gt, gte, lt, lte is needed", e.Field)
	case e.Field == "" && (groups != 1 || about > 0):
		return c, errors.New("a condition is about a field, or one of all, any and not")
	}
	for _, v := range append(append([]any{}, c.in...), boundsOf(c.bounds)...) {
		switch v := v.(type) {
		case string, int64, bool:
		case float64:
			if math.IsNaN(v) {
				return c, fmt.Errorf("field %s: %v is in no order and equals nothing", e.Field, v)
			}
		default:
			return c, fmt.Errorf("field %s: %v is not text, a number or a truth value (write dates as text)", e.Field, v)
		}
	}
	var err error
	if c.all, err = newConditions(e.All); err != nil {
		return c, err
	}
	if c.any, err = newConditions(e.Any); err != nil {
		return c, err
	}
	if e.Not != nil {
		not, err := newCondition(*e.Not)
		c.not = &not
		return c, err
	}
	return c, nil
}

func boundsOf(all []bound) []any {
	var out []any
	for _, b := range all {
		out = append(out, b.to)
	}
	return out
}

func newConditions(entries []conditionEntry) ([]condition, error) {
	if entries != nil && len(entries) == 0 {
		return nil, errors.New("all and any need conditions")
	}
	var out []condition
	for _, e := range entries {
		c, err := newCondition(e)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// holds reports whether a document satisfies the condition.
func (c *condition) holds(f *finder, source []byte) (bool, error) {
	switch {
	case c.not != nil:
		ok, err := c.not.holds(f, source)
		return !ok && err == nil, err
	case c.all != nil:
		for i := range c.all {
			if ok, err := c.all[i].holds(f, source); !ok || err != nil {
				return false, err
			}
		}
		return true, nil
	case c.any != nil:
		for i := range c.any {
			if ok, err := c.any[i].holds(f, source); ok || err != nil {
				return ok && err == nil, err
			}
		}
		return false, nil
	}
	if err := f.find(source, c.field); err != nil {
		return false, err
	}
	found := false
	for _, h := range f.hits {
		ok, err := c.anyValue(source[h.val:h.end])
		if err != nil {
			return false, err
		}
		found = found || ok
	}
	if c.exists != nil {
		return found == *c.exists, nil
	}
	return found, nil
}

// anyValue reports whether a value matches, or an element of a list, at any depth.
func (c *condition) anyValue(raw []byte) (bool, error) {
	if len(raw) == 0 || raw[0] != '[' {
		return c.value(raw), nil
	}
	return c.element(&finder{b: raw}, 0)
}

// element reports whether the value at f's position, or an element of it, matches. If not, it moves past the value.
func (c *condition) element(f *finder, depth int) (bool, error) {
	if f.space() != '[' {
		start := f.i
		err := f.value("", depth)
		return err == nil && c.value(f.b[start:f.i]), err
	}
	if depth > deepest {
		return false, f.wrong("nested too deeply")
	}
	f.i++
	if f.space() == ']' {
		f.i++
		return false, nil
	}
	for {
		if ok, err := c.element(f, depth+1); ok || err != nil {
			return ok, err
		}
		switch f.space() {
		case ',':
			f.i++
		case ']':
			f.i++
			return false, nil
		default:
			return false, f.wrong("no comma or ]")
		}
	}
}

// value reports whether a single value matches; null never does.
func (c *condition) value(raw []byte) bool {
	if len(raw) == 0 || string(raw) == "null" {
		return false
	}
	switch {
	case c.exists != nil:
		return true
	case c.prefix != nil:
		s, ok := unquote(raw)
		return ok && len(s) >= len(*c.prefix) && string(s[:len(*c.prefix)]) == *c.prefix
	case len(c.bounds) > 0:
		for _, b := range c.bounds {
			if order, ok := compare(raw, b.to); !ok || !b.ok(order) {
				return false
			}
		}
		return true
	}
	for _, want := range c.in {
		if order, ok := compare(raw, want); ok && order == 0 {
			return true
		}
	}
	return false
}

// compare compares a value of a document with a value of a rule; ok is false if their types differ.
func compare(raw []byte, with any) (order int, ok bool) {
	switch with := with.(type) {
	case string:
		s, ok := unquote(raw)
		return compareText(s, with), ok
	case bool:
		is := string(raw) == "true"
		if !is && string(raw) != "false" {
			return 0, false
		}
		if is == with {
			return 0, true
		}
		return 1, true
	case int64:
		if !isNumber(raw) {
			return 0, false
		}
		if n, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return cmp.Compare(n, with), true
		}
		f, ok := number(raw)
		return cmp.Compare(f, float64(with)), ok
	case float64:
		f, ok := number(raw)
		return cmp.Compare(f, with), ok
	}
	return 0, false
}

func isNumber(raw []byte) bool { return raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9' }

// number parses a JSON number; a number too large for a float64 is infinite.
func number(raw []byte) (float64, bool) {
	if !isNumber(raw) {
		return 0, false
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return f, err == nil || errors.Is(err, strconv.ErrRange)
}

func compareText(a []byte, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return cmp.Compare(len(a), len(b))
}

// unquote returns the text of a JSON string.
func unquote(raw []byte) ([]byte, bool) {
	if len(raw) < 2 || raw[0] != '"' {
		return nil, false
	}
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1], true
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, false
	}
	return []byte(s), true
}
