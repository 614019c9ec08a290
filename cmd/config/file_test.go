package config

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/fault"
	"github.com/rfsd/rfsd/testing/fuzzing"
)

// few are the settings of a small file.
type few struct {
	Source struct {
		_    struct{} `section:"source"`
		URI  string   `flag:"repo-uri"`
		Path bool     `flag:"s3-path-style"`
	}
	Target struct {
		_        struct{} `section:"target"`
		Host     string   `flag:"target-host"`
		Password string   `flag:"target-password" secret:"yes"`
		File     string   `flag:"target-password-file"`
	}
	Work struct {
		_     struct{} `section:"work"`
		Slots int      `flag:"slots" max:"9"`
		First []string `flag:"first"`
		Rate  string   `flag:"max-rate"`
	}
}

var settings = Settings(few{})

func TestKeysOfAllKindsAreRead(t *testing.T) {
	got, err := Parse("f.toml", `
# a comment = not a key
[source]
repo-uri = "s3://bucket/prefix"
s3-path-style = true
[work]
slots = 4
first = ["users", "regex:a,b=c"]
max-rate = 12.5
`, settings)
	want := Values{"repo-uri": {"s3://bucket/prefix"}, "s3-path-style": {"true"}, "slots": {"4"}, "first": {"users", "regex:a,b=c"}, "max-rate": {"12.5"}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestWhatIsWrongIsNamedWithItsLine(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"unknown key", "[source]\n\nrepo-url = 'x'\n", "f.toml:3: [source] repo-url: unknown key; did you mean repo-uri?"},
		{"key of another section", "[source]\nslots = 1\n", "f.toml:2: [source] slots: it belongs in [work]"},
		{"key outside", "repo-uri = 'x'\n", "f.toml:1: repo-uri: a key outside of every section; it belongs in [source]"},
		{"unknown section", "\n[sauce]\nx = 1\n", "f.toml:2: [sauce]: unknown section; did you mean source?"},
		{"far from everything", "[source]\nzzzzzzzz = 1\n", "[source] zzzzzzzz: unknown key: configuration"},
		{"wrong kind", "[work]\nslots = 'four'\n", "f.toml:2: [work] slots: takes a whole number"},
		{"out of bounds", "[work]\nslots = 10\n", `f.toml:2: [work] slots: invalid --slots "10": want a whole number, at most 9`},
		{"list of numbers", "[work]\nfirst = [1]\n", "takes an array of strings"},
		{"twice", "[work]\nslots = 1\nslots = 2\n", "f.toml:3"},
		{"no TOML", "[work\n", "f.toml:"},
		{"secret", "[target]\ntarget-password = 'x'\n", "use target-password-file, or the variable RFS_TARGET_PASSWORD"},
		{"secret in a URL", "[target]\ntarget-host = 'https://me:pw@host:9200'\n", "f.toml:2: [target] target-host: a user, password or key"},
		{"secret behind a name", "[source]\nrepo-uri = 'x=https://me:pw@host'\n", "a user, password or key"},
		{"secret as a setting", "[source]\nrepo-uri = 'secret_key=pw'\n", "a user, password or key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("f.toml", c.text, settings)
			if !errors.Is(err, fault.ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v\nwant %s", err, c.want)
			}
			if strings.Contains(c.name, "secret in") && strings.Contains(err.Error(), "pw") {
				t.Errorf("the message shows the secret: %v", err)
			}
		})
	}
}

func TestWhatIsWrittenIsReadAgainWithoutSecrets(t *testing.T) {
	var b strings.Builder
	values := Values{"repo-uri": {`s3://b/"x"`}, "slots": {"3"}, "first": {"a", "b"}, "target-password": {"canary"}, "target-host": {"https://user:canary@host:9200/?key=canary"}}
	if err := Write(&b, settings, values); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(b.String(), "canary") {
		t.Errorf("a secret is shown:\n%s", b.String())
	}
	text := strings.Replace(b.String(), "%2A%2A%2A@", "", 1)
	got, err := Parse("f.toml", text, settings)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if got["repo-uri"][0] != `s3://b/"x"` || got["slots"][0] != "3" || len(got["first"]) != 2 {
		t.Errorf("%v\n%s", got, text)
	}
}

func TestAFileTooLargeOrAbsentIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "big.toml")
	if err := os.WriteFile(name, make([]byte, maxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{name, name + "-none"} {
		if _, err := Load(file, settings); !errors.Is(err, fault.ErrConfig) {
			t.Errorf("%s: %v", file, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add("[source]\nrepo-uri = 'x'\n[work]\nslots = 1\nfirst = ['a']\n")
	f.Add("a = 1\n[x]\n[[y]]\nb.c = '''\n'''")
	f.Fuzz(func(t *testing.T, text string) {
		defer fuzzing.Bounded(t, len(text))()
		values, err := Parse("f", text, settings)
		if err != nil && !errors.Is(err, fault.ErrConfig) {
			t.Errorf("error without a category: %v", err)
		}
		if err == nil {
			var b strings.Builder
			if err := Write(&b, settings, values); err != nil {
				t.Error(err)
			}
		}
	})
}
