package target

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// Maximum numbers of given addresses, and of given and discovered addresses.
const (
	maxGiven = 32
	maxNodes = 64
)

// Addresses returns the addresses in a text: http(s)://host:port[/prefix], separated by commas. Errors are fault.ErrConfig and
// contain no password.
func Addresses(text string) ([]*url.URL, error) {
	var all []*url.URL
	for part := range strings.SplitSeq(text, ",") {
		u, err := url.Parse(strings.TrimSpace(part))
		if err != nil {
			// url.Error repeats the URL, which may contain a password.
			if ue := (*url.Error)(nil); errors.As(err, &ue) {
				err = ue.Err
			}
			return nil, fmt.Errorf("target URL: %w: %w", err, fault.ErrConfig)
		}
		if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.RawQuery != "" || u.Fragment != "" {
			return nil, fmt.Errorf("target URL %s is not http(s)://host:port: %w", u.Redacted(), fault.ErrConfig)
		}
		u.Path = strings.TrimRight(u.Path, "/")
		all = append(all, u)
	}
	return all, nil
}

// addresses checks the addresses and removes the user from them. Addresses of one cluster differ in host and port only.
func (c *Config) addresses() ([]*url.URL, error) {
	all, err := Addresses(c.URL)
	if err != nil {
		return nil, err
	}
	if len(all) > maxGiven {
		return nil, fmt.Errorf("--%s-host has %d addresses, at most %d are used: %w", c.Role, len(all), maxGiven, fault.ErrConfig)
	}
	user := all[0].User
	seen := map[string]bool{}
	for _, u := range all {
		if u.User != nil && (user == nil || u.User.String() != user.String()) {
			return nil, fmt.Errorf("--%s-host: %s has another user than %s: all addresses belong to one cluster: %w", c.Role, u.Redacted(), all[0].Redacted(), fault.ErrConfig)
		}
		if u.Scheme != all[0].Scheme || u.Path != all[0].Path {
			return nil, fmt.Errorf("--%s-host: %s and %s: addresses of one cluster differ in host and port only: %w", c.Role, all[0].Redacted(), u.Redacted(), fault.ErrConfig)
		}
		if seen[u.Host] {
			return nil, fmt.Errorf("--%s-host: %s is given twice: %w", c.Role, u.Host, fault.ErrConfig)
		}
		seen[u.Host], u.User = true, nil
	}
	if user != nil && c.Username == "" {
		c.Username = user.Username()
		c.Password, _ = user.Password()
	}
	return all, c.mayDiscover(all[0])
}

// mayDiscover returns an error for Discover without a CA configured by the user. Only such a CA identifies the nodes of the
// cluster: the system's CAs sign certificates for any host.
func (c *Config) mayDiscover(first *url.URL) error {
	if !c.Discover {
		return nil
	}
	var lacks string
	switch {
	case first.Scheme != "https":
		lacks = fmt.Sprintf("--%s-host with https://", c.Role)
	case c.Insecure:
		lacks = fmt.Sprintf("verified certificates, not --%s-insecure", c.Role)
	case c.CACert == "":
		lacks = fmt.Sprintf("--%s-cacert, the authority that signs the certificates of the cluster's nodes and of no other host", c.Role)
	case c.SigV4 != nil:
		lacks = "a cluster that is not a domain of AWS, which has one address"
	case first.Path != "":
		lacks = fmt.Sprintf("--%s-host without a path: nodes are not behind one", c.Role)
	default:
		return nil
	}
	return fmt.Errorf("--%s-discover sends credentials to addresses that the cluster names, and needs %s: %w", c.Role, lacks, fault.ErrConfig)
}
