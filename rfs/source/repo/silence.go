package repo

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"

	"github.com/rfsd/rfsd/rfs/base/fault"
)

// errUnreachable means that the address of the store accepts no connections, or that its host name is unknown. It is a
// fault.ErrUnavailable.
var errUnreachable = fmt.Errorf("%w", fault.ErrUnavailable)

// silence describes a store that does not answer: its address, and the option to check.
type silence struct {
	where     string // the address that does not answer
	remedy    string // what to check
	setting   string // the option that names the address
	authority string // the variable with the file of CA certificates
	noHost    string // what else to check when the host name is unknown
}

// of returns the error of a request without a response, without the text of the client library.
func (s silence) of(err error) error {
	kind := fault.ErrUnavailable
	var dns *net.DNSError
	var op *net.OpError
	var invalid *tls.CertificateVerificationError
	why := err
	switch {
	case errors.As(err, &invalid):
		why, s.remedy = invalid.Err, "name the authority's certificate in "+s.authority+", or check "+s.setting
	case strings.Contains(err.Error(), "HTTP response to HTTPS client"): // net/http has no error value for it
		why, s.remedy = errors.New("no TLS there"), "is it http:// in "+s.setting+"?"
	case errors.As(err, &dns):
		why = dns
		if dns.IsNotFound {
			kind = errUnreachable
		}
		s.remedy += s.noHost
	case errors.As(err, &op):
		why = op.Err
		if errors.Is(err, syscall.ECONNREFUSED) {
			kind = errUnreachable
		}
	default:
		for next := errors.Unwrap(why); next != nil; next = errors.Unwrap(why) {
			why = next
		}
	}
	return fmt.Errorf("%s does not answer: %s; %s: %w", s.where, why.Error(), s.remedy, kind)
}
