package secret_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/rfsd/rfsd/rfs/base/secret"
)

func TestIn(t *testing.T) {
	for _, c := range []struct {
		option, value string
		want          bool
	}{
		{"target-host", "http://old:9200", false},
		{"target-host", "http://me:word@old:9200", true},
		{"target-host", "https://token@old:9200", true},
		{"target-host", "http://me:wo/rd@old:9200", true},
		{"target-host", "http://me:w@rd@old:9200", true},
		{"target-host", "http://[::1]:9200/a@b", false},
		{"target-host", "http://old:9200/a@b", false},
		{"repo-uri", "s3://bucket/prefix", false},
		{"repo-uri", "s3://AKIA:SECRET@bucket", true},
		{"repo-uri", "file:///mnt/x", false},
		{"remote-store-uri", "x=https://ru:word@h/p", true},
		{"remote-store-uri", "x=s3://bucket/p", false},
		{"source-repo-setting", "role_arn=arn:aws:iam::1:role/x", false},
		{"source-repo-setting", "secret_key=abc", true},
		{"source-repo-setting", "client.default.Session_Token=abc", true},
		{"source-repo-setting", "ACCESS_KEY=abc", true},
		{"source-repo-setting", "secret_key=", false},
		{"target-password", "x", true},
		{"target-password", "", false},
		{"index-rename", "tokens=old", false},
		{"index-rename", "^logs-(.*)$=old-$1", false},
		{"shards", "logs-*=3", false},
		{"join", "provider=aws tag_key=fleet tag_value=blue", false},
		{"rules-text", "[[rename-index]]\nmatch = \"token=x\"\n", false},
	} {
		if got := secret.In(c.option, c.value); got != c.want {
			t.Errorf("--%s %q: %t", c.option, c.value, got)
		}
	}
}

func TestText(t *testing.T) {
	for text, want := range map[string]string{
		`Get "http://me:word@old:9200/x?y=1": refused`:                 `Get "http://***@old:9200/x?y=1": refused`,
		`a s3://AKIA:SE/CR+ET@bucket b https://x:y@z`:                  `a s3://***@bucket b https://***@z`,
		`x=https://ru:w@h and y`:                                       `x=https://***@h and y`,
		`setting secret_key=abc, then`:                                 `setting secret_key=***, then`,
		`?X-Amz-Security-Token=abc&X-Amz-Signature=def&y=1`:            `?X-Amz-Security-Token=***&X-Amz-Signature=***&y=1`,
		`https://a/://b:c@d`:                                           `https://a/://***@d`,
		`index my_password_list has 3 documents, tag_key=fleet, a@b.c`: `index my_password_list has 3 documents, tag_key=fleet, a@b.c`,
		`{"u":"http://a:b@c","t":"token=q"}`:                           `{"u":"http://***@c","t":"token=***"}`,
		`nothing`:                                                      `nothing`,
		`://`:                                                          `://`,
	} {
		if got := secret.Text(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAddress(t *testing.T) {
	for text, want := range map[string]string{
		"https://hooks.example/T0/SECRET": "https://hooks.example/***", "https://hooks.example?k=SECRET": "https://hooks.example/***",
		"http://127.0.0.1:80": "http://127.0.0.1:80", "http://u:p@h": "http://h/***", "SECRET": "***", "http://a b": "***",
	} {
		if got := secret.Address(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestShown(t *testing.T) {
	for _, c := range []struct{ option, value, want string }{
		{"target-host", "https://u:p@h:9200/x?key=y", "https://***@h:9200/x?***"},
		{"target-host", "https://h:9200", "https://h:9200"},
		{"webhook", "https://hooks.example/T0/SECRET", "https://hooks.example/***"},
		{"target-password", "x", "***"},
		{"source-repo-setting", "secret_key=x", "secret_key=***"},
		{"index-rename", "tokens=old", "tokens=old"},
		{"index-allowlist", "logs-?", "logs-?"},
	} {
		if got := secret.Shown(c.option, c.value); got != c.want {
			t.Errorf("--%s %q: %q, want %q", c.option, c.value, got, c.want)
		}
	}
}

func TestArguments(t *testing.T) {
	got := secret.Arguments([]string{"rfsd", "run", "--target-host", "http://u:p@h", "--source-repo-setting=secret_key=x", "-target-password", "x", "--repo-uri", "/x",
		"--coordinator-password=x", "--target-host=http://u:p@h", "--webhook-file", "x", "--", "--x-password", "y"})
	if want := []string{"target-host", "source-repo-setting", "target-password", "coordinator-password"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// FuzzText: masked text contains no secret, and text without secrets is unchanged.
func FuzzText(f *testing.F) {
	for _, s := range []string{"http://u:p@h", "x=https://u:p@h", "secret_key=x", "://@", "a://b://c:d@e", "token=token=x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := secret.Text(s)
		if twice := secret.Text(once); twice != once {
			t.Errorf("%q: %q, then %q", s, once, twice)
		}
		if !strings.ContainsAny(s, "@=") && once != s {
			t.Errorf("%q became %q", s, once)
		}
	})
}
