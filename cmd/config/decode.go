package config

import (
	"encoding"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/rfs/base/secret"
	"github.com/rfsd/rfsd/rfs/source/repo"
)

// textValue is a type of a setting that reads one text.
type textValue interface{ parse(text string) error }

// listValue is a type of a setting that reads any number of texts.
type listValue interface{ parseAll(texts []string) error }

// checked is a group or a command whose settings depend on each other.
type checked interface{ Check() error }

var (
	listType     = reflect.TypeFor[listValue]()
	durationType = reflect.TypeFor[time.Duration]()
)

func kindOf(t reflect.Type) Kind {
	switch {
	case reflect.PointerTo(t).Implements(listType), t == reflect.TypeFor[[]string]():
		return List
	case t.Kind() == reflect.Bool:
		return Bool
	case t == reflect.TypeFor[int](), t == reflect.TypeFor[int64]():
		return Number
	}
	return Text
}

// Usage returns an error of the category fault.ErrConfig.
func Usage(format string, args ...any) error {
	return fmt.Errorf(format+": %w", append(args, fault.ErrConfig)...)
}

// Decode sets the settings of a command's struct: given values, else defaults. Then groups check what depends on each other,
// inner ones first. Errors are fault.ErrConfig and name the flag.
func Decode(values Values, into any) error {
	v := reflect.ValueOf(into).Elem()
	for _, s := range Settings(into) {
		texts, ok := values[s.Name]
		if !ok && s.Default != "" {
			texts, ok = []string{s.Default}, true
		}
		if !ok {
			continue
		}
		if err := s.set(v.FieldByIndex(s.index), texts); err != nil {
			return err
		}
		if err := s.readable(texts); err != nil {
			return err
		}
	}
	return check(v, "")
}

// readable refuses a file that cannot be opened.
func (s Setting) readable(texts []string) error {
	if s.check != "file" || texts[0] == "" {
		return nil
	}
	f, err := os.Open(texts[0])
	if err != nil {
		return s.invalid(texts[0], err)
	}
	return f.Close()
}

func check(v reflect.Value, prefix string) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if _, isSetting := f.Tag.Lookup("flag"); !isSetting && f.IsExported() && f.Name != "_" && f.Type.Kind() == reflect.Struct {
			if err := check(v.Field(i), prefix+f.Tag.Get("prefix")); err != nil {
				return err
			}
		}
	}
	switch c := v.Addr().Interface().(type) {
	case checked:
		return c.Check()
	case *Cluster:
		return c.checkAs(prefix)
	}
	return nil
}

// Valid returns an error if texts are not valid values of the setting.
func (s Setting) Valid(texts []string) error { return s.set(reflect.New(s.field).Elem(), texts) }

// set reads texts into a field.
func (s Setting) set(field reflect.Value, texts []string) error {
	if s.Kind != List && len(texts) != 1 {
		return Usage("invalid --%s: want one value, not %d", s.Name, len(texts))
	}
	for _, text := range texts {
		if err := s.look(text); err != nil {
			return s.invalid(text, err)
		}
	}
	if err := s.parse(field, texts); err != nil {
		return s.invalid(strings.Join(texts, ","), err)
	}
	if n, ok := number(field); ok && !s.within(n) {
		return s.invalid(texts[0], nil)
	}
	return nil
}

// invalid returns the error about a value. A secret is not shown, nor the library's message about it.
func (s Setting) invalid(text string, err error) error {
	shown := fmt.Sprintf(" %q", secret.Shown(s.Name, text))
	if s.Secret {
		shown, err = "", nil
	}
	want := s.Wants()
	switch {
	case s.want == "" && err != nil && !errors.Is(err, errSyntax):
		if errors.Is(err, fault.ErrConfig) {
			return fmt.Errorf("invalid --%s%s: %w", s.Name, shown, err)
		}
		return Usage("invalid --%s%s: %w", s.Name, shown, err)
	default:
		return Usage("invalid --%s%s: want %s", s.Name, shown, want)
	}
}

// errSyntax means that a value does not have the form of the setting. The message describes the expected form.
var errSyntax = errors.New("another form")

func (s Setting) parse(field reflect.Value, texts []string) error {
	if to, ok := field.Addr().Interface().(listValue); ok {
		return to.parseAll(texts)
	}
	if s.Kind == List {
		field.Set(reflect.ValueOf(texts))
		return nil
	}
	text := texts[0]
	if to, ok := field.Addr().Interface().(textValue); ok {
		return to.parse(text)
	}
	if to, ok := field.Addr().Interface().(encoding.TextUnmarshaler); ok {
		if to.UnmarshalText([]byte(text)) != nil {
			return errSyntax
		}
		return nil
	}
	switch {
	case field.Type() == durationType:
		d, err := ParseDuration(text)
		field.SetInt(int64(d))
		if err != nil {
			return errSyntax
		}
	case field.Kind() == reflect.Bool:
		b, err := strconv.ParseBool(text)
		field.SetBool(b)
		if err != nil {
			return errSyntax
		}
	case field.CanInt():
		n, err := strconv.ParseInt(text, 10, 64)
		field.SetInt(n)
		if err != nil {
			return errSyntax
		}
	default:
		field.SetString(s.canonical(text))
	}
	return nil
}

// canonical returns the alternative that equals text, ignoring case, or text; "" for the name of the empty value.
func (s Setting) canonical(text string) string {
	if text == s.empty {
		return ""
	}
	for _, one := range s.alternatives() {
		if strings.EqualFold(one, text) {
			return one
		}
	}
	return text
}

func (s Setting) alternatives() []string {
	if s.oneOf == "" {
		return nil
	}
	return strings.Split(s.oneOf, ",")
}

// number returns the value of a field that has an order.
func number(field reflect.Value) (int64, bool) {
	if field.CanInt() {
		return field.Int(), true
	}
	return 0, false
}

// within compares a number with the bounds, which are written as values of the setting are.
func (s Setting) within(n int64) bool {
	bound := func(text string) int64 {
		field := reflect.New(s.field).Elem()
		if err := s.parse(field, []string{text}); err != nil {
			panic(fmt.Sprintf("the bound %s of --%s: %v", text, s.Name, err))
		}
		return field.Int()
	}
	return (s.min == "" || n >= bound(s.min)) && (s.max == "" || n <= bound(s.max))
}

var (
	nameForm    = regexp.MustCompile(`^[a-z0-9-]+$`)
	versionForm = regexp.MustCompile(`^\d{1,3}\.\d{1,3}(\.\d{1,3})?$`)
	fieldForm   = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)
	rateForm    = regexp.MustCompile(`^[1-9][0-9]{0,8}(b|kb|mb|gb)$`)
)

// look checks the form of one text; an empty one is not given.
func (s Setting) look(text string) error {
	if s.oneOf != "" && !slices.Contains(s.alternatives(), s.canonical(text)) {
		return errSyntax
	}
	if text == "" {
		return nil
	}
	good := true
	switch s.check {
	case "name":
		good = len(text) <= 64 && nameForm.MatchString(text)
	case "field":
		good = len(text) <= 128 && fieldForm.MatchString(text)
	case "version":
		good = versionForm.MatchString(text)
	case "byterate":
		good = rateForm.MatchString(text)
	case "url":
		u, err := url.Parse(text)
		good = err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
	case "address":
		_, port, err := net.SplitHostPort(text)
		n, perr := strconv.ParseUint(port, 10, 16)
		good = err == nil && perr == nil && n <= 65535
	case "remote", "place", "repository":
		if name, uri, ok := strings.Cut(text, "="); ok && s.check == "remote" && !strings.Contains(name, "/") {
			text = uri
		}
		scheme, rest, ok := strings.Cut(text, "://")
		good = !ok || scheme == "file" && strings.HasPrefix(rest, "/") || s.check == "repository" && (scheme == "http" || scheme == "https") && rest != "" || repo.IsBucket(text) && rest != "" && !strings.HasPrefix(rest, "/")
	}
	if !good {
		return errSyntax
	}
	return nil
}

// forms describe the values that the checks of a text accept.
var forms = map[string]string{
	"field": "a letter, then a–z, A–Z, 0–9, _ and -", "name": "a–z, 0–9 and -, at most 64 characters", "version": "a version of OpenSearch such as 2.19 or 3.8.0", "byterate": "a size such as 40mb",
	"url": "a URL such as https://localhost:9200", "address": "HOST:PORT", "place": "a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, or azblob://container/prefix", "repository": "a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, azblob://container/prefix, or https://host/path", "remote": "a path, file:///path, s3://bucket/prefix, gs://bucket/prefix, or azblob://container/prefix, also NAME=URI", "file": "a file that can be read",
}

// Wants returns what the setting takes.
func (s Setting) Wants() string {
	bounds := s.bounds()
	switch {
	case s.want != "":
		return s.want
	case s.oneOf != "":
		return alternatives(s.alternatives())
	case forms[s.check] != "":
		return forms[s.check]
	case s.field == durationType:
		return strings.TrimSpace("a duration such as 10m or PT10M" + comma(bounds))
	case s.Kind == Text && s.field.Kind() == reflect.Int64:
		return "a size with its unit, such as 5MiB or 5MB" + comma(bounds)
	case s.Kind == Number:
		return "a whole number" + comma(bounds)
	case s.Kind == Bool:
		return "true or false"
	}
	return "a text"
}

func comma(bounds string) string {
	if bounds == "" {
		return ""
	}
	return ", " + bounds
}

// bounds returns the interval of a number, "" for none.
func (s Setting) bounds() string {
	switch {
	case s.min != "" && s.max != "":
		return "from " + s.min + " to " + s.max
	case s.min != "":
		return s.min + " or more"
	case s.max != "":
		return "at most " + s.max
	}
	return ""
}

func alternatives(all []string) string {
	if len(all) == 1 {
		return all[0]
	}
	return strings.Join(all[:len(all)-1], ", ") + " or " + all[len(all)-1]
}
