package configtest

import (
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/rfsd/rfsd/cmd/config"
)

// withoutJSON are the commands that print scripts for a shell.
var withoutJSON = map[string]bool{"rfsd completion": true, "rfsctl completion": true}

// TestOutput compares the commands that have --output with results, which holds a value of what each prints as JSON, nil for a command
// without data. It reads the names of all members: they are in snake_case, and no duration is a number of nanoseconds.
func (p Program) TestOutput(t *testing.T, results map[string]any) {
	each(p.App(), func(path string, c *cli.Command) {
		_, has := config.Find(config.Honours(c), "output")
		if has == withoutJSON[path] {
			t.Errorf("%s takes --output: %t", path, has)
		}
		v, known := results[path]
		if known != has {
			t.Errorf("%s has --output: %t, and a result: %t", path, has, known)
		}
		delete(results, path)
		if v != nil {
			members(t, path, reflect.TypeOf(v), map[reflect.Type]bool{})
		}
	})
	for path := range results {
		t.Errorf("%s is no command", path)
	}
}

// memberName is the form of the names of members.
var memberName = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// timeName matches names of members that are times, or durations in another unit than seconds.
var timeName = regexp.MustCompile(`(^|_)(at|time|until|started|arrived|finished|ordered|blocked|seen)$|_(ms|millis)$`)

// members checks the members of a type, as encoding/json writes them.
func members(t *testing.T, at string, of reflect.Type, seen map[reflect.Type]bool) {
	t.Helper()
	if seen[of] {
		return
	}
	seen[of] = true
	switch of.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array, reflect.Map:
		members(t, at, of.Elem(), seen)
	case reflect.Struct:
		if of == reflect.TypeFor[time.Time]() {
			return
		}
		for i := range of.NumField() {
			f := of.Field(i)
			name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "-" || !f.IsExported() && !f.Anonymous:
				continue
			case f.Anonymous && name == "":
			case !memberName.MatchString(name):
				t.Errorf("%s: the member %q (%s of %s) is not in snake_case", at, name, f.Name, of)
			case f.Type == reflect.TypeFor[time.Duration]():
				t.Errorf("%s: the member %q is a number of nanoseconds", at, name)
			case timeName.MatchString(name) && f.Type.Kind() == reflect.Int64:
				t.Errorf("%s: the member %q (%s of %s) is a number, and no time or duration in seconds", at, name, f.Name, of)
			}
			if !strings.Contains(options, "string") {
				members(t, at+"."+name, f.Type, seen)
			}
		}
	}
}
