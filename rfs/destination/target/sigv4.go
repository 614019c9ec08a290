package target

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"github.com/rfsd/rfsd/rfs/base/awsconfig"
	"github.com/rfsd/rfsd/rfs/base/fault"
)

// SigV4 configures signing requests with AWS Signature Version 4. Credentials are from the default chain:
// variables, shared files, container and instance roles. Empty fields are taken from the host name
// (<name>.<region>.es.amazonaws.com, <id>.<region>.aoss.amazonaws.com), or the region from the chain.
type SigV4 struct {
	Region  string
	Service string // "es" (domains), the default, or "aoss" (collections of OpenSearch Serverless)
	RoleARN string // role to assume with the default credentials; "" for none
}

// The AWS services of signed requests.
const (
	domains     = "es"
	collections = "aoss"
)

// hashHeader is the header with the SHA-256 of the body in hexadecimal.
const hashHeader = "X-Amz-Content-Sha256"

// signing is a transport that signs requests. It does not read bodies: the sender sets their
// hash in hashHeader.
type signing struct {
	next            http.RoundTripper
	signer          *v4.Signer
	creds           aws.CredentialsProvider
	region, service string
	origin          string // source of the credentials, as the SDK names it
}

// newSigning returns a signing transport with region, service and credentials. Errors are fault.ErrConfig.
func newSigning(ctx context.Context, conf Config, u *url.URL) (*signing, error) {
	region, service := fromHost(u.Hostname())
	region, service = cmp.Or(conf.SigV4.Region, region), cmp.Or(conf.SigV4.Service, service, domains)
	if service != domains && service != collections {
		return nil, fmt.Errorf("%s %s: AWS service %q is neither %s (domains) nor %s (collections): %w", conf.Role, u, service, domains, collections, fault.ErrConfig)
	}
	cfg, err := awsconfig.Load(ctx, awsconfig.Options{Region: region, RegionSetting: "--" + conf.Role + "-aws-region", RoleARN: conf.SigV4.RoleARN})
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", conf.Role, u, err)
	}
	s := &signing{signer: v4.NewSigner(), creds: cfg.Credentials, region: cfg.Region, service: service}
	creds, err := awsconfig.Credentials(ctx, s.creds) // report errors before the first request
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w: %w", conf.Role, u, err, fault.ErrConfig)
	}
	s.origin = creds.Source
	return s, nil
}

// Serverless reports whether the target is a collection of OpenSearch Serverless, by its address or the service of the signature.
// It returns fault.ErrConfig if the configuration does not suit a collection.
func (c Config) Serverless() (bool, error) {
	addresses, err := Addresses(c.URL)
	if err != nil {
		return false, err
	}
	is := c.SigV4 != nil && c.SigV4.Service == collections
	for _, a := range addresses {
		_, service := fromHost(a.Hostname())
		is = is || service == collections
	}
	switch {
	case !is:
		return false, nil
	case c.Role != "" && c.Role != "target":
		return true, fmt.Errorf("%s %s: %w", c.Role, addresses[0], ErrServerless)
	case c.SigV4 == nil:
		return true, fmt.Errorf("%s %s: a collection of OpenSearch Serverless takes signed requests only: give --%s-aws-sigv4: %w", c.Role, addresses[0], c.Role, fault.ErrConfig)
	case c.SigV4.Service != "" && c.SigV4.Service != collections:
		return true, fmt.Errorf("%s %s: the requests to a collection are signed for the service %s, not %q: %w", c.Role, addresses[0], collections, c.SigV4.Service, fault.ErrConfig)
	case c.RunPipelines, len(addresses) > 1, c.Discover:
		return true, fmt.Errorf("%s %s: a collection of OpenSearch Serverless has one address, no nodes and no ingest pipelines: leave out --run-pipelines and further addresses: %w", c.Role, addresses[0], fault.ErrConfig)
	}
	return true, nil
}

// fromHost returns the region and service in the host name of an AWS endpoint.
func fromHost(host string) (region, service string) {
	if name, ok := strings.CutSuffix(host, ".on.aws"); ok { // <id>.aoss.<region>.on.aws
		if f := strings.Split(name, "."); len(f) == 3 && f[1] == collections {
			return f[2], f[1]
		}
		return "", ""
	}
	name, ok := strings.CutSuffix(host, ".amazonaws.com")
	if !ok {
		return "", ""
	}
	f := strings.Split(name, ".")
	if n := len(f); n >= 3 && (f[n-1] == domains || f[n-1] == collections) {
		return f[n-2], f[n-1]
	}
	return "", ""
}

// RoundTrip signs a copy of the request and sends it.
func (s *signing) RoundTrip(req *http.Request) (*http.Response, error) {
	creds, err := awsconfig.Credentials(req.Context(), s.creds)
	if err != nil {
		return nil, err
	}
	signed := req.Clone(req.Context())
	if s.service == collections { // collections do not receive the client's Content-Length
		signed.ContentLength = 0
	}
	err = s.signer.SignHTTP(req.Context(), creds, signed, req.Header.Get(hashHeader), s.service, s.region, time.Now())
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	signed.ContentLength = req.ContentLength
	return s.next.RoundTrip(signed)
}

// identity returns the signer and the scope of the signature, without secrets.
func (s *signing) identity() string {
	return fmt.Sprintf("the AWS credentials of %s (region %s, service %s)", cmp.Or(s.origin, "the default chain"), s.region, s.service)
}

// renew triggers a refresh of temporary credentials if the response reports that they have expired, and
// reports whether that can help.
func (s *signing) renew(ctx context.Context, status int, answer []byte) bool {
	if status != http.StatusForbidden {
		return false
	}
	_, reason := awsErrorMessage(answer)
	if !strings.Contains(reason, "token") || !strings.Contains(reason, "expired") {
		return false
	}
	return awsconfig.Renew(ctx, s.creds)
}

// advice returns the remedy for a rejected signed request.
func advice(reason string) string {
	switch low := strings.ToLower(reason); {
	case strings.Contains(low, "signature expired"), strings.Contains(low, "not yet current"):
		return "set this machine's clock"
	case strings.Contains(low, "valid region"):
		return "state the AWS region of the target"
	case strings.Contains(low, "correct service"):
		return "state the AWS service of the target: es for domains, aoss for collections of OpenSearch Serverless"
	case strings.Contains(low, "security token"):
		return "check the access key and its session token (AWS_SESSION_TOKEN)"
	case strings.Contains(low, "signature we calculated"):
		return "check the secret access key, and that no proxy changes requests"
	}
	return checkPolicies
}

// checkPolicies is the remedy for a request that is signed rightly.
const checkPolicies = "check that the access policy of the target admits them, and its fine-grained access control or, of a collection, its data access policy"

// bodyHash returns the SHA-256 of a body in hexadecimal.
func bodyHash(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:])
}

// unsigned reports whether a request was not sent for lack of credentials.
func unsigned(err error) bool {
	var none *awsconfig.NoCredentialsError
	return errors.As(err, &none)
}
