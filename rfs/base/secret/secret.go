// Package secret finds credentials in values and texts, by one set of rules: user and password in an address, also after NAME=, and
// KEY=VALUE with a key that names a secret.
package secret

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// Mask replaces a secret.
const Mask = "***"

// Option reports whether the value of an option is secret, judging by the option's name.
func Option(name string) bool {
	return slices.ContainsFunc([]string{"-password", "-secret", "-secret-key", "-token", "-api-key", "-passphrase"}, func(end string) bool { return strings.HasSuffix(name, end) })
}

// patterns are options whose values are PATTERN=VALUE over names of indices: "tokens=x" is not a secret.
var patterns = []string{"index-rename", "shards", "index-priority", "first", "index-allowlist", "index-exclude", "join"}

// In reports whether the value of an option contains a secret: by the option's name, a user or password in an address, or KEY=VALUE.
func In(option, value string) bool {
	if value == "" {
		return false
	}
	if Option(option) || user(value) {
		return true
	}
	if slices.Contains(patterns, option) {
		return false
	}
	at := assignment.FindStringSubmatchIndex(value)
	return at != nil && at[0] == 0
}

// user reports whether an address in the text contains a user or a password.
func user(text string) bool { return Text(text, addresses) != text }

// assignment is KEY=VALUE with a key that names a secret. Its first group is the key with "=".
var assignment = regexp.MustCompile(`(?i)((?:\b|_)[a-z0-9_.-]*(?:secret|passw(?:or)?d|passphrase|token|credential|signature|(?:access|api|private|secret|master|client)[_-]?key)[a-z0-9_.-]*=)([^\s"'&,;<>\\]+)`)

// Rule is one form of secrets that Text masks.
type Rule func(string) string

// Text returns a text with its secrets masked. rules selects the forms; without rules, all forms are masked.
func Text(text string, rules ...Rule) string {
	if len(rules) == 0 {
		rules = []Rule{addresses, assignments}
	}
	for _, r := range rules {
		text = r(text)
	}
	return text
}

func assignments(text string) string {
	if !strings.Contains(text, "=") {
		return text
	}
	return assignment.ReplaceAllString(text, "${1}"+Mask)
}

// addresses masks the text between :// and @ of each address. A password may itself contain unescaped / and @.
func addresses(text string) string {
	var b strings.Builder
	for {
		i := strings.Index(text, "://")
		if i < 0 {
			break
		}
		i += len("://")
		b.WriteString(text[:i])
		text = text[i:]
		end := strings.IndexAny(text, " \t\r\n\"'<>`,")
		if end < 0 {
			end = len(text)
		}
		if next := strings.Index(text[:end], "://"); next >= 0 {
			end = next
		}
		if at := userEnd(text[:end]); at >= 0 {
			b.WriteString(Mask)
			text = text[at:]
		}
	}
	b.WriteString(text)
	return b.String()
}

// userEnd returns the index of the @ after user and password in the text after ://, or -1 if it has neither.
func userEnd(rest string) int {
	authority := rest
	if i := strings.IndexAny(rest, "/?#"); i >= 0 {
		authority = rest[:i]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		return at
	}
	_, port, ok := strings.Cut(authority, ":")
	if !ok || strings.HasPrefix(authority, "[") || strings.Trim(port, "0123456789") == "" {
		return -1
	}
	return strings.LastIndexByte(rest, '@') // not a port, but the start of a password
}

// Address returns an address with everything after scheme and host masked, for addresses that are secret as a whole, such as a webhook's.
func Address(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return Mask
	}
	if u.Path == "" && u.RawQuery == "" && u.Fragment == "" && u.User == nil {
		return text
	}
	return u.Scheme + "://" + u.Host + "/" + Mask
}

// Arguments returns the options of a command line that have secret values, which every user of the machine can read.
func Arguments(args []string) []string {
	var found []string
	for i, arg := range args {
		if arg == "--" {
			break
		}
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, value, ok := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if !ok && i+1 < len(args) {
			value = args[i+1]
		}
		if In(name, value) && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	return found
}

// Shown returns the value of an option for display: without secrets, and without the query of an address.
func Shown(option, value string) string {
	switch {
	case Option(option):
		return Mask
	case option == "webhook":
		return Address(value)
	case slices.Contains(patterns, option):
		return Text(value, addresses)
	}
	value = Text(value)
	if address, query, ok := strings.Cut(value, "?"); ok && query != "" && strings.Contains(address, "://") {
		return address + "?" + Mask
	}
	return value
}
